"""`manage.py socket` in a process of its own, with a WebSocket server on loopback."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memories.models import SlackEvent, Workspace
from tests.factories import ChannelFactory, WorkspaceFactory
from tests.processes import wait_until
from tests.slack.fake_slack import APP_TOKEN, FakeSlack
from tests.slack.fake_socket import FakeSocket
from tests.views.ingest.test_events import queued

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def fake() -> Iterator[FakeSocket]:
    with FakeSlack() as slack, FakeSocket(slack) as socket:
        yield socket


@pytest.fixture
def team() -> Workspace:
    workspace: Workspace = WorkspaceFactory(team_id="T0TEAM")
    ChannelFactory(workspace=workspace, slack_id="C0OPEN", is_followed=True)
    return workspace


class SocketProcess:
    def __init__(self, environment: dict[str, str], fake: FakeSocket, log: Path) -> None:
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "socket"],
                cwd=log.parent,
                env=environment | {"SLACK_APP_TOKEN": APP_TOKEN, "SLACK_BASE_URL": fake.slack.url},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def read_log(self) -> str:
        return self.log.read_text()


@pytest.fixture
def listening(
    process_environment: dict[str, str], fake: FakeSocket, team: Workspace, tmp_path: Path
) -> Iterator[SocketProcess]:
    running = SocketProcess(process_environment, fake, tmp_path / "log")
    try:
        wait_until(lambda: fake.connections or running.process.poll() is not None, "a connection")
        assert running.process.poll() is None, running.read_log()
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def event_callback(event_id: str, text: str = "hello") -> dict[str, Any]:
    message = {"type": "message", "channel": "C0OPEN", "ts": "1767603600.000100", "text": text}
    return {
        "type": "event_callback",
        "team_id": "T0TEAM",
        "event_id": event_id,
        "event": message,
    }


@pytest.mark.slow
def test_events_are_stored_before_they_are_acknowledged(
    fake: FakeSocket, listening: SocketProcess, team: Workspace
) -> None:
    secret = "nothing of this in a log"
    for event_id in ("Ev1", "Ev2", "Ev1"):
        assert fake.deliver(event_callback(event_id, secret)).acknowledged.wait(30), (
            listening.read_log()
        )
    assert set(SlackEvent.objects.values_list("event_id", flat=True)) == {"Ev1", "Ev2"}
    assert ("memories.tasks.events", (team.pk,)) in queued()
    # An unknown event is acknowledged and not stored.
    assert fake.deliver({"type": "event_callback"}).acknowledged.wait(30)
    assert secret not in listening.read_log()
    listening.process.send_signal(signal.SIGTERM)
    assert listening.process.wait(timeout=30) == 0, listening.read_log()
    assert "Traceback" not in listening.read_log()
    assert APP_TOKEN not in listening.read_log()


@pytest.mark.nightly("waits for five pings; tests/slack/test_socket.py sends them faster")
def test_a_lost_connection_is_replaced(fake: FakeSocket, listening: SocketProcess) -> None:
    fake.drop()
    missed = fake.deliver(event_callback("Ev1"))
    assert missed.acknowledged.wait(120), listening.read_log()
    assert SlackEvent.objects.count() == 1


@pytest.mark.nightly("the test above ends one by a signal")
def test_ctrl_c_stops_it(fake: FakeSocket, listening: SocketProcess) -> None:
    listening.process.send_signal(signal.SIGINT)
    assert listening.process.wait(timeout=30) == 0, listening.read_log()
    wait_until(lambda: not fake.connections, "its connection gone")


def test_a_missing_token_is_refused() -> None:
    with pytest.raises(CommandError, match="Set SLACK_APP_TOKEN"):
        call_command("socket")


@pytest.mark.slow
def test_a_refused_token_ends_the_command(fake: FakeSocket, settings: Any) -> None:
    settings.SLACK_APP_TOKEN, settings.SLACK_BASE_URL = "xapp-wrong", fake.slack.url
    with pytest.raises(CommandError, match="invalid_auth"):
        call_command("socket")
