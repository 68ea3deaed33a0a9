"""The leak matrix of clients with an API key: webhooks, memoryhub-agent and the tools of MCP."""

from functools import cache
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.leaks.clients import McpWriter, WebhookReceiver, stages
from tests.leaks.world import World

pytestmark = pytest.mark.slow

# Changes that take the words of a place from a reader.
TAKE_AWAY = {"leave", "kick", "closes", "becomes_guest", "deactivated", "stale", "ends"}

at_full_size = pytest.mark.parametrize(
    "is_full", [False, pytest.param(True, marks=pytest.mark.nightly("all rows of all readers"))]
)


@pytest.mark.django_db
@at_full_size
def test_a_webhook_receives_what_its_key_may_still_read(
    is_full: bool, httpserver: HTTPServer, settings: Any
) -> None:
    """The versions are in the outbox before each change, and are sent after it."""
    settings.MEMORYHUB_WEBHOOK_HOSTS = ["localhost", "127.0.0.1"]
    world = World().build()
    receiver = WebhookReceiver(httpserver, world, is_full=is_full)
    revoking = set()
    for change in World.CHANGES:
        readable = receiver.readable_rows()
        queued = receiver.enqueue()
        assert queued == readable, change
        world.change(change)
        received = receiver.send()
        assert received == queued & receiver.readable_rows(), change
        for role, headers, body in receiver.requests:
            assert not world.leaks(headers + body, role), change
        revoking |= {change} if received != queued else set()
    assert revoking == TAKE_AWAY


@pytest.mark.django_db
@at_full_size
def test_a_tool_of_mcp_writes_where_its_key_may_write(is_full: bool) -> None:
    """What a key may not read is refused like an id that does not exist."""
    world = World().build()
    writer = McpWriter(world, is_full=is_full)
    for stage, pairs in stages(world, is_full=is_full):
        writes = {place: list(writer.writes(place)) for _, place in pairs}
        refuse = cache(lambda role, tool, unknown: writer.call(role, tool, dict(unknown)))
        for role, place in sorted(pairs):
            for write in writes[place]:
                what = f"{stage}: {role}, {place}: {write.arguments}"
                answer, channels = writer.call(role, write.tool, write.arguments)
                assert not world.leaks(answer, role), what
                may_write = writer.may_write(role, write)
                assert channels == ([world.channels.get(place)] if may_write else []), what
                if role not in write.readers:
                    unknown = tuple(write.unknown.items())
                    assert answer == refuse(role, write.tool, unknown)[0], what
