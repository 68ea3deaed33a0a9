"""Actions on the rows of a list: what each changes, and for whom."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db.models import Model
from django.test import Client

from memories.models import (
    ApiKey,
    AuditEvent,
    Backfill,
    Endpoint,
    Job,
    Memory,
    Proposal,
    QuarantinedLine,
    SlackConnection,
    SlackEvent,
    User,
    Workspace,
)
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import Reply
from tests.admin.conftest import act, page_of
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_job,
    make_proposed_merge,
    make_version,
)

pytestmark = pytest.mark.django_db


def event() -> SlackEvent:
    return SlackEvent.objects.create(
        event_id="Ev1", team_id="T1", kind="message", state="failed", reason="down", attempts=5
    )


def endpoint() -> Endpoint:
    return Endpoint.objects.create(fingerprint="f", name="tiny", needs_person=True)


def backfill(state: str = "running") -> Backfill:
    workspace = WorkspaceFactory()
    return Backfill.objects.create(workspace=workspace, since_us=0, until_us=1, state=state)


def job(state: str = "dead", kind: str = "public") -> Job:
    memory = make_channel_memory(channel=ChannelFactory(kind=kind), texts=["- one"])
    return make_job(memory=memory, state=state, attempts=5)


def proposed_text(channel: Any = None) -> Job:
    memory = Memory.objects.of_channel(channel or ChannelFactory(), MemoryType.LONG_TERM)
    base = make_version(memory=memory, text="- " + "x" * 398)
    reply = Reply("- " + "y" * 38, "stop", "tiny", "p").as_json()
    return make_job(memory=memory, state="proposed", base=base, reply=reply)


def proposal() -> Proposal:
    memory = make_channel_memory(channel=ChannelFactory(), texts=["- Anna leads"])
    return Proposal.objects.propose(memory.current, memory.current.lines.get(), "Ben leads")


def quarantined_line() -> QuarantinedLine:
    memory = make_channel_memory(channel=ChannelFactory())
    line = QuarantinedLine.objects.create(memory=memory, text="https://evil.example", rule="link")
    line.sources.add(MessageFactory(channel=memory.channel))
    return line


def connection() -> SlackConnection:
    row = SlackConnection.objects.of(WorkspaceFactory())
    row.set_token("xoxb-1234-pasted", by=None)
    return row


# row, action, values of the row afterwards, audit event
ACTIONS: list[tuple[Callable[[], Model], str, dict[str, Any], str]] = [
    (event, "retry", {"state": "waiting", "attempts": 1, "reason": ""}, "event_retry"),
    (endpoint, "resume", {"needs_person": False}, "endpoint_resume"),
    (backfill, "pause", {"state": "paused"}, "backfill_pause"),
    (lambda: backfill("paused"), "resume", {"state": "running"}, "backfill_resume"),
    (backfill, "cancel", {"state": "cancelled"}, "backfill_cancel"),
    (job, "retry", {"state": "waiting", "attempts": 0}, "job_retry"),
    (lambda: job("waiting"), "cancel", {"state": "cancelled"}, "job_cancel"),
    (make_proposed_merge, "approve", {"state": "done"}, "proposal_accept"),
    (proposed_text, "reject", {"state": "rejected"}, "proposal_reject"),
    (proposal, "approve", {"state": "approved"}, "proposal_accept"),
    (proposal, "reject", {"state": "rejected"}, "proposal_reject"),
    (quarantined_line, "reject", {"state": "rejected"}, "quarantine_reject"),
    (connection, "delete_token", {"has_token": False}, "slack_token_removed"),
]
IDS = [f"{action} {values}" for _, action, values, _ in ACTIONS]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "action", "values", "event"), ACTIONS, ids=IDS)
def test_an_action_changes_a_row_once(
    client: Client,
    operator: User,
    make: Callable[[], Model],
    action: str,
    values: dict[str, Any],
    event: str,
) -> None:
    row = make()
    [text] = act(client, action, row)
    assert text.endswith("done for 1 of 1.")
    row.refresh_from_db()
    assert {name: getattr(row, name) for name in values} == values
    assert AuditEvent.objects.get(action=event).actor == "boss"
    assert act(client, action, row)[0].endswith("done for 0 of 1.")


@pytest.mark.slow
@pytest.mark.parametrize(("make", "action", "values", "event"), ACTIONS, ids=IDS)
def test_a_viewer_changes_nothing(
    client: Client,
    make: Callable[[], Model],
    action: str,
    values: dict[str, Any],
    event: str,
) -> None:
    row = make()
    before = type(row)._base_manager.values().get(pk=row.pk)
    user = UserFactory(is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    for workspace in Workspace.objects.all():
        MemberFactory(user=user, workspace=workspace, role="admin")
    client.force_login(user)
    act(client, action, row)
    assert type(row)._base_manager.values().get(pk=row.pk) == before


def test_a_key_stops_working(client: Client, operator: User) -> None:
    key, token = ApiKey.objects.issue(WorkspaceFactory(), name="ci", by=None)
    act(client, "revoke", key)
    assert ApiKey.objects.find(token, key.created_at) is None
    assert AuditEvent.objects.get(action="api_key_revoke").actor == operator.username


def test_several_proposals_are_approved(client: Client, operator: User) -> None:
    rows = [proposal(), proposal()]
    assert "Ben leads" in client.get(page_of(Proposal)).content.decode()
    assert act(client, "approve", *rows) == ["Approve: done for 2 of 2."]
    for row in rows:
        row.memory.refresh_from_db()
        assert row.memory.current and row.memory.current.content == "- Ben leads"


@pytest.mark.slow
def test_only_readers_approve_or_reject_proposals(client: Client, operator: User) -> None:
    person = PersonFactory()
    private = ChannelFactory(workspace=person.workspace, kind="private", members=[person])
    row = proposed_text(private)
    assert "100 → 10" in client.get(page_of(Job)).content.decode()
    for action in ("approve", "reject"):
        act(client, action, row)
    row.refresh_from_db()
    assert row.state == "proposed"
    person.link(operator, "slack")
    assert act(client, "reject", row) == ["Reject proposals: done for 1 of 1."]


def test_a_stale_proposal_is_not_approved(client: Client, operator: User) -> None:
    row = proposed_text()
    row.memory.revise("- by hand", by=None, based_on=1)
    assert act(client, "approve", row) == ["Approve proposals: done for 0 of 1."]
    row.memory.refresh_from_db()
    assert row.memory.current and row.memory.current.content == "- by hand"


@pytest.mark.slow
def test_operators_retry_jobs_of_private_channels_without_their_name(
    client: Client, operator: User, clerk: User
) -> None:
    row = job(kind="private")
    page = client.get(page_of(Job)).content.decode()
    channel = row.memory.channel
    assert channel is not None and '<td class="field-memory_name">private</td>' in page
    assert channel.name not in page and channel.slack_id not in page
    MemberFactory(user=clerk, workspace=row.memory.workspace)
    client.force_login(clerk)
    act(client, "retry", row)
    row.refresh_from_db()
    assert row.state == "dead"
    client.force_login(operator)
    act(client, "retry", row)
    row.refresh_from_db()
    assert row.state == "waiting"


def test_sources_of_quarantined_lines_are_shown(client: Client, operator: User) -> None:
    line = quarantined_line()
    page = client.get(page_of(QuarantinedLine, "change", line.pk)).content.decode()
    assert line.text in page and line.sources.get().author_name in page
