"""Socket Mode, against a WebSocket server on loopback."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from memories.slack.socket import Socket
from memories.slack.web import SlackError
from tests.processes import PATIENCE, wait_until
from tests.slack.fake_faults import Fault
from tests.slack.fake_slack import APP_TOKEN, FakeSlack
from tests.slack.fake_socket import FakeSocket


@pytest.fixture
def fake() -> Iterator[FakeSocket]:
    with FakeSlack() as slack, FakeSocket(slack) as socket:
        yield socket


class Heard:
    """Takes events, unless it is told to fail."""

    def __init__(self, fake: FakeSocket, token: str = APP_TOKEN) -> None:
        self.bodies: list[Any] = []
        self.refused = threading.Event()
        self.fails = False
        self.socket = Socket(token, self.take, fake.slack.url, ping_seconds=1)

    def take(self, body: Any) -> None:
        if self.fails:
            self.refused.set()
            raise RuntimeError("disk full")
        self.bodies.append(body)


@pytest.fixture
def heard(fake: FakeSocket) -> Iterator[Heard]:
    one = Heard(fake)
    yield one
    fake.drop()  # or the last read takes its seconds
    one.socket.close()


@pytest.mark.slow
def test_what_is_stored_is_acknowledged(fake: FakeSocket, heard: Heard) -> None:
    heard.socket.connect()
    assert fake.deliver({"event_id": "Ev1"}).acknowledged.wait(PATIENCE)
    assert heard.bodies == [{"event_id": "Ev1"}]


@pytest.mark.slow
def test_what_is_not_stored_comes_again(fake: FakeSocket, heard: Heard) -> None:
    heard.socket.connect()
    heard.fails = True
    envelope = fake.deliver({"event_id": "Ev1"})
    assert heard.refused.wait(PATIENCE)
    heard.fails = False
    assert not envelope.acknowledged.is_set()
    fake.resend()
    assert envelope.acknowledged.wait(PATIENCE)
    assert heard.bodies == [{"event_id": "Ev1"}]


@pytest.mark.slow
def test_other_envelopes_are_acknowledged_and_no_more(fake: FakeSocket, heard: Heard) -> None:
    """Slash commands, say, which the app does not have."""
    heard.socket.connect()
    other = fake.deliver({"command": "/x"})
    assert other.acknowledged.wait(PATIENCE)
    assert len(heard.bodies) == 1
    other.kind = "slash_commands"
    other.acknowledged.clear()
    fake.resend()
    assert other.acknowledged.wait(PATIENCE)
    assert len(heard.bodies) == 1


@pytest.mark.slow
def test_a_lost_connection_is_seen_and_made_again(fake: FakeSocket, heard: Heard) -> None:
    heard.socket.connect()
    wait_until(lambda: fake.connections, "a connection")
    fake.drop()
    wait_until(lambda: not heard.socket.is_connected, "that it is seen")
    missed = fake.deliver({"event_id": "Ev2"})
    heard.socket.connect()
    assert missed.acknowledged.wait(PATIENCE)
    assert fake.opened == 2


@pytest.mark.slow
def test_slack_asks_for_a_new_connection(fake: FakeSocket, heard: Heard) -> None:
    heard.socket.connect()
    wait_until(lambda: fake.connections, "a connection")
    fake.refresh()
    wait_until(lambda: fake.opened == 2, "another connection")
    wait_until(lambda: heard.socket.is_connected, "that it is in use")
    assert fake.deliver({"event_id": "Ev3"}).acknowledged.wait(PATIENCE)


@pytest.mark.slow
def test_a_token_that_slack_refuses(fake: FakeSocket) -> None:
    one = Heard(fake, "xapp-wrong")
    with pytest.raises(SlackError) as caught:
        one.socket.connect()
    assert (caught.value.code, caught.value.permanent) == ("invalid_auth", True)
    assert "SLACK_APP_TOKEN" in caught.value.message
    assert "xapp-wrong" not in caught.value.message
    one.socket.close()


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["dropped", "bad gateway", "internal error"])
def test_what_passes(fake: FakeSocket, heard: Heard, trouble: str) -> None:
    fault = {
        "dropped": Fault.dropped(),
        "bad gateway": Fault(502),
        "internal error": Fault.error("internal_error"),
    }[trouble]
    fake.slack.inject_fault("apps.connections.open", fault, times=2)
    with pytest.raises(SlackError) as caught:
        heard.socket.connect()
    assert not caught.value.permanent
    fake.slack.clear_faults()
    heard.socket.connect()
    assert heard.socket.is_connected


@pytest.mark.slow
def test_an_address_where_nobody_answers(fake: FakeSocket, heard: Heard) -> None:
    fake.slack.socket_url = "ws://127.0.0.1:1/link/?ticket=1"
    with pytest.raises(SlackError) as caught:
        heard.socket.connect()
    assert (caught.value.code, caught.value.permanent) == ("unreachable", False)
