"""A sync under Slack's rate limits, on the slow plan and with a time limit."""

from datetime import timedelta

import pytest

from memories.models import Message, SlackConnection, Workspace
from memories.models.sync.channel_sync import sync_of
from memories.pipeline.sync.slack_budget import SharedLimiter
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncState
from tests.pipeline.sync.team import (
    CLOSED,
    GENERAL,
    HISTORY,
    LATER,
    NOW,
    REPLIES,
    Sync,
    channel_report,
    client_of,
    everything,
    general_sync,
    say_more,
    texts,
    ts,
)
from tests.slack.fake_slack import TOKEN, FakeSlack, Fault

pytestmark = pytest.mark.django_db


def test_an_interrupted_thread_is_read_by_the_next_sync(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.inject_fault(REPLIES, Fault.rate_limited(600))
    report = channel_report(sync())
    assert (report.state, report.code) == (SyncState.LIMITED, "ratelimited")
    assert texts(workspace) == ["an old line", "shall we ship?", "a new line"]
    state = general_sync(workspace)
    assert (state.synced_ts, state.synced_at) == (ts(1), None), "history complete, threads not"
    report = channel_report(sync())
    assert (report.state, report.stats.threads) == (SyncState.SYNCED, 1)
    assert general_sync(workspace).synced_at == NOW
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW


def test_a_rate_limit_keeps_the_channel_and_reports_when_to_retry(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    before = everything(workspace)
    say_more(slack)
    slack.inject_fault(HISTORY, Fault.rate_limited(120))
    report = sync(LATER)
    assert [each.state for each in report.channels if each.channel_id in (GENERAL, CLOSED)] == [
        SyncState.LIMITED,
        SyncState.LIMITED,
    ]
    for slack_id in (GENERAL, CLOSED):
        until = channel_report(report, slack_id).retry_at
        assert until is not None
        assert LATER + timedelta(seconds=110) < until < LATER + timedelta(seconds=130)
        row = sync_of(workspace.channels.get(slack_id=slack_id))
        assert (row.error_code, row.retry_at) == ("ratelimited", until)
    assert slack.too_early == []
    assert slack.count(HISTORY) == 1
    assert everything(workspace) == before
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW, "later messages are unread"
    assert workspace.next_sync_at is not None
    assert abs((workspace.next_sync_at - LATER).total_seconds() - 120) < 10
    sync(LATER)
    assert general_sync(workspace).error_code == ""


@pytest.mark.slow
def test_a_short_rate_limit_delays_one_channel(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.inject_fault(HISTORY, Fault.rate_limited(1), on=2)
    report = sync(client=client_of(slack, limiter=SharedLimiter(TOKEN)))
    assert channel_report(report, GENERAL).state is SyncState.SYNCED
    assert channel_report(report, CLOSED).state is SyncState.LIMITED
    assert [call.status for call in slack.calls if call.method == HISTORY] == [200, 429]
    # Another process waits for the limit, too.
    report = sync(client=client_of(slack, limiter=SharedLimiter(TOKEN)))
    assert report.channels[0].channel_id == CLOSED, "it waits longest"
    assert len(report.in_state(SyncState.SYNCED)) == 2
    assert slack.too_early == []


def test_the_slow_plan_is_detected_and_stored(slack: FakeSlack, workspace: Workspace) -> None:
    for n in range(40):
        slack.say(GENERAL, "U1", f"line {n}", ts(3, n))
    slack.slow_plan = True
    slack.budgets.calls.update({HISTORY: 1, REPLIES: 1})
    report = sync_workspace(workspace, client_of(slack, limiter=SharedLimiter(TOKEN)), NOW)
    assert report.slow_plan
    assert channel_report(report).state is SyncState.LIMITED
    assert SlackConnection.objects.get(workspace=workspace).slow_plan
    assert Message.objects.filter(text__startswith="line").count() > 0


def test_after_the_time_limit_the_next_sync_continues(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    report = sync(seconds=-1)
    assert {each.channel_id for each in report.in_state(SyncState.UNFINISHED)} == {GENERAL, CLOSED}
    assert slack.count(HISTORY) == 0
    workspace.refresh_from_db()
    assert workspace.synced_at is None, "nothing is read"
    assert len(sync().in_state(SyncState.SYNCED)) == 2


def test_the_channel_read_longest_ago_comes_first(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync(channels=["general"])
    assert [each.channel_id for each in sync(LATER).in_state(SyncState.SYNCED)] == [CLOSED, GENERAL]
