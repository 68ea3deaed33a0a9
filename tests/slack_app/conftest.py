"""The team of tests/views in a fake Slack whose app has every feature on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memories.models import Person, SlackEvent
from memories.pipeline.ingest.events import store_payload
from memories.pipeline.ingest.requests import store_request
from memories.pipeline.search import indexing
from memories.pipeline.slack_app.answering import process_request
from memories.rules.slack_app.payloads import RESPONSE_LASTS, parse_request
from memories.slack_app.answers import answer_request
from tests.factories import PersonFactory
from tests.slack.fake_app import APP_SCOPES, Shown, signed_form
from tests.slack.fake_channel import Json
from tests.slack.fake_events import SIGNING_SECRET, signed_event
from tests.slack.fake_slack import TOKEN, FakeSlack
from tests.views.conftest import Cast, cast, cast_from_the_start, shared_cast

__all__ = ["cast", "cast_from_the_start", "shared_cast"]

FEATURES = ("slack_commands", "slack_shortcuts", "slack_home", "slack_reaction", "slack_unfurls")
OPEN, SECRET = "C0PUBLIC", "C0PRIVATE"


@dataclass
class Team:
    """``people`` by name: mika is a member, tom is in the private channel, visitor is a guest, ann has
    no account."""

    cast: Cast
    slack: FakeSlack
    people: dict[str, Person]
    capture: Any
    client: Client

    def id_of(self, name: str) -> str:
        return self.people[name].slack_id

    def send(self, payload: Json, **options: Any) -> Any:
        """Post a command, a shortcut or a button, and run its task. Return the response."""
        raw, headers = signed_form(payload, **options)
        path = "commands" if "command" in payload else "interactivity"
        return self._post(f"/slack/{path}/", raw, headers)

    def send_event(self, body: Json) -> Any:
        return self._post("/slack/events/", *signed_event(body))

    def send_late(self, body: Json) -> SlackEvent:
        """Store a request or an event, and run its task when Slack accepts no response any more."""
        request = parse_request(body)
        received = None if request else store_payload(body)
        pk = store_request(request).event_id if request else received and received.request_id
        assert pk is not None
        later = timezone.now() + RESPONSE_LASTS + timedelta(minutes=1)
        self.slack.clock = later.timestamp
        assert process_request(pk, answer_request, later)
        return SlackEvent.objects.get(pk=pk)

    def _post(self, path: str, raw: bytes, headers: dict[str, str]) -> Any:
        kind = headers.pop("Content-Type")
        with self.capture(execute=True):
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
