"""Measure a model that uses the hub as an agent: `python -m bench.agent`. Prints a JSON line for each.

The demo's questions (quality_questions.toml) go to the configured model twice: alone, and with the tools
get_context, search and fetch of `manage.py mcp`, as of the evening of each question. MEMORYHUB_KEY is a key
of the demo's workspace. A question is a hit if the answer contains all its strings, and recall is their
mean share. With a number as argument only that many questions are asked.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import django
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from openai import OpenAI

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("get_context", "search", "fetch")
BUDGET = 1_000  # tokens of a context
MOST_CALLS = 4  # of tools, for one question
LONGEST = 6_000  # characters of a tool's answer
ALONE = (
    "You answer questions of a team that builds the app Kazoe. Now it is {now:%A %d %B %Y}. Answer in one"
    " or two sentences, with the exact names, numbers and dates. Say so if you do not know."
)
WITH_TOOLS = (
    f"{ALONE} You know nothing about the team yourself: first call get_context with the channel and the"
    " question, and search or fetch only if the answer is not in it."
)


class Agent:
    """A model with the hub's tools, or with none."""

    def __init__(self, model: str, hub: Client | None, tools: list[dict[str, Any]]) -> None:
        self.client = OpenAI()
        self.model = model
        self.hub = hub
        self.tools = tools
        self.calls = 0

    async def answer(self, question: Any) -> str:
        prompt = (WITH_TOOLS if self.hub else ALONE).format(now=question.at)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": f"In #{question.channel}: {question.text}"},
        ]
        for number in range(MOST_CALLS + 1):
            choice = "required" if number == 0 else "auto" if number < MOST_CALLS else "none"
            options = {"tools": self.tools, "tool_choice": choice} if self.hub else {}
            completion = await asyncio.to_thread(
                self.client.chat.completions.create,
                model=self.model,
                messages=messages,
                max_tokens=200,
                **options,
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                break
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                text = await self._use(call.function.name, call.function.arguments, question)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        return message.content or ""

    async def _use(self, name: str, arguments: str, question: Any) -> str:
        assert self.hub is not None
        self.calls += 1
        try:
            given = json.loads(arguments)
        except ValueError:
            return "The arguments are not JSON."
        if name == "get_context":
            given |= {"at": question.at.isoformat(), "budget": BUDGET}
        result = await self.hub.call_tool(name, given)
        return "".join(part.text for part in result.content)[:LONGEST]


def as_function(tool: Any) -> dict[str, Any]:
    """Return a tool of MCP in the form of chat completions."""
    parameters = tool.input_schema
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
        },
    }


async def measure(limit: int | None) -> None:
    from django.utils import timezone

    from bench.quality import Score, demo_questions

    model = os.environ["MEMORYHUB_MODEL"]
    questions = (await asyncio.to_thread(demo_questions, timezone.now()))[:limit]
    server = StdioServerParameters(
        command=sys.executable, args=["manage.py", "mcp"], env=dict(os.environ), cwd=ROOT
    )
    async with Client(server) as hub:
        tools = [as_function(tool) for tool in (await hub.list_tools()).tools if tool.name in TOOLS]
        for name, agent in (("alone", Agent(model, None, [])), ("hub", Agent(model, hub, tools))):
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
