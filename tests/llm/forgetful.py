"""A model on loopback whose answers can be told in advance: it repeats what is new to it."""

import json
import re

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.llm.endpoint import PATH, completion


class ForgetfulModel:
    """Notes each new message with its reference, and forgets all that it knew before."""

    def __init__(self, server: HTTPServer) -> None:
        self.prompts: list[str] = []  # what it was shown: our instructions and the data
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
        # Of lines that stay by themselves it says that they are settled.
        refs = re.findall(r"\[(\d+)\]$", lines[-1]) if lines else []
        lines += [f"- L{number} [{refs[0]}]" for number in re.findall(r"^L(\d+) ", user, re.M)]
        body = completion("\n".join(dict.fromkeys(lines)))
        return Response(json.dumps(body), content_type="application/json")
