"""`/mcp`: MCP over HTTP. Each request is one POST. There is no session."""

from collections.abc import Callable
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from memories.api.auth import key_of, reload_key
from memories.api.problems import Problem, respond, respond_unauthorized
from memories.api.slackbot import ReadsAs, caller_of, signed_request

MAX_BODY_BYTES = 1_000_000


@csrf_exempt  # no other site can send the Authorization header
def mcp(request: HttpRequest) -> HttpResponse:
    """Handle an MCP message of a client with a key, or of Slackbot."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    load_key: Callable[[], ReadsAs]
    scopes: list[str] = []
    try:
        if not scheme and "X-Slack-Signature" in request.headers:
            load_key = partial(caller_of, signed_request(request))
        elif scheme.lower() == "bearer" and (key := key_of(request, token)) is not None:
            load_key, scopes = partial(reload_key, request, token), key.scopes
        else:
            return respond_unauthorized(request)
    except Problem as problem:
        return respond(problem.status, problem.detail, headers=problem.headers)
    if request.method != "POST":
        return respond(405, "Send MCP messages by POST.", headers={"Allow": "POST"})
    status, headers, body = async_to_sync(_serve)(load_key, scopes, request)
    response = HttpResponse(body, status=status)
    for name, value in headers:
        response[name] = value
    return response


async def _serve(
    load_key: Callable[[], ReadsAs], scopes: list[str], request: HttpRequest
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Pass the request to the SDK as an ASGI exchange. Return status, headers and body."""
    # The import of the SDK takes as long as that of Django, and only this view needs it.
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    from memories.api.mcp import build_server

    manager = StreamableHTTPSessionManager(
        build_server(load_key, scopes)._lowlevel_server,
        json_response=True,
        stateless=True,
        # Django has checked the host. A browser must send the hub's own Origin.
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[request.get_host()],
            allowed_origins=[settings.MEMORYHUB_URL],
        ),
        max_request_body_size=MAX_BODY_BYTES,
    )
    sent: list[Any] = []
    received = False

    async def receive() -> dict[str, Any]:
        nonlocal received
        if received:
            return {"type": "http.disconnect"}
        received = True
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async with manager.run():
        await manager.handle_request(_asgi_scope(request), receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    body = b"".join(message.get("body", b"") for message in sent if "body" in message)
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in start["headers"]
        if name.lower() != b"content-length"
    ]
    return start["status"], headers, body


def _asgi_scope(request: HttpRequest) -> dict[str, Any]:
    """Return the ASGI scope of a request, without its Authorization header."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.items()
            if name.lower() != "authorization"
        ],
        "server": (request.get_host().partition(":")[0], None),
        "client": None,
        "state": {},
    }
