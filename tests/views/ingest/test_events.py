"""The endpoint that Slack posts to: what is stored, what is acknowledged, what is refused."""

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


def told(text: str = "we launch on friday", event_id: str = "Ev1", **more: Any) -> dict[str, Any]:
    said = {"type": "message", "channel": "C0OPEN", "channel_type": "channel", "user": "U1"}
    return {
        "type": "event_callback",
        "token": "legacy-token",
        "team_id": "T0TEAM",
        "event_id": event_id,
        "event_time": 1_767_603_600,
        "event": {**said, "ts": "1767603600.000100", "text": text},
        **more,
    }


def post(client: Client, body: Any, secret: str = SIGNING_SECRET, **more: Any) -> Any:
    raw, headers = signed_event(body, secret, **more)
    kind = headers.pop("Content-Type")
    return client.post(PATH, data=raw, content_type=kind, headers=headers)


def queued() -> list[tuple[str, tuple[int, ...]]]:
    return [(task.task["func"], task.task["args"]) for task in OrmQ.objects.all()]


def test_an_event_is_stored_and_acknowledged_and_no_more(
    client: Client, team: Workspace, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = post(client, told())
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
            assert post(client, told(event_id=f"Ev{number}")).status_code == 200
    assert SlackEvent.objects.count() == 10
    assert len(queued()) == 1


@pytest.mark.parametrize("state", [STATE.WAITING, STATE.DONE, STATE.SKIPPED, STATE.FAILED])
def test_one_sent_again_is_acknowledged_and_not_stored_twice(
    client: Client, team: Workspace, state: str
) -> None:
    post(client, told())
    SlackEvent.objects.update(state=state, body="")
    answer = post(client, told("something else"))
    assert answer.status_code == 200
    event = SlackEvent.objects.get()
    assert (event.state, event.body) == (state, "")


def test_a_retry_header_changes_nothing(client: Client, team: Workspace) -> None:
    """Whoever drops what is sent again loses what was not taken the first time."""
    raw, headers = signed_event(told())
    kind = headers.pop("Content-Type")
    headers |= {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    assert client.post(PATH, data=raw, content_type=kind, headers=headers).status_code == 200
    assert SlackEvent.objects.count() == 1


def test_the_challenge_is_echoed_and_touches_nothing(
    client: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        answer = post(client, url_verification("abc123"))
    assert (answer.status_code, answer.content) == (200, b"abc123")
    assert answer["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("body", [told(), url_verification(), rate_limited("T0TEAM", 5), b"{}"])
@pytest.mark.parametrize("wrong", ["secret", "time", "body", "unsigned", "no secret of ours"])
def test_what_is_not_slacks(
    client: Client, team: Workspace, settings: Any, body: Any, wrong: str
) -> None:
    raw, headers = signed_event(
        body,
        "another" if wrong == "secret" else SIGNING_SECRET,
        at=time.time() - 400 if wrong == "time" else None,
    )
    if wrong == "body":
        raw += b" "
    if wrong == "no secret of ours":
        settings.SLACK_SIGNING_SECRET = ""
    kind = headers.pop("Content-Type")
    if wrong == "unsigned":
        headers = {}
    answer = client.post(PATH, data=raw, content_type=kind, headers=headers)
    assert (answer.status_code, answer.content) == (401, b"")
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
        {**told(), "event_id": None},
        {**told(), "event_id": {"a": 1}},
        {**told(), "event_id": "x" * 200},
        {**told(), "team_id": 5},
        {**told(), "event": []},
        {"type": "url_verification"},
        {"type": "url_verification", "challenge": "x" * 5000},
    ],
    ids=lambda body: "",
)
def test_signed_and_malformed(client: Client, team: Workspace, body: Any) -> None:
    assert post(client, body).status_code == 401
    assert not SlackEvent.objects.exists()


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete", "options"])
def test_other_methods(client: Client, method: str) -> None:
    assert getattr(client, method)(PATH).status_code == 405


def test_no_login_and_no_csrf_token(team: Workspace) -> None:
    assert post(Client(enforce_csrf_checks=True), told()).status_code == 200


class TestSize:
    def body(self, size: int) -> bytes:
        empty = json.dumps(told("")).encode()
        return json.dumps(told("x" * (size - len(empty)))).encode()

    def test_the_largest(self, client: Client, team: Workspace) -> None:
        raw = self.body(MAX_BODY_BYTES)
        assert len(raw) == MAX_BODY_BYTES
        assert post(client, raw).status_code == 200
        assert SlackEvent.objects.count() == 1

    def test_one_byte_more(self, client: Client, team: Workspace) -> None:
        assert post(client, self.body(MAX_BODY_BYTES + 1)).status_code == 413
        assert not SlackEvent.objects.exists()

    @pytest.mark.parametrize(("length", "status"), [(10, 401), (MAX_BODY_BYTES * 1000, 413)])
    def test_a_length_that_lies(
        self, client: Client, team: Workspace, length: int, status: int
    ) -> None:
        """No more is read than the cap, and a part of a body is not what was signed."""
        raw, headers = signed_event(self.body(MAX_BODY_BYTES + 500))
        sent = Counting(raw)
        answer = client.generic(
            "POST",
            PATH,
            headers={name: headers[name] for name in headers if name.startswith("X-")},
            **{"CONTENT_LENGTH": str(length), "wsgi.input": sent},
        )
        assert answer.status_code == status
        assert sent.read_so_far <= MAX_BODY_BYTES + 1

    def test_more_than_was_announced_is_not_stored(self, client: Client, team: Workspace) -> None:
        raw, headers = signed_event(told())
        answer = client.generic(
            "POST",
            PATH,
            headers={name: headers[name] for name in headers if name.startswith("X-")},
            **{"CONTENT_LENGTH": str(len(raw)), "wsgi.input": io.BytesIO(raw[:-5])},
        )
        assert answer.status_code == 401


class Counting(io.BytesIO):
    read_so_far = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.read_so_far += len(found)
        return found


def test_of_another_team_nothing_is_kept(client: Client, team: Workspace) -> None:
    assert post(client, told(team_id="T9")).status_code == 200
    assert post(client, rate_limited("T9", 5)).status_code == 200
    assert not SlackEvent.objects.exists()


def test_a_workspace_without_a_team_gets_nothing(client: Client) -> None:
    WorkspaceFactory()
    assert post(client, told(team_id="")).status_code == 401
    assert not SlackEvent.objects.exists()


def test_of_a_shared_channel_the_team_that_is_ours_counts(client: Client, team: Workspace) -> None:
    assert post(client, told(team_id="T9", context_team_id="T0TEAM")).status_code == 200
    assert SlackEvent.objects.get().team_id == "T0TEAM"


@pytest.mark.parametrize("kind", ["im", "mpim", "app_home"])
def test_direct_messages_leave_no_text(client: Client, team: Workspace, kind: str) -> None:
    body = told("just between us")
    body["event"] |= {"channel": "D1", "channel_type": kind}
    assert post(client, body).status_code == 200
    event = SlackEvent.objects.get()
    assert (event.state, event.reason, event.body) == (STATE.SKIPPED, "direct messages", "")
    assert not OrmQ.objects.exists()


def test_a_minute_that_slack_leaves_out_is_counted_once(client: Client, team: Workspace) -> None:
    for minute in (60, 60, 120):
        assert post(client, rate_limited("T0TEAM", minute)).status_code == 200
    rows = SlackEvent.objects.values_list("kind", "state", "body")
    assert list(rows) == 2 * [("app_rate_limited", STATE.SKIPPED, "")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "status", "stored"), [("django_q_ormq", 200, 1), ("memories_slackevent", 503, 0)]
)
def test_a_broken_database(
    client: Client, team: Workspace, table: str, status: int, stored: int
) -> None:
    """A lost task is found by the next tick; what is not stored Slack has to send again."""

    def broken(execute: Any, sql: str, *args: Any) -> Any:
        if table in sql:
            raise OperationalError("disk full")
        return execute(sql, *args)

    with connection.execute_wrapper(broken):
        assert post(client, told()).status_code == status
    assert SlackEvent.objects.count() == stored
    assert not queued()
    assert post(client, told()).status_code == 200
    assert SlackEvent.objects.count() == 1
    assert len(queued()) == 1


def test_no_query_more_for_a_larger_table(
    client: Client, team: Workspace, django_assert_max_num_queries: Any
) -> None:
    SlackEvent.objects.bulk_create(
        SlackEvent(event_id=f"Old{number}", team_id="T0TEAM", kind="message", state=STATE.DONE)
        for number in range(50)
    )
    with django_assert_max_num_queries(5):  # two of them for the savepoint of a test
        post(client, told())
