"""A local chat-completions endpoint with planned replies, which keeps the requests."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request as HttpRequest
from werkzeug import Response

from memories.llm import ModelSummariser
from tests.processes import PATIENCE

PATH = "/v1/chat/completions"


def completion(
    text: str | None, finish_reason: str | None = "stop", **parts: Any
) -> dict[str, Any]:
    """Return the body of a good response."""
    message = {"role": "assistant", "content": text, "refusal": parts.pop("refusal", None)}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny-2026"}
    return {**body, "choices": [choice], "usage": usage} | parts


def use_model(settings: Any, server: HTTPServer, model: str = "tiny") -> None:
    """Configure this model on the server, with a key."""
    settings.MEMORYHUB_MODEL, settings.OPENAI_API_KEY = model, "sk-test"
    settings.OPENAI_BASE_URL = server.url_for("/v1")


@dataclass
class FakeEndpoint:
    server: HTTPServer
    requests: list[dict[str, Any]] = field(default_factory=list)  # the bodies, in order

    def reply_with(self, *bodies: dict[str, Any] | str) -> None:
        """Reply with one body or text after another. The last one repeats."""
        planned = list(bodies)
        self.reply_by(lambda prompt: planned.pop(0) if len(planned) > 1 else planned[0])

    def reply_by(self, choose: Callable[[str], dict[str, Any] | str | tuple[int, str]]) -> None:
        """Reply with a body, a text, or status and code of an error, chosen by the user message."""

        def handle(request: HttpRequest) -> Response:
            self.requests.append(request.get_json())
            body = choose(self.prompt()[1])
            if isinstance(body, tuple):
                status, code = body
                return _json({"error": {"message": "no", "code": code}}, status)
            return _json(completion(body) if isinstance(body, str) else body)

        self.server.expect_request(PATH, method="POST").respond_with_handler(handle)

    def fail_with(self, status: int, error: dict[str, Any] | None = None, **headers: str) -> None:
        body = {"error": {"message": "no"} | (error or {})}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.server.expect_request(PATH, method="POST").respond_with_json(
            body, status=status, headers=named
        )

    def summariser(self, **options: Any) -> ModelSummariser:
        values = {"api_key": "sk-test", "model": "tiny", "timeout": PATIENCE}
        return ModelSummariser(base_url=self.server.url_for("/v1"), **{**values, **options})

    def prompt(self, call: int = -1) -> tuple[str, str]:
        """Return the system and the user message of a call."""
        system, user = self.requests[call]["messages"]
        assert (system["role"], user["role"]) == ("system", "user")
        return system["content"], user["content"]


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json")
