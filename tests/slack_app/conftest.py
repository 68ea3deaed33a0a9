"""The team of tests/views in a fake Slack whose app has every feature on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections
from django.test import Client
from django.utils import timezone

from memories.management.commands import socket as socket_command
from memories.models import Person, SlackEvent
from memories.pipeline.search import indexing
from memories.pipeline.slack_app.answering import process_request
from memories.rules.slack_app.payloads import RESPONSE_LASTS
from memories.slack.socket import Socket
from memories.slack_app.answers import answer_request
from tests.factories import PersonFactory
from tests.processes import PATIENCE
from tests.slack.fake_app import APP_SCOPES, Shown, signed_form
from tests.slack.fake_channel import Json
from tests.slack.fake_events import SIGNING_SECRET, signed_event
from tests.slack.fake_slack import APP_TOKEN, TOKEN, FakeSlack
from tests.slack.fake_socket import FakeSocket
from tests.views.conftest import Cast, cast, cast_from_the_start, shared_cast

__all__ = ["cast", "cast_from_the_start", "shared_cast"]

FEATURES = ("slack_commands", "slack_shortcuts", "slack_home", "slack_reaction", "slack_unfurls")
OPEN, SECRET = "C0PUBLIC", "C0PRIVATE"
ShareTransaction = Callable[[], AbstractContextManager[None]]


@dataclass
class Team:
    """``people`` by name: mika is a member, tom is in the private channel, visitor is a guest, ann has
    no account."""

    cast: Cast
    slack: FakeSlack
    people: dict[str, Person]
    capture: Any
    client: Client
    socket: FakeSocket | None = None  # the road of `deliver`; requests over HTTP without one

    def id_of(self, name: str) -> str:
        return self.people[name].slack_id

    def deliver(self, payload: Json, *, runs_tasks: bool = True) -> Json:
        """Send a payload over the socket, or over HTTP without one. Return the answer that a command
        gets at once, {} without one."""
        if self.socket is None:
            response = self.send(payload, runs_tasks=runs_tasks)
            assert response.status_code == 200
            return dict(response.json()) if "command" in payload and response.content else {}
        with self.capture(execute=runs_tasks):
            envelope = self.socket.deliver(payload)
            assert envelope.acknowledged.wait(PATIENCE)
        return envelope.answer

    def send(self, payload: Json, *, runs_tasks: bool = True, **options: Any) -> Any:
        """Post an event, a command, a shortcut or a button, and run its task. Return the response."""
        if payload.get("type") == "event_callback":
            return self._post("/slack/events/", *signed_event(payload, **options), runs_tasks)
        path = "commands" if "command" in payload else "interactivity"
        return self._post(f"/slack/{path}/", *signed_form(payload, **options), runs_tasks)

    def send_late(self, payload: Json) -> SlackEvent:
        """Deliver a payload, and run its task when Slack accepts no response any more."""
        self.deliver(payload, runs_tasks=False)
        pk = SlackEvent.objects.latest("pk").pk
        later = timezone.now() + RESPONSE_LASTS + timedelta(minutes=1)
        self.slack.clock = later.timestamp
        assert process_request(pk, answer_request, later)
        return SlackEvent.objects.get(pk=pk)

    def _post(self, path: str, raw: bytes, headers: dict[str, str], runs_tasks: bool = True) -> Any:
        kind = headers.pop("Content-Type")
        with self.capture(execute=runs_tasks):
            return self.client.post(path, data=raw, content_type=kind, headers=headers)

    def say(self, name: str, text: str, channel: str = OPEN) -> Shown:
        """Send a command of this person; return the answer that only they see."""
        before = len(self.slack.shown_to(self.id_of(name)))
        response = self.send(self.slack.command(self.id_of(name), channel, text))
        assert (response.status_code, response.content) == (200, b"")
        [shown] = self.slack.shown_to(self.id_of(name))[before:]
        return shown

    def press(self, name: str, shown: Shown, action: str, **typed: str) -> None:
        value = shown.buttons()[action]
        self.send(self.slack.press(self.id_of(name), shown.channel, action, value, typed))


@pytest.fixture
def slack(settings: Any) -> Iterator[FakeSlack]:
    settings.SLACK_SIGNING_SECRET = SIGNING_SECRET
    settings.SLACK_BOT_TOKEN = TOKEN
    with FakeSlack() as fake:
        settings.SLACK_BASE_URL = fake.url
        fake.scopes |= APP_SCOPES
        yield fake


@pytest.fixture
def team(
    cast: Cast,
    slack: FakeSlack,
    tasks_at_once: None,
    django_capture_on_commit_callbacks: Any,
    client: Client,
) -> Team:
    cast.workspace.save_team_id(slack.team_id)
    cast.workspace.change_settings(dict.fromkeys(FEATURES, True))
    PersonFactory(workspace=cast.workspace, slack_id="U0ANN", name="ann")
    people = {person.name: person for person in cast.workspace.people.all()}
    for person in people.values():
        slack.add_user(person.slack_id, person.name)
    ids = [person.slack_id for person in people.values()]
    slack.add_channel(OPEN, "launch", members=ids)
    slack.add_channel(SECRET, "salaries", is_private=True, members=[people["tom"].slack_id])
    indexing.index_pending()
    return Team(cast, slack, people, django_capture_on_commit_callbacks, client)


@pytest.fixture
def socket(team: Team, share_transaction: ShareTransaction) -> Iterator[None]:
    """Deliver over Socket Mode, with the client of `manage.py socket`."""

    def store(body: Any) -> Json | None:
        with share_transaction():
            return socket_command.take(body)

    with FakeSocket(team.slack) as team.socket:
        client = Socket(APP_TOKEN, store, team.slack.url, ping_seconds=1)
        client.connect()
        yield
        team.socket.drop()  # otherwise the last read waits for its timeout
        client.close()


@pytest.fixture
def share_transaction(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShareTransaction]:
    """Return a context manager in which the thread uses the connection of the test.

    The server's thread outlives the test, and its next test has another connection.
    """
    own = connections[DEFAULT_DB_ALIAS]
    monkeypatch.setattr(socket_command, "close_old_connections", lambda: None)

    @contextmanager
    def share() -> Iterator[None]:
        connections[DEFAULT_DB_ALIAS] = own
        try:
            yield
        finally:
            del connections[DEFAULT_DB_ALIAS]

    own.inc_thread_sharing()
    yield share
    own.dec_thread_sharing()
