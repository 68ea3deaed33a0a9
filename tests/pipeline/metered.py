"""A chat-completions endpoint on loopback that counts prompts and tokens."""

import json
import math
import threading
from collections.abc import Callable

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.rules.tokens import estimate_tokens
from tests.llm.endpoint import completion


class Metered:
    """Answers with lines of the prompt, a quarter as long. Usage is estimated as the hub does.

    ``before(user)`` is called before each answer.
    """

    def __init__(self, server: HTTPServer) -> None:
        self.prompts: list[str] = []
        self.tokens = 0
        self.before: Callable[[str], None] = lambda user: None
        self.url = server.url_for("/v1")
        self._lock = threading.Lock()
        server.expect_request("/v1/chat/completions", method="POST").respond_with_handler(
            self._answer
        )

    def _answer(self, request: Request) -> Response:
        body = request.get_json()
        system, user = (message["content"] for message in body["messages"])
        self.before(user)
        most = min(body["max_tokens"], int(0.25 * estimate_tokens(user)) + 30)
        text = self._summary(user, most)
        used = {
            "prompt_tokens": estimate_tokens(system) + estimate_tokens(user) + 8,
            "completion_tokens": math.ceil(estimate_tokens(text)),
        }
        used["total_tokens"] = sum(used.values())
        with self._lock:
            self.prompts.append(user)
            self.tokens += used["total_tokens"]
        answer = completion(text, model=body["model"], usage=used)
        return Response(json.dumps(answer), mimetype="application/json")

    @staticmethod
    def _summary(user: str, most: int) -> str:
        data = user[: user.rindex("<<end")]
        data = data.partition("<<messages")[2] or data  # else lines without a reference count
        rows = [row for row in data.splitlines() if row and not row.startswith("<<")]
        lines: list[str] = []
        for row in rows[:: max(1, len(rows) // max(1, most // 25))]:
            ref, _, text = row.partition(" ")
            line = f"- noted: {text[:160]} [{ref}]"
            if lines and estimate_tokens("\n".join([*lines, line])) > most:
                break
            lines.append(line)
        return "\n".join(lines)
