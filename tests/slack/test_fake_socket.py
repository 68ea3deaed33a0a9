"""The fake's Socket Mode, spoken to by slack_sdk's built-in client."""

import contextlib
from collections.abc import Iterator

import pytest
from slack_sdk import WebClient
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from tests.processes import PATIENCE, wait_until
from tests.slack.fake_slack import APP_TOKEN, FakeSlack
from tests.slack.fake_socket import FakeSocket


@pytest.fixture
def fake() -> Iterator[FakeSocket]:
    with FakeSlack() as slack, FakeSocket(slack) as socket:
        yield socket


@contextlib.contextmanager
def listening(
    fake: FakeSocket, heard: list[SocketModeRequest], *, answer: bool = True
) -> Iterator[SocketModeClient]:
    client = SocketModeClient(
        app_token=APP_TOKEN,
        web_client=WebClient(base_url=fake.slack.url),
        ping_interval=1,
    )

    def hear(client: SocketModeClient, request: SocketModeRequest) -> None:
        heard.append(request)
        if answer:
            client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    client.socket_mode_request_listeners.append(hear)  # type: ignore[arg-type]
    client.connect()
    try:
        wait_until(lambda: fake.connections, "a connection")
        yield client
    finally:
        fake.drop()  # or the client's last read keeps its lock for seconds
        client.close()


@pytest.mark.slow
def test_an_event_is_heard_and_acknowledged(fake: FakeSocket) -> None:
    heard: list[SocketModeRequest] = []
    long = "長い話" * 30_000
    with listening(fake, heard):
        envelopes = [fake.deliver({"event_id": "Ev1"}), fake.deliver({"text": long})]
        assert all(envelope.acknowledged.wait(PATIENCE) for envelope in envelopes)
    assert [request.payload for request in heard] == [{"event_id": "Ev1"}, {"text": long}]
    assert {request.type for request in heard} == {"events_api"}


@pytest.mark.slow
def test_an_unacknowledged_event_is_sent_again(fake: FakeSocket) -> None:
    waits = fake.deliver({"event_id": "Ev0"})
    deaf: list[SocketModeRequest] = []
    with listening(fake, deaf, answer=False):
        wait_until(lambda: deaf, "the event, unanswered")
    wait_until(lambda: not fake.connections, "no connection")
    heard: list[SocketModeRequest] = []
    with listening(fake, heard):
        assert waits.acknowledged.wait(PATIENCE)
    assert heard[-1].retry_attempt >= 1
    assert heard[-1].retry_reason == "timeout"


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "refresh",
        pytest.param(
            "drop", marks=pytest.mark.nightly("test_socket.py drops the hub's own client")
        ),
    ],
)
def test_a_client_opens_a_new_connection(fake: FakeSocket, how: str) -> None:
    heard: list[SocketModeRequest] = []
    with listening(fake, heard):
        getattr(fake, how)()
        wait_until(lambda: fake.opened >= 2 and fake.connections, "a new connection")
        envelope = fake.deliver({"event_id": "Ev2"})
        wait_until(lambda: envelope.acknowledged.is_set() or fake.resend(), "an acknowledgement")
    assert heard[-1].payload == {"event_id": "Ev2"}
