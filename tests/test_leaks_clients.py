"""The leak matrix of clients with an API key: webhooks, memoryhub-agent and the tools of MCP."""

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from memories.pipeline.search import indexing
from tests.leaks.clients import (
    CHANNEL_COMMANDS,
    COMMANDS,
    READERS,
    SYNC,
    WRITERS,
    AgentRunner,
    McpWriter,
    WebhookReceiver,
    allowed_writers,
    channel_readers,
    stages,
)
from tests.leaks.world import WORD, World

pytestmark = pytest.mark.slow

# Changes that take the words of a place from a reader.
TAKE_AWAY = {"leave", "kick", "closes", "becomes_guest", "deactivated", "stale", "ends"}

at_full_size = pytest.mark.parametrize(
    "is_full",
    [
        False,
        pytest.param(
            True,
            marks=[
                pytest.mark.nightly("all rows, over HTTP and in processes"),
                pytest.mark.timeout(0),
            ],
        ),
    ],
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
                writers = allowed_writers(world, write.tool, write.readers)
                assert channels == ([world.channels.get(place)] if role in writers else []), what
                if role not in write.readers:
                    unknown = tuple(write.unknown.items())
                    assert answer == refuse(role, write.tool, unknown)[0], what


@pytest.mark.django_db(transaction=True)
@at_full_size
def test_memoryhub_agent_shows_and_writes_what_its_key_may(
    is_full: bool, live_server: Any, settings: Any, tmp_path: Path
) -> None:
    """A channel that a key may not read is refused like an unknown one."""
    settings.MEMORYHUB_URL = live_server.url
    world = World().build()
    runner = AgentRunner(world, live_server.url, tmp_path, is_full=is_full)
    showing = set()
    for stage, pairs in stages(world, is_full=is_full):
        indexing.index_pending()
        readers = {row: channel_readers(world, row) for row in world.channels.values()}
        writers = {row: allowed_writers(world, "add_note", readers[row]) for row in readers}
        for role in sorted({role for role, _ in pairs}):
            for command in COMMANDS if is_full or stage == "at first" else COMMANDS[:1]:
                text, channels = runner.run(role, *command)
                assert not world.leaks(text, role), (stage, role, command)
                added = {row for row in writers if role in writers[row] and command == SYNC}
                assert set(channels) == added, (stage, role, command)
                showing |= {(role, command)} if WORD.search(text) else set()
        refuse = cache(lambda role, command: runner.run(role, *command, "CNOWHERE")[0])
        for (role, place), command in product(sorted(pairs), CHANNEL_COMMANDS):
            if (channel := world.channels.get(place)) is None:
                continue
            text, channels = runner.run(role, *command, channel.slack_id)
            assert not world.leaks(text, role), (stage, role, command, place)
            adds = command[0] == "add" and role in writers[channel]
            assert channels == ([channel] if adds else []), (stage, role, place)
            if role not in readers[channel]:
                unknown = text.replace(f"'{channel.slack_id}'", "'CNOWHERE'")
                assert unknown == refuse(role, command), (stage, role, command, place)
    assert showing == {
        (role, command)
        for role, command in product(READERS, COMMANDS)
        if role in (WRITERS["add_note"] if command == SYNC else set(READERS) - {"outsider"})
    }
