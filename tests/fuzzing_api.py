"""Requests to the API and MCP, for `tests/fuzzing.py`: with a key, and impossible values of any kind."""

import json
import re
from random import Random
from typing import Any

from memories.api.routes import api
from memories.models import ApiKey, Line, Workspace
from tests.leaks.probes import Eyes
from tests.leaks.world import World

METHODS = ("get", "post", "patch", "delete")
TOOLS = {  # of `memories/api/mcp.py`, with values that they take
    "get_context": {"channel": "CPLAZA", "thread": "", "query": "zq", "budget": 400, "at": "2026-01-05T09:00:00Z"},
    "search": {"query": "zq", "channel": "CPLAZA", "limit": 5},
    "fetch": {"id": "version-1"},
    "whats_new": {"since": "2026-01-05", "channel": "CPLAZA"},
    "add_note": {"text": "a note", "channel": "CPLAZA"},
    "propose_correction": {"line_id": "line-1", "text": "b", "reason": "c", "sources": ["message-1"]},
}  # fmt: skip
MCP_METHODS = (
    "tools/list",
    "resources/list",
    "resources/read",
    "prompts/get",
    "initialize",
    "ping",
    "x",
)
VALID: dict[str, Any] = {
    "q": "zq", "query": "zq", "channel": "CPLAZA", "in": "CPLAZA", "budget": 400, "limit": 5,
    "from": 1, "to": 2, "since": 1, "cursor": 1, "format": "json", "thread": "1767603600.000100",
    "at": "2026-01-05T09:00:00Z", "content": "a note", "title": "a title", "tags": ["a"],
}  # fmt: skip


class ApiInputs:
    """Inputs that a client of the API may send to each of its routes."""

    def __init__(self, world: World, random: Random, nasty: list[str]) -> None:
        self.random, self.nasty = random, nasty
        self.tokens = [token for of in Eyes(world).tokens.values() for token in of.values()]
        public = Workspace.objects.get(slug="leaks")
        issue = ApiKey.objects.issue
        self.tokens.append(issue(public, name="public", by=None, user=None, scopes=["read"])[1])
        self.lines = list(Line.objects.values_list("pk", flat=True)[:20])
        self.operations: dict[str, dict[str, tuple[list[str], list[str]]]] = {}
        document = api.get_openapi_schema()
        schemas = document["components"]["schemas"]
        for path, operations in document["paths"].items():
            route = re.sub(r"\{(\w+)\}", r"<\1>", path).lstrip("/")
            self.operations[route] = {
                method: _inputs_of(operation, schemas) for method, operation in operations.items()
            }

    def request(self, route: str) -> tuple[str, list[tuple[str, str]], bytes, str, dict[str, str]]:
        """Return method, query, body, content type and headers."""
        if route == "mcp":
            return "POST", [], self._json(self._message()), "application/json", self._headers()
        operations = self.operations.get(route, {})
        method = self.random.choice([*operations, *operations, self.random.choice(METHODS)])
        in_query, in_body = operations.get(method, ([], []))
        query = [
            (name, str(value))
            for name, value in self._values(in_query).items()
            if value is not None
        ]
        body = self._json(self._values(in_body)) if in_body else b""
        return method.upper(), query, body, "application/json", self._headers()

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream", "Host": "localhost"}
        if self.random.random() < 0.95:
            headers["Authorization"] = f"Bearer {self.random.choice(self.tokens)}"
        elif self.random.random() < 0.5:
            headers["Authorization"] = self.random.choice(
                ("Bearer", "Bearer mhr_x_é", "Basic x", "x")
            )
        if self.random.random() < 0.3:
            etag = self.random.choice(('"note-1-1-0"', "*", '"', "x" * 3000, 'W/"1"'))
            headers[self.random.choice(("If-Match", "If-None-Match"))] = etag
        return headers

    def _values(self, names: list[str]) -> dict[str, Any]:
        values = {name: VALID.get(name, "x") for name in names if self.random.random() < 0.8}
        for name in names:
            if self.random.random() < 0.25:
                values[name] = self.random.choice(self.nasty)
        return values

    def _message(self) -> Any:
        name = self.random.choice([*TOOLS, "nothing"])
        arguments: dict[str, Any] = dict(TOOLS.get(name, {}))
        if name == "fetch":
            kind = self.random.choice(("message", "version", "note", "line"))
            arguments["id"] = f"{kind}-{self.random.choice(self.lines)}"
        for argument in arguments:
            if self.random.random() < 0.3:
                arguments[argument] = self._any()
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        }
        if self.random.random() < 0.1:
            message["method"] = self.random.choice(MCP_METHODS)
            uri = f"memory://channel/{self.random.choice(self.nasty)[:50]}"
            message["params"] = {"uri": uri, "name": name}
        if self.random.random() < 0.1:
            message[self.random.choice(list(message))] = self._any()
        return message

    def _any(self) -> Any:
        value = self.random.choice(self.nasty)
        return self.random.choice(
            (value, value, [value], {"a": value}, None, 10**30, -1, 1.5, True)
        )

    def _json(self, value: Any) -> bytes:
        if isinstance(value, dict) and self.random.random() < 0.1:
            value = value | {name: self._any() for name in value if self.random.random() < 0.5}
        if self.random.random() < 0.05:
            return self.random.choice(self.nasty).encode(errors="surrogatepass")
        return json.dumps(value).encode()


def _inputs_of(operation: dict[str, Any], schemas: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of an operation's parameters in the query, and in its body."""
    in_query = [
        parameter["name"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    return in_query, list(schemas.get(name, {}).get("properties", {}))
