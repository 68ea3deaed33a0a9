"""The leak matrix of clients with an API key: webhooks, memoryhub-agent and the tools of MCP."""

from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.leaks.clients import WebhookReceiver
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
