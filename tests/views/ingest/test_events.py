"""The request URL of events: storing, acknowledging and refusing."""

import io
import json
import time
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django_q.models import OrmQ

from memories.models import Message, SlackEvent, Workspace
from memories.rules.ingest.events import MAX_BODY_BYTES
from tests.factories import ChannelFactory, WorkspaceFactory
from tests.slack.fake_events import SIGNING_SECRET, rate_limited, signed_event, url_verification

pytestmark = pytest.mark.django_db

PATH = "/slack/events/"
STATE = SlackEvent.State


@pytest.fixture(autouse=True)
def secret(settings: Any) -> None:
    settings.SLACK_SIGNING_SECRET = SIGNING_SECRET


@pytest.fixture
def team() -> Workspace:
    workspace: Workspace = WorkspaceFactory(team_id="T0TEAM")
    ChannelFactory(workspace=workspace, slack_id="C0OPEN", is_followed=True)
    return workspace


def event_body(
    text: str = "we launch on friday", event_id: str = "Ev1", **fields: Any
) -> dict[str, Any]:
    message = {"type": "message", "channel": "C0OPEN", "channel_type": "channel", "user": "U1"}
    return {
        "type": "event_callback",
        "token": "legacy-token",
        "team_id": "T0TEAM",
        "event_id": event_id,
        "event_time": 1_767_603_600,
        "event": {**message, "ts": "1767603600.000100", "text": text},
        **fields,
    }


def post(client: Client, body: Any, secret: str = SIGNING_SECRET, **options: Any) -> Any:
    raw, headers = signed_event(body, secret, **options)
    kind = headers.pop("Content-Type")
    return client.post(PATH, data=raw, content_type=kind, headers=headers)


def queued() -> list[tuple[str, tuple[int, ...]]]:
    return [(task.task["func"], task.task["args"]) for task in OrmQ.objects.all()]


