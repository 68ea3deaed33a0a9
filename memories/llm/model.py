"""The summariser behind an OpenAI-compatible endpoint (chat completions)."""

import hashlib
import hmac
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
from memories.rules.generate.summariser import Bound, PromptForm, Reply, Request, RequestStrategy

if TYPE_CHECKING:
    from openai import OpenAI

OPENAI = "https://api.openai.com/v1"


class ModelSummariser:
    """One client, shared by the threads of a pass. ``timeout`` in seconds for each call as a whole;
    the client never tries again by itself, for the job's row counts the attempts."""

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
        self._api_key = api_key or "none"  # local endpoints ask for no key, the client does
        self._base_url = base_url or OPENAI
        self._timeout = timeout
        self._input_limit = input_limit
        self._opened: OpenAI | None = None
        self._lock = threading.Lock()
        host = urlsplit(self._base_url).hostname or self._base_url
        self.endpoint_name = f"{model} at {host}"
        known_as = f"{self._base_url.rstrip('/')}\n{model}".encode()
        self.endpoint = hmac.new(self._api_key.encode(), known_as, hashlib.sha256).hexdigest()

    def prompt_version(self, request: Request) -> str:
        return prompts.prompt_version(request)

    def bound(self, request: Request, way: RequestStrategy = RequestStrategy.WHOLE) -> Bound:
        return splitting.upper_bound(request, way, self._limit_of(request))

    def summarise(self, request: Request, way: RequestStrategy = RequestStrategy.WHOLE) -> Reply:
        return RequestRunner(request, self._call, self.name, self._limit_of(request)).reply(way)

    def _limit_of(self, request: Request) -> int:
        return min(self._input_limit, request.input_limit or self._input_limit)

    def answer(self, prompt: Prompt, limit: int, thinking_tokens: int) -> Reply:
        """The reply to a prompt that asks for no memory, of so many tokens beside its thoughts."""
        return self._complete(prompt, limit + thinking_tokens, PromptForm.FULL, thinking_tokens)

    def _call(self, request: Request) -> Reply:
        prompt = prompts.build_prompt(request, secrets.token_hex(4))
        limit = request.completion_limit
        return self._complete(prompt, limit, request.form, request.thinking_tokens)

    def _complete(
        self, prompt: Prompt, limit: int, form: PromptForm, thinking_tokens: int
    ) -> Reply:
        import openai  # half a second: only a process that calls a model pays it

        from memories.llm import completions, faults

        client, wire = self._client(), CallConnection()

        def create() -> Any:  # whatever the endpoint sent
            return client.chat.completions.create(
                model=self.name,
                messages=[
                    {"role": "system", "content": prompt.system},
                    {"role": "user", "content": prompt.user},
                ],
                **self._limit(limit),
            )

        started = time.monotonic()
        try:
            answer = run_with_deadline(self._timeout, wire, create)
        except DeadlineError as error:
            raise faults.timeout_error(sent=wire.sent) from error
        except openai.OpenAIError as error:
            raise faults.error_of(error, sent=wire.sent) from error
        except (ValueError, RecursionError) as error:  # a body that is no JSON, or a bottomless one
            raise faults.malformed_error(type(error).__name__) from error
        reply = completions.parse_completion(answer, prompt, self.name, time.monotonic() - started)
        return replace(reply, form=form, thinking_tokens=thinking_tokens)

    def _limit(self, most: int) -> dict[str, Any]:
        """OpenAI's own models take the new name only, most other endpoints the old one."""
        own = urlsplit(self._base_url).hostname == urlsplit(OPENAI).hostname
        return {"max_completion_tokens" if own else "max_tokens": most}

    def _client(self) -> "OpenAI":
        with self._lock:
            if self._opened is None:
                from httpx2 import Limits
                from openai import DefaultHttpxClient, OpenAI

                self._opened = OpenAI(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    timeout=self._timeout,
                    max_retries=0,
                    http_client=DefaultHttpxClient(
                        # Each call has its own connection: none that went stale since the last
                        # one, and none but its own to cut.
                        limits=Limits(max_keepalive_connections=0),
                        timeout=self._timeout,
                        event_hooks={"request": [trace_request]},
                    ),
                )
            return self._opened
