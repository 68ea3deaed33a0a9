"""Errors of Slack during a sync delete nothing and stop nothing else."""

import pytest
from django.db.models import F, Q

from memories.models import SlackConnection, Workspace
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncState
from memories.rules.ingest.outcomes import ObjectType
from tests.factories import WorkspaceFactory
from tests.pipeline.sync.team import (
    CLOSED,
    ELSEWHERE,
    GENERAL,
    HISTORY,
    LATER,
    NOW,
    REPLIES,
    ROOT,
    Sync,
    channel_report,
    client_of,
    delete_a_line,
    everything,
    follow,
    general,
    general_sync,
    say_more,
    texts,
    ts,
)
from tests.slack.fake_slack import FakeSlack, Fault

pytestmark = pytest.mark.django_db

further = pytest.mark.nightly("stops between or after the calls of the others")


@pytest.mark.slow
def test_an_interrupted_read_deletes_nothing_and_is_finished_later(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    delete_a_line(slack)
    say_more(slack)
    before = general_sync(workspace)
    slack.page_size = 1
    # The closed channel is read after the general one.
    slack.inject_fault(HISTORY, Fault(500), on=2, times=4)
    report = sync(LATER)
    failed = channel_report(report)
    assert failed.state is SyncState.FAILED
    assert "500" in failed.failures[0]
    after = general_sync(workspace)
    assert (after.synced_ts, after.synced_at) == (before.synced_ts, before.synced_at)
    # The first page is stored. Nothing below it is deleted.
    assert texts(workspace)[-2:] == ["a new line", "one more"]
    assert failed.stats.deleted == 0
    assert channel_report(report, CLOSED).state is SyncState.SYNCED

    sync(LATER)
    after = general_sync(workspace)
    assert (after.synced_ts, after.synced_at) == (ts(0), LATER)
    assert texts(workspace)[-1] == "one more"
    assert "a new line" not in texts(workspace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "page_size"),
    [
        *((2, 1), (1, 1000)),
        *(
            pytest.param(*given, marks=further)
            for given in ((1, 1), (3, 1), (5, 1), (2, 1000), (3, 1000), (5, 1000))
        ),
    ],
)
@pytest.mark.parametrize("method", [HISTORY, REPLIES, "conversations.members"])
def test_a_sync_stopped_at_any_call_is_finished_by_the_next(
    slack: FakeSlack, workspace: Workspace, sync: Sync, method: str, call: int, page_size: int
) -> None:
    """The n-th call of a method and all later ones fail. There are three threads."""
    for n, root in enumerate((ts(5), ts(4))):
        slack.say(GENERAL, "U1", f"question {n}", root)
        slack.say(GENERAL, "U2", f"answer {n}", ts(1.5, n), thread=root)
    slack.page_size = page_size
    slack.inject_fault(method, Fault.rate_limited(600), on=call, times=99)
    report = sync()
    assert report.tally.is_complete
    assert slack.too_early == []
    channel = general(workspace)
    live = channel.messages.filter(state="live")
    state = general_sync(workspace)
    if state.synced_ts:
        # All messages of the channel itself are stored.
        assert live.filter(Q(thread_ts="") | Q(thread_ts=F("ts"))).count() == 5
    for root in live.filter(thread_ts=F("ts"), has_unread_replies=False):
        # Each thread is complete, or marked as unread.
        replies = live.filter(thread_ts=root.ts).exclude(ts=root.ts)
        assert replies.count() == len(slack.channels[GENERAL].replies_of(root.ts))
    if state.synced_at:
        assert state.synced_ts
        assert not live.filter(has_unread_replies=True).exists()
    slack.clear_faults()
    sync()
    assert general_sync(workspace).synced_at == NOW
    stopped = everything(workspace)
    fresh = follow(WorkspaceFactory())
    assert not sync_workspace(fresh, client_of(slack), NOW).in_state(SyncState.FAILED)
    assert everything(fresh) == stopped


def test_an_error_in_one_channel_does_not_stop_other_channels(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.inject_fault(HISTORY, Fault.error("internal_error"))
    report = sync()
    states = {each.channel_id: each.state for each in report.channels}
    assert states == {
        GENERAL: SyncState.FAILED,
        CLOSED: SyncState.SYNCED,
        ELSEWHERE: SyncState.NOT_MEMBER,
    }
    assert texts(workspace, CLOSED) == ["between us"]


def test_an_error_in_one_thread_does_not_stop_messages(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.inject_fault(REPLIES, Fault.error("thread_not_found"))
    report = channel_report(sync())
    assert report.state is SyncState.FAILED
    assert ROOT in report.failures[0]
    assert texts(workspace) == ["an old line", "shall we ship?", "a new line"]
    assert channel_report(sync()).stats.new == 2


@pytest.mark.slow
@pytest.mark.parametrize("code", ["token_revoked", "invalid_auth", "account_inactive"])
def test_a_rejected_token_changes_nothing(
    slack: FakeSlack, workspace: Workspace, sync: Sync, code: str
) -> None:
    sync()
    before = everything(workspace)
    say_more(slack)
    slack.channels[CLOSED].is_private = False
    slack.token_error = code
    report = sync(LATER)
    assert report.code == code
    assert report.error
    assert report.channels == []
    assert everything(workspace) == before
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW


def test_a_token_revoked_half_way_ends_the_sync(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.inject_fault(HISTORY, Fault.error("token_revoked"), on=2)
    report = sync()
    assert report.code == "token_revoked"
    assert report.tally.is_complete
    assert report.tally.count(ObjectType.MESSAGE) == 5
    workspace.refresh_from_db()
    assert workspace.synced_at is None


@pytest.mark.parametrize(
    ("code", "state"), [("token_revoked", "revoked"), ("account_inactive", "uninstalled")]
)
def test_a_rejected_token_stops_the_connection(
    slack: FakeSlack, workspace: Workspace, sync: Sync, code: str, state: str
) -> None:
    sync()
    slack.token_error = code
    assert sync(LATER).code == code
    connection = SlackConnection.objects.get(workspace=workspace)
    assert connection.state == state
    assert code in connection.trouble


def test_a_missing_scope_is_an_error_with_its_name(slack: FakeSlack, sync: Sync) -> None:
    slack.scopes.remove("channels:read")
    report = sync()
    assert report.code == "missing_scope"
    assert "channels:read" in report.error


def test_the_token_of_a_person_is_refused(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    answer = {"ok": True, "team_id": slack.team_id, "team": "Fake Team", "user_id": "U1"}
    slack.inject_fault("auth.test", Fault.answer(answer))
    assert sync().code == "not_a_bot"
    assert slack.counts() == {"auth.test": 1}


def test_the_token_of_another_team_is_refused(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    workspace.team_id = "T0OTHER"
    workspace.save()
    report = sync()
    assert report.code == "wrong_team"
    assert slack.counts() == {"auth.test": 1}
    workspace.refresh_from_db()
    assert (workspace.team_id, workspace.connected_at) == ("T0OTHER", None)
