"""The summariser behind an OpenAI-compatible endpoint (chat completions)."""

import math
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memories.rules import prompts
from memories.rules.parts import combination, halves, restored
from memories.rules.reply import read_reply, with_refs
from memories.rules.summary import NOTHING, Reply, Request, SummariserError
from memories.rules.tokens import estimate

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion

OPENAI = "https://api.openai.com/v1"
INPUT_LIMIT = 24_000  # estimated prompt tokens; a longer request is split and combined (rule 11)


class ModelSummariser:
    """One client, shared by the threads of a pass. ``timeout`` in seconds for each call; the
    client never tries again by itself, for the generation's row counts the attempts."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = "",
        model: str,
        timeout: float,
        input_limit: int = INPUT_LIMIT,
    ) -> None:
        self.name = model
        self._api_key = api_key or "none"  # local endpoints ask for no key, the client does
        self._base_url = base_url or OPENAI
        self._timeout = timeout
        self._input_limit = input_limit
        self._opened: OpenAI | None = None
        self._lock = threading.Lock()

    def prompt_version(self, request: Request) -> str:
        return prompts.version(request)

    def summarise(self, request: Request) -> Reply:
        """The reply to the request, or to its halves and then to their combination."""
        size = estimate(prompts.system_text(request)) + estimate(
            prompts.user_text(request, "0" * 8)
        )
        parts = halves(request) if size > self._input_limit else ()
        if parts:
            return self._combined(request, parts)
        try:
            return self._call(request)
        except SummariserError as error:
            # The endpoint takes less than we thought.
            if error.code != "context_too_long" or not (parts := halves(request)):
                raise
            return self._combined(request, parts)

    def _combined(self, request: Request, parts: Sequence[Request]) -> Reply:
        """The halves one after the other, then one request that merges their lines. The first
        reply that is no good is the reply to the whole; tokens and calls are those of all."""
        spent: list[Reply] = []
        readings = []
        for part in parts:
            spent.append(self.summarise(part))
            readings.append(read_reply(spent[-1], part))
            if readings[-1].fault:
                return _total(request, spent[-1], spent)
        whole = combination(request, readings)
        if whole.is_empty:
            return _total(request, replace(spent[-1], text=NOTHING), spent)
        if sum(bool(reading.lines) for reading in readings) == 1:
            [only] = [
                reply for reply, reading in zip(spent, readings, strict=True) if reading.lines
            ]
            return _total(request, only, spent)
        # Never split again: combining does not get shorter by it.
        spent.append(self._call(whole))
        reading = read_reply(spent[-1], whole)
        if reading.fault or reading.nothing:
            return _total(request, spent[-1], spent)
        text = with_refs(restored(reading, readings))
        return _total(request, replace(spent[-1], text=text), spent)

    def _call(self, request: Request) -> Reply:
        import openai  # half a second: only a process that calls a model pays it

        from memories.llm import faults

        prompt = prompts.build(request, _new_key())
        started = time.monotonic()
        try:
            answer = self._client().chat.completions.create(
                model=self.name,
                messages=[
                    {"role": "system", "content": prompt.system},
                    {"role": "user", "content": prompt.user},
                ],
                **self._limit(request.max_tokens),
            )
        except openai.OpenAIError as error:
            raise faults.fault(error) from error
        except ValueError as error:  # a body that is no JSON
            raise faults.malformed(error) from error
        try:
            return _reply(answer, prompt, self.name, time.monotonic() - started)
        except AttributeError as error:  # a body of another kind
            raise faults.malformed(error) from error

    def _limit(self, most: int) -> dict[str, Any]:
        """OpenAI's own models take the new name only, most other endpoints the old one."""
        own = urlsplit(self._base_url).hostname == urlsplit(OPENAI).hostname
        return {"max_completion_tokens" if own else "max_tokens": most}

    def _client(self) -> "OpenAI":
        with self._lock:
            if self._opened is None:
                from openai import OpenAI

                self._opened = OpenAI(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    timeout=self._timeout,
                    max_retries=0,
                )
            return self._opened


def _reply(answer: "ChatCompletion", prompt: prompts.Prompt, named: str, seconds: float) -> Reply:
    """The endpoint's answer in our words; what it does not say about tokens is estimated."""
    if not answer.choices:
        raise SummariserError("empty", "The endpoint answered without a completion.")
    choice, usage = answer.choices[0], answer.usage
    text = choice.message.content or ""
    refused = not text and getattr(choice.message, "refusal", None)
    return Reply(
        text=text,
        finish_reason="refusal" if refused else str(choice.finish_reason),
        model=answer.model or named,
        prompt_version=prompt.version,
        prompt_tokens=(usage and usage.prompt_tokens) or _tokens(prompt),
        completion_tokens=(usage and usage.completion_tokens) or estimate(text),
        calls=1,
        seconds=seconds,
    )


def _new_key() -> str:
    return secrets.token_hex(4)


def _tokens(prompt: prompts.Prompt) -> int:
    return estimate(prompt.system) + estimate(prompt.user)


def _total(request: Request, reply: Reply, spent: Sequence[Reply]) -> Reply:
    return replace(
        reply,
        prompt_version=prompts.version(request),
        prompt_tokens=sum(r.prompt_tokens for r in spent),
        completion_tokens=sum(r.completion_tokens for r in spent),
        calls=sum(r.calls for r in spent),
        seconds=math.fsum(r.seconds for r in spent),
    )
