"""A local model with predictable replies: it repeats new messages and drops existing lines."""

import json
import re

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.llm.endpoint import PATH, completion


class ForgetfulModel:
    """Replies with one line for each new message, and settles all existing lines."""

    def __init__(self, server: HTTPServer) -> None:
        self.prompts: list[str] = []  # instructions and data
        server.expect_request(PATH, method="POST").respond_with_handler(self.answer)

    def answer(self, request: Request) -> Response:
        system, user = (message["content"] for message in request.get_json()["messages"])
        self.prompts.append(f"{system}\n{user}")
        lines = [
            f"- {'noted ' if kind == 'messages' else ''}{text} [{ref}]"
            for kind, block in re.findall(
                r"^<<(messages|added)[^\n]*>>\n(.*?)\n<<end", user, re.DOTALL | re.MULTILINE
            )
            for ref, text in re.findall(r"^(\d+) (?:↳\w )?(?:\[.{16}\] \w+: )?(.+)$", block, re.M)
        ]
        # Existing lines of a merge by operations stay without an operation, so it removes them.
        refs = re.findall(r"\[(\d+)\]$", lines[-1]) if lines else []
        lines += [f"- L{number} [{refs[0]}]" for number in re.findall(r"^L(\d+) ", user, re.M)]
        body = completion("\n".join(dict.fromkeys(lines)))
        return Response(json.dumps(body), content_type="application/json")
