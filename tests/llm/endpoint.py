"""A chat-completions endpoint on loopback that answers what it is told and keeps what it was sent."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request as HttpRequest
from werkzeug import Response

from memories.llm import ModelSummariser

PATH = "/v1/chat/completions"


def completion(
    text: str | None, finish_reason: str | None = "stop", **parts: Any
) -> dict[str, Any]:
    """The body of a good answer."""
    message = {"role": "assistant", "content": text, "refusal": parts.pop("refusal", None)}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny-2026"}
    return {**body, "choices": [choice], "usage": usage} | parts


@dataclass
class Endpoint:
    server: HTTPServer
    asked: list[dict[str, Any]] = field(default_factory=list)  # the bodies, in order

    def answers(self, *bodies: dict[str, Any] | str) -> None:
        """One body (or one text) after the other; the last one again and again."""
        left = [completion(body) if isinstance(body, str) else body for body in bodies]

        def answer(request: HttpRequest) -> Response:
            self.asked.append(request.get_json())
            body = left.pop(0) if len(left) > 1 else left[0]
            return Response(json.dumps(body), content_type="application/json")

        self.server.expect_request(PATH, method="POST").respond_with_handler(answer)

    def decides(self, decide: Callable[[str], dict[str, Any] | str | tuple[int, str]]) -> None:
        """A body, a text, or (status, code) of an error, by what the user message says."""

        def answer(request: HttpRequest) -> Response:
            self.asked.append(request.get_json())
            decided = decide(self.prompt()[1])
            if isinstance(decided, tuple):
                status, code = decided
                error = json.dumps({"error": {"message": "no", "code": code}})
                return Response(error, status=status, content_type="application/json")
            body = completion(decided) if isinstance(decided, str) else decided
            return Response(json.dumps(body), content_type="application/json")

        self.server.expect_request(PATH, method="POST").respond_with_handler(answer)

    def refuses(self, status: int, error: dict[str, Any] | None = None, **headers: str) -> None:
        body = {"error": {"message": "no"} | (error or {})}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.server.expect_request(PATH, method="POST").respond_with_json(
            body, status=status, headers=named
        )

    def summariser(self, **options: Any) -> ModelSummariser:
        values = {"api_key": "sk-test", "model": "tiny", "timeout": 5.0}
        return ModelSummariser(base_url=self.server.url_for("/v1"), **{**values, **options})

    def prompt(self, call: int = -1) -> tuple[str, str]:
        """System and user message of a call."""
        system, user = self.asked[call]["messages"]
        assert (system["role"], user["role"]) == ("system", "user")
        return system["content"], user["content"]
