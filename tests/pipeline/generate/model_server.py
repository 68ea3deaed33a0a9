"""A chat-completions endpoint on loopback whose answers a test sets."""

import json
from collections.abc import Callable

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.llm import ModelSummariser
from tests.llm.endpoint import completion
from tests.processes import PATIENCE

GOOD = "- Steps 0 to 9 are done. [1 10]"


def answer(text: str | None = GOOD, finish: str = "stop", refusal: str | None = None) -> Response:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    body = completion(text, finish, refusal=refusal, model="test-1", usage=usage)
    return Response(json.dumps(body), 200, mimetype="application/json")


def error(status: int, code: str = "", **headers: str) -> Response:
    body = json.dumps({"error": {"message": "no", "type": "x", "code": code or None}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status, named, mimetype="application/json")


def summariser_at(url: str, *, key: str = "k", timeout: float = PATIENCE) -> ModelSummariser:
    return ModelSummariser(api_key=key, base_url=url, model="test-1", timeout=timeout)


class ModelServer:
    """Gives the answers of ``script`` first, then those of ``reply``. ``prompts`` are user texts."""

    def __init__(self, server: HTTPServer) -> None:
        self.prompts: list[str] = []
        self.script: list[Response] = []
        self.reply: Callable[[str], Response] = lambda user: answer()
        self.url = server.url_for("/v1")
        server.expect_request("/v1/chat/completions").respond_with_handler(self._answer)
        self.summariser = summariser_at(self.url)

    def _answer(self, request: Request) -> Response:
        user = request.json["messages"][1]["content"]
        self.prompts.append(user)
        return self.script.pop(0) if self.script else self.reply(user)
