"""Measure a model that uses the hub as an agent: `python -m bench.agent`. Prints a JSON line for each.

The demo's questions (quality_questions.toml) go to the configured model twice: alone, and with the tools
get_context, search and fetch of `manage.py mcp`; its contexts are those of the evening of the question.
MEMORYHUB_KEY is a key of the demo's workspace. A question is a hit if the answer contains all its strings,
and recall is their mean share. With a number as argument only that many questions are asked.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import django
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from openai import OpenAI

ROOT = Path(__file__).resolve().parent.parent
TOOLS = {"get_context": "query", "search": "query", "fetch": "id"}  # with the argument of each
ANSWER = "answer"
BUDGET = 1_000  # tokens of a context
# What the model may do first, then, and last.
STEPS = (["get_context"], [*TOOLS, ANSWER], [ANSWER])
MAX_RESULT_LENGTH = 1_500  # characters of a search or a fetched text
ALONE = (
    "You answer questions of a team that builds the app Kazoe. Now it is {now:%A %d %B %Y}. Answer in one"
    " or two sentences, with the exact names, numbers and dates. Say so if you do not know."
)
WITH_TOOLS = (
    "\nYou know nothing about the team yourself. Each of your replies is a JSON object: the name of a tool"
    " with its text and channel, or answer with the answer as text. The tools are:\n"
)


class Agent:
    """A model with the hub's tools, or with none.

    It names the next tool in JSON of a schema, since not every small model can call functions.
    """

    def __init__(self, model: str, hub: Client | None, tools: str) -> None:
        self.client = OpenAI()
        self.model = model
        self.hub = hub
        self.tools = tools
        self.calls = 0

    async def answer(self, question: Any) -> str:
        prompt = ALONE.format(now=question.at)
        asked = f"In #{question.channel}: {question.text}"
        messages = [
            {"role": "system", "content": prompt + (WITH_TOOLS + self.tools if self.hub else "")},
            {"role": "user", "content": asked},
        ]
        if self.hub is None:
            return await self._complete(messages)
        for steps in STEPS:
            content = await self._complete(messages, steps)
            try:
                step = json.loads(content)
            except ValueError:
                return content
            if step["tool"] == ANSWER:
                return str(step["text"])
            text = await self._use(step, question)
            messages.append({"role": "assistant", "content": content})
            messages.append({"role": "user", "content": f"{text}\n\n{asked}"})
        return ""

    async def _complete(self, messages: list[dict[str, str]], steps: Sequence[str] = ()) -> str:
        text = {"type": "string"}
        properties = {"tool": {"enum": steps}, "channel": text, "text": text}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        form = {"type": "json_schema", "json_schema": {"name": "step", "schema": schema}}
        completion = await asyncio.to_thread(
            self.client.chat.completions.create,
            model=self.model,
            messages=messages,
            max_tokens=200,
            **({"response_format": form} if steps else {}),
        )
        return (completion.choices[0].message.content or "").strip()

    async def _use(self, step: dict[str, str], question: Any) -> str:
        assert self.hub is not None
        self.calls += 1
        given: dict[str, Any] = {TOOLS[step["tool"]]: step["text"]}
        if step["tool"] != "fetch":
            given["in" if step["tool"] == "search" else "channel"] = step["channel"]
        if step["tool"] == "get_context":
            given |= {"at": question.at.isoformat(), "budget": BUDGET}
        result = await self.hub.call_tool(step["tool"], given)
        text = "".join(part.text for part in result.content)
        return text if step["tool"] == "get_context" else text[:MAX_RESULT_LENGTH]


async def measure(limit: int | None) -> None:
    from django.utils import timezone

    from bench.quality import Score, demo_questions

    model = os.environ["MEMORYHUB_MODEL"]
    questions = (await asyncio.to_thread(demo_questions, timezone.now()))[:limit]
    server = StdioServerParameters(
        command=sys.executable, args=["manage.py", "mcp"], env=dict(os.environ), cwd=ROOT
    )
    async with Client(server) as hub:
        tools = "\n".join(
            f"{tool.name}: {tool.description.splitlines()[0]}"
            for tool in (await hub.list_tools()).tools
            if tool.name in TOOLS
        )
        for name, agent in (("alone", Agent(model, None, "")), ("hub", Agent(model, hub, tools))):
            score, began = Score(), time.monotonic()
            for question in questions:
                answer = await agent.answer(question)
                score.add(question, answer)
                print(f"{name}: {question.text}\n    {answer!r}", file=sys.stderr, flush=True)
            row = {"agent": name, "asked": score.asked, "hits": score.hits}
            row |= {"recall": round(score.recall / max(score.asked, 1), 3)}
            row |= {"calls": agent.calls, "seconds": round(time.monotonic() - began)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    asyncio.run(measure(int(sys.argv[1]) if sys.argv[1:] else None))
