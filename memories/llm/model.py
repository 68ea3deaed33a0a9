"""The summariser that calls an OpenAI-compatible endpoint (chat completions)."""

import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memories.llm.deadline import CallConnection, DeadlineError, run_with_deadline, trace_request
from memories.llm.request_runner import RequestRunner
from memories.rules.generate import prompts, splitting
from memories.rules.generate.prompts import Prompt
from memories.rules.summariser import PromptForm, Reply, Request, RequestStrategy, Usage

if TYPE_CHECKING:
    from openai import OpenAI

OPENAI = "https://api.openai.com/v1"


class ModelSummariser:
    """A client that the threads of a pass share. ``timeout`` is in seconds for each whole call.

    The client never retries, because the job counts the attempts.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = "",
        model: str,
        timeout: float,
        input_limit: int = splitting.INPUT_LIMIT,
    ) -> None:
        self.name = model
        self._api_key = api_key or "none"  # the client requires a key, local endpoints do not
        self._base_url = base_url or OPENAI
        self._timeout = timeout
        self._input_limit = input_limit
        self._openai: OpenAI | None = None
        self._lock = threading.Lock()
        self._host = urlsplit(self._base_url).hostname
        self.endpoint_name = f"{model} at {self._host or self._base_url}"
        identity = f"{self._base_url.rstrip('/')}\n{model}".encode()
        self.endpoint = hmac.new(self._api_key.encode(), identity, hashlib.sha256).hexdigest()

    def prompt_version(self, request: Request) -> str:
        return prompts.prompt_version(request)

    def upper_bound(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Usage:
        return splitting.upper_bound(request, strategy, self._limit_of(request))

    def summarise(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Reply:
        return RequestRunner(request, self._call, self.name, self._limit_of(request)).run(strategy)

    def _limit_of(self, request: Request) -> int:
        return min(self._input_limit, request.input_limit or self._input_limit)

    def answer(self, prompt: Prompt, limit: int, thinking_tokens: int) -> Reply:
        """Return the reply to a prompt that requests no memory. ``limit`` excludes the thinking."""
        return self._complete(prompt, limit + thinking_tokens, PromptForm.FULL, thinking_tokens)

    def _call(self, request: Request) -> Reply:
        key = secrets.token_hex(4)
        prompt = prompts.build_prompt(request, key)
        limit = request.completion_limit
        reply = self._complete(prompt, limit, request.form, request.thinking_tokens)
        # A small model may cite the key like the number of a message.
        return replace(reply, text=re.sub(rf" ?[\[(]{key}[\])]", "", reply.text))

    def _complete(
        self, prompt: Prompt, limit: int, form: PromptForm, thinking_tokens: int
    ) -> Reply:
        import openai  # takes half a second: only a process that calls a model imports it

        from memories.llm import completions, faults  # both import openai

        client, connection = self._client(), CallConnection()
        # OpenAI's own models accept the new name only, most other endpoints the old one.
        is_openai = self._host == urlsplit(OPENAI).hostname
        limits: dict[str, Any] = {"max_completion_tokens" if is_openai else "max_tokens": limit}

        def create() -> Any:  # the response may have any type
            return client.chat.completions.create(
                model=self.name,
                messages=[
                    {"role": "system", "content": prompt.system},
                    {"role": "user", "content": prompt.user},
                ],
                **limits,
            )

        started = time.monotonic()
        try:
            response = run_with_deadline(self._timeout, connection, create)
        except DeadlineError as error:
            raise faults.timeout_error(is_sent=connection.is_sent) from error
        except openai.OpenAIError as error:
            raise faults.error_of(error, is_sent=connection.is_sent) from error
        except (ValueError, RecursionError) as error:  # invalid or too deeply nested JSON
            raise faults.malformed_error(type(error).__name__) from error
        seconds = time.monotonic() - started
        reply = completions.parse_completion(response, prompt, self.name, seconds)
        return replace(reply, form=form, thinking_tokens=thinking_tokens)

    def _client(self) -> "OpenAI":
        with self._lock:
            if self._openai is None:
                from httpx2 import Limits  # slow to import, as openai is
                from openai import DefaultHttpxClient, OpenAI

                self._openai = OpenAI(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    timeout=self._timeout,
                    max_retries=0,
                    http_client=DefaultHttpxClient(
                        # One connection for each call: none is stale, and closing it ends one call.
                        limits=Limits(max_keepalive_connections=0),
                        timeout=self._timeout,
                        event_hooks={"request": [trace_request]},
                    ),
                )
            return self._openai
