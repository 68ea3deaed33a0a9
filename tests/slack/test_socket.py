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


class Receiver:
    """Stores events, or fails when ``fails`` is set."""

    def __init__(self, fake: FakeSocket, token: str = APP_TOKEN) -> None:
        self.bodies: list[Any] = []
        self.refused = threading.Event()
        self.fails = False
        self.socket = Socket(token, self.store, fake.slack.url, ping_seconds=1)

    def store(self, body: Any) -> None:
        if self.fails:
            self.refused.set()
            raise RuntimeError("disk full")
        self.bodies.append(body)


@pytest.fixture
def receiver(fake: FakeSocket) -> Iterator[Receiver]:
    receiver = Receiver(fake)
    yield receiver
    fake.drop()  # otherwise the last read waits for its timeout
    receiver.socket.close()


@pytest.mark.slow
def test_a_stored_event_is_acknowledged(fake: FakeSocket, receiver: Receiver) -> None:
    body = {"event_id": "Ev1", "text": "長い話" * 30_000}
    receiver.socket.connect()
    assert fake.deliver(body).acknowledged.wait(PATIENCE)
    assert receiver.bodies == [body]


@pytest.mark.slow
def test_an_event_that_was_not_stored_is_sent_again(fake: FakeSocket, receiver: Receiver) -> None:
    receiver.socket.connect()
    receiver.fails = True
    envelope = fake.deliver({"event_id": "Ev1"})
    assert receiver.refused.wait(PATIENCE)
    receiver.fails = False
    assert not envelope.acknowledged.is_set()
    fake.resend()
    assert envelope.acknowledged.wait(PATIENCE)
    assert receiver.bodies == [{"event_id": "Ev1"}]


@pytest.mark.slow
def test_commands_are_delivered_and_other_envelopes_only_acknowledged(
    fake: FakeSocket, receiver: Receiver
) -> None:
    receiver.socket.connect()
    envelope = fake.deliver({"command": "/x"})
    for kind, count in (("slash_commands", 2), ("interactive", 3), ("options", 3)):
        assert envelope.acknowledged.wait(PATIENCE)
        envelope.kind = kind
        envelope.acknowledged.clear()
        fake.resend()
        assert envelope.acknowledged.wait(PATIENCE)
        assert len(receiver.bodies) == count


@pytest.mark.slow
def test_a_lost_connection_is_detected_and_replaced(fake: FakeSocket, receiver: Receiver) -> None:
    receiver.socket.connect()
    wait_until(lambda: fake.connections, "a connection")
    fake.drop()
    wait_until(lambda: not receiver.socket.is_connected, "that it is seen")
    missed = fake.deliver({"event_id": "Ev2"})
    receiver.socket.connect()
    assert missed.acknowledged.wait(PATIENCE)
    assert fake.opened == 2


@pytest.mark.slow
def test_a_requested_new_connection_is_opened(fake: FakeSocket, receiver: Receiver) -> None:
    receiver.socket.connect()
    wait_until(lambda: fake.connections, "a connection")
    fake.refresh()
    wait_until(lambda: fake.opened == 2, "another connection")
    wait_until(lambda: receiver.socket.is_connected, "that it is in use")
    assert fake.deliver({"event_id": "Ev3"}).acknowledged.wait(PATIENCE)


@pytest.mark.slow
def test_a_connection_that_just_began_is_closed(fake: FakeSocket) -> None:
    """slack_sdk's thread begins to read after it was told to end."""
    socket = Receiver(fake).socket
    client, begun, closing = socket._client, threading.Event(), threading.Event()

    def begin_late() -> None:
        if client.current_session is not None:
            begun.set()
            assert closing.wait(PATIENCE)
            client.current_session_state.terminated = False
            client.current_session.run_until_completion(client.current_session_state)

    client.current_session_runner.target = begin_late
    socket.connect()
    assert begun.wait(PATIENCE)
    threading.Timer(0.2, closing.set).start()
    socket.close()


@pytest.mark.slow
def test_a_refused_token_is_a_permanent_error(fake: FakeSocket) -> None:
    receiver = Receiver(fake, "xapp-wrong")
    with pytest.raises(SlackError) as caught:
        receiver.socket.connect()
    assert (caught.value.code, caught.value.permanent) == ("invalid_auth", True)
    assert "SLACK_APP_TOKEN" in caught.value.message
    assert "xapp-wrong" not in caught.value.message
    receiver.socket.close()


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["dropped", "bad gateway", "internal error"])
def test_a_short_fault_is_no_permanent_error(
    fake: FakeSocket, receiver: Receiver, trouble: str
) -> None:
    fault = {
        "dropped": Fault.dropped(),
        "bad gateway": Fault(502),
        "internal error": Fault.error("internal_error"),
    }[trouble]
    fake.slack.inject_fault("apps.connections.open", fault, times=2)
    with pytest.raises(SlackError) as caught:
        receiver.socket.connect()
    assert not caught.value.permanent
    fake.slack.clear_faults()
    receiver.socket.connect()
    assert receiver.socket.is_connected


@pytest.mark.slow
def test_an_unreachable_address(fake: FakeSocket, receiver: Receiver) -> None:
    fake.slack.socket_url = "ws://127.0.0.1:1/link/?ticket=1"
    with pytest.raises(SlackError) as caught:
        receiver.socket.connect()
    assert (caught.value.code, caught.value.permanent) == ("unreachable", False)
