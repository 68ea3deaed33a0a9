"""A sync under Slack's rate limits, the slow plan and a time of its own."""

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


def test_a_thread_that_breaks_off_is_owed(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.inject_fault(REPLIES, Fault.rate_limited(600))
    found = channel_report(sync())
    assert (found.state, found.code) == (SyncState.LIMITED, "ratelimited")
    assert texts(workspace) == ["an old line", "shall we ship?", "a new line"]
    state = general_sync(workspace)
    assert (state.synced_ts, state.synced_at) == (ts(1), None), "known, and not complete"
    workspace.refresh_from_db()
    assert workspace.synced_at is None
    found = channel_report(sync())
    assert (found.state, found.stats.threads) == (SyncState.SYNCED, 1)
    assert general_sync(workspace).synced_at == NOW
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW


def test_a_rate_limit_leaves_the_channel_and_says_until_when(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    before = everything(workspace)
    say_more(slack)
    slack.inject_fault(HISTORY, Fault.rate_limited(120))
    report = sync(LATER)
    assert [one.state for one in report.channels if one.channel_id in (GENERAL, CLOSED)] == [
        SyncState.LIMITED,
        SyncState.LIMITED,
    ]
    for slack_id in (GENERAL, CLOSED):
        until = channel_report(report, slack_id).not_before
        assert until is not None
        assert LATER + timedelta(seconds=110) < until < LATER + timedelta(seconds=130)
        row = sync_of(workspace.channels.get(slack_id=slack_id))
        assert (row.error_code, row.retry_at) == ("ratelimited", until)
    assert slack.too_early == []
    assert slack.count(HISTORY) == 1
    assert everything(workspace) == before
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW, "what was said since is not known"
    assert workspace.sync_again_at is not None
    assert abs((workspace.sync_again_at - LATER).total_seconds() - 120) < 10
    sync(LATER)
    assert general_sync(workspace).error_code == ""


@pytest.mark.slow
def test_a_short_rate_limit_costs_one_channel_its_turn(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.inject_fault(HISTORY, Fault.rate_limited(1), on=2)
    report = sync(client=client_of(slack, limiter=SharedLimiter(TOKEN)))
    assert channel_report(report, GENERAL).state is SyncState.SYNCED
    assert channel_report(report, CLOSED).state is SyncState.LIMITED
    assert [call.status for call in slack.calls if call.method == HISTORY] == [200, 429]
    # Another process knows of the limit, too, and waits that second.
    report = sync(client=client_of(slack, limiter=SharedLimiter(TOKEN)))
    assert report.channels[0].channel_id == CLOSED, "whose turn was longest ago"
    assert len(report.in_state(SyncState.SYNCED)) == 2
    assert slack.too_early == []


def test_the_slow_plan_is_noticed_and_kept(slack: FakeSlack, workspace: Workspace) -> None:
    for n in range(40):
        slack.say(GENERAL, "U1", f"line {n}", ts(3, n))
    slack.slow_plan = True
    slack.budgets.calls.update({HISTORY: 1, REPLIES: 1})
    report = sync_workspace(workspace, client_of(slack, limiter=SharedLimiter(TOKEN)), NOW)
    assert report.slow_plan
    assert channel_report(report).state is SyncState.LIMITED
    assert SlackConnection.objects.get(workspace=workspace).slow_plan
    assert Message.objects.filter(text__startswith="line").count() > 0


def test_when_time_is_up_the_next_sync_goes_on(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    report = sync(seconds=-1)
    assert {one.channel_id for one in report.in_state(SyncState.UNFINISHED)} == {GENERAL, CLOSED}
    assert slack.count(HISTORY) == 0
    workspace.refresh_from_db()
    assert workspace.synced_at is None, "what was not read is not known"
    assert len(sync().in_state(SyncState.SYNCED)) == 2


def test_the_channel_read_longest_ago_comes_first(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync(channels=["general"])
    assert [one.channel_id for one in sync(LATER).in_state(SyncState.SYNCED)] == [CLOSED, GENERAL]