def test_an_event_is_stored_and_a_task_is_queued(
    client: Client, team: Workspace, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = post(client, event_body())
    assert (answer.status_code, answer.content) == (200, b"")
    event = SlackEvent.objects.get()
    assert (event.event_id, event.team_id, event.kind) == ("Ev1", "T0TEAM", "message")
    assert (event.state, event.attempts) == (STATE.WAITING, 0)
    assert "we launch on friday" in event.body
    assert "legacy-token" not in event.body
    assert not Message.objects.exists()
    assert queued() == [("memories.tasks.events", (team.pk,))]


def test_a_burst_queues_one_task(
    client: Client, team: Workspace, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        for number in range(10):
            assert post(client, event_body(event_id=f"Ev{number}")).status_code == 200
    assert SlackEvent.objects.count() == 10
    assert len(queued()) == 1


@pytest.mark.parametrize("state", [STATE.WAITING, STATE.DONE, STATE.SKIPPED, STATE.FAILED])
def test_a_repeated_event_is_not_stored_twice(client: Client, team: Workspace, state: str) -> None:
    post(client, event_body())
    SlackEvent.objects.update(state=state, body="")
    answer = post(client, event_body("something else"))
    assert answer.status_code == 200
    event = SlackEvent.objects.get()
    assert (event.state, event.body) == (state, "")


def test_a_retry_is_stored(client: Client, team: Workspace) -> None:
    """The first attempt may not have been stored."""
    raw, headers = signed_event(event_body())
    kind = headers.pop("Content-Type")
    headers |= {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    assert client.post(PATH, data=raw, content_type=kind, headers=headers).status_code == 200
    assert SlackEvent.objects.count() == 1


def test_the_challenge_is_returned_without_a_query(
    client: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        answer = post(client, url_verification("abc123"))
    assert (answer.status_code, answer.content) == (200, b"abc123")
    assert answer["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    "body", [event_body(), url_verification(), rate_limited("T0TEAM", 5), b"{}"]
)
@pytest.mark.parametrize("wrong", ["secret", "time", "body", "unsigned", "no configured secret"])
def test_requests_without_slacks_signature_are_refused(
    client: Client, team: Workspace, settings: Any, body: Any, wrong: str
) -> None:
    raw, headers = signed_event(
        body,
        "another" if wrong == "secret" else SIGNING_SECRET,
        at=time.time() - 400 if wrong == "time" else None,
    )
    if wrong == "body":
        raw += b" "
    if wrong == "no configured secret":
        settings.SLACK_SIGNING_SECRET = ""
    kind = headers.pop("Content-Type")
    if wrong == "unsigned":
        headers = {}
    answer = client.post(PATH, data=raw, content_type=kind, headers=headers)
    assert answer.status_code == 401 and b"no signature of Slack" in answer.content
    assert not SlackEvent.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'"text"',
        b"\xff\xfe",
        "{}".encode("utf-16"),
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"[" * 500_000,
        b'{"type": "event_callback", "event_time": ' + b"9" * 10_000 + b"}",
        {"type": "event_callback"},
        {**event_body(), "event_id": None},
    ],
    ids=lambda body: "",
)
def test_malformed_bodies_are_refused(client: Client, team: Workspace, body: Any) -> None:
    assert post(client, body).status_code == 401
    assert not SlackEvent.objects.exists()


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete", "options"])
def test_only_post_is_allowed(client: Client, method: str) -> None:
    assert getattr(client, method)(PATH).status_code == 405


def test_neither_login_nor_csrf_token_is_needed(team: Workspace) -> None:
    assert post(Client(enforce_csrf_checks=True), event_body()).status_code == 200


class TestSize:
    def body(self, size: int) -> bytes:
        empty = json.dumps(event_body("")).encode()
        return json.dumps(event_body("x" * (size - len(empty)))).encode()

    def test_a_body_of_the_largest_size_is_stored(self, client: Client, team: Workspace) -> None:
        raw = self.body(MAX_BODY_BYTES)
        assert len(raw) == MAX_BODY_BYTES
        assert post(client, raw).status_code == 200
        assert SlackEvent.objects.count() == 1

    def test_a_larger_body_is_refused(self, client: Client, team: Workspace) -> None:
        assert post(client, self.body(MAX_BODY_BYTES + 1)).status_code == 413
        assert not SlackEvent.objects.exists()

    @pytest.mark.parametrize(("length", "status"), [(10, 401), (MAX_BODY_BYTES * 1000, 413)])
    def test_a_wrong_content_length_does_not_help(
        self, client: Client, team: Workspace, length: int, status: int
    ) -> None:
        """No more than the limit is read, and a cut body has no valid signature."""
        raw, headers = signed_event(self.body(MAX_BODY_BYTES + 500))
        stream = Counting(raw)
        answer = client.generic(
            "POST",
            PATH,
            headers={name: headers[name] for name in headers if name.startswith("X-")},
            **{"CONTENT_LENGTH": str(length), "wsgi.input": stream},
        )
        assert answer.status_code == status
        assert stream.bytes_read <= MAX_BODY_BYTES + 1

    def test_a_body_that_is_cut_off_is_refused(self, client: Client, team: Workspace) -> None:
        raw, headers = signed_event(event_body())
        answer = client.generic(
            "POST",
            PATH,
            headers={name: headers[name] for name in headers if name.startswith("X-")},
            **{"CONTENT_LENGTH": str(len(raw)), "wsgi.input": io.BytesIO(raw[:-5])},
        )
        assert answer.status_code == 401


class Counting(io.BytesIO):
    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


def test_events_of_another_team_are_not_stored(client: Client, team: Workspace) -> None:
    assert post(client, event_body(team_id="T9")).status_code == 200
    assert post(client, rate_limited("T9", 5)).status_code == 200
    assert not SlackEvent.objects.exists()


def test_an_event_without_a_team_is_refused(client: Client) -> None:
    WorkspaceFactory()
    assert post(client, event_body(team_id="")).status_code == 401
    assert not SlackEvent.objects.exists()


def test_an_event_of_a_shared_channel_belongs_to_our_team(client: Client, team: Workspace) -> None:
    assert post(client, event_body(team_id="T9", context_team_id="T0TEAM")).status_code == 200
    assert SlackEvent.objects.get().team_id == "T0TEAM"


@pytest.mark.parametrize("kind", ["im", "mpim", "app_home"])
def test_no_text_of_direct_messages_is_stored(client: Client, team: Workspace, kind: str) -> None:
    body = event_body("just between us")
    body["event"] |= {"channel": "D1", "channel_type": kind}
    assert post(client, body).status_code == 200
    event = SlackEvent.objects.get()
    assert (event.state, event.reason, event.body) == (STATE.SKIPPED, "direct messages", "")
    assert not OrmQ.objects.exists()


def test_a_rate_limited_minute_is_recorded_once(client: Client, team: Workspace) -> None:
    for minute in (60, 60, 120):
        assert post(client, rate_limited("T0TEAM", minute)).status_code == 200
    rows = SlackEvent.objects.values_list("kind", "state", "body")
    assert list(rows) == 2 * [("app_rate_limited", STATE.SKIPPED, "")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "status", "stored"), [("django_q_ormq", 200, 1), ("memories_slackevent", 503, 0)]
)
def test_database_errors(
    client: Client, team: Workspace, table: str, status: int, stored: int
) -> None:
    """The next tick finds a lost task. Slack sends an event again that was not stored."""

    def broken(execute: Any, sql: str, *args: Any) -> Any:
        if table in sql:
            raise OperationalError("disk full")
        return execute(sql, *args)

    with connection.execute_wrapper(broken):
        assert post(client, event_body()).status_code == status
    assert SlackEvent.objects.count() == stored
    assert not queued()
    assert post(client, event_body()).status_code == 200
    assert SlackEvent.objects.count() == 1
    assert len(queued()) == 1


def test_a_larger_table_needs_no_more_queries(
    client: Client, team: Workspace, django_assert_max_num_queries: Any
) -> None:
    SlackEvent.objects.bulk_create(
        SlackEvent(event_id=f"Old{number}", team_id="T0TEAM", kind="message", state=STATE.DONE)
        for number in range(50)
    )
    with django_assert_max_num_queries(5):  # two of them for the savepoint of a test
        post(client, event_body())
