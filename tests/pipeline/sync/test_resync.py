"""Reads of many runs, and the resync of old messages and threads."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from memories.models import Workspace
from memories.pipeline.generate.plan import channels_to_plan
from memories.pipeline.ingest.store import store_messages
from memories.pipeline.sync.coverage import Gap, coverage_of
from memories.rules.ingest.timestamps import from_micros, micros, to_micros
from tests.factories import MONDAY, ChannelFactory, MessageFactory, set_sync, ts_at
from tests.pipeline.sync.team import (
    CLOSED,
    GENERAL,
    HISTORY,
    LATER,
    NOW,
    REPLIES,
    ROOT,
    CallLimiter,
    Sync,
    channel_report,
    client_of,
    delete_a_line,
    general,
    general_sync,
    say_more,
    texts,
    ts,
)
from tests.slack.fake_slack import FakeSlack

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

# Reads of many runs


def test_a_read_continues_from_its_position(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """One call of history and one of replies in each run."""
    workspace.channels.get(slack_id=CLOSED).follow(by=None, on=False)
    slack.page_size = 1
    seen = []
    for run in range(4):
        report = channel_report(
            sync(client=client_of(slack, limiter=CallLimiter(1)), resume=run > 0)
        )
        row = general_sync(workspace)
        seen.append((report.state.value, row.history_reached_ts, row.synced_ts, row.synced_at))
        assert slack.count(HISTORY) <= 1
    assert seen == [
        ("limited", ts(1), "", None),
        ("limited", ROOT, "", None),
        ("synced", "", ts(1), NOW),  # with the thread
        ("synced", "", ts(1), NOW),  # a read of the last minutes counts
    ]
    assert slack.count(HISTORY) == 0
    assert slack.count("users.list") == 0, "people were listed a moment ago"
    assert texts(workspace) == ["an old line", "shall we ship?", "yes", "on Friday", "a new line"]
    # The next sync finds new messages.
    say_more(slack)
    sync()
    assert texts(workspace)[-1] == "one more"


def test_a_read_in_progress_shows_a_gap(slack: FakeSlack, workspace: Workspace, sync: Sync) -> None:
    slack.page_size = 1
    coverage = channel_report(sync(client=client_of(slack, limiter=CallLimiter(2)))).coverage
    assert coverage is not None
    at = from_micros(micros(ROOT))
    assert (coverage.begin, coverage.end, coverage.behind) == (at, from_micros(micros(ts(1))), None)
    assert coverage.gaps == (Gap(None, at),)
    assert coverage.code == "ratelimited"
    sync()
    whole = coverage_of(general(workspace), NOW + timedelta(minutes=3))
    assert (whole.begin, whole.gaps, whole.behind, whole.code) == (None, (), 180, "")


@pytest.mark.parametrize("page_size", [1, 2])
def test_deletions_during_a_read_are_found(
    slack: FakeSlack, workspace: Workspace, sync: Sync, page_size: int
) -> None:
    sync()
    slack.page_size = page_size
    for n in range(4):
        slack.say(GENERAL, "U1", f"said {n}", ts(0.5, n))
    sync(client=client_of(slack, limiter=CallLimiter(1)))  # down to said 3 or 2
    slack.delete(GENERAL, ts(0.5, 3))
    slack.delete(GENERAL, ts(0.5, 0))
    delete_a_line(slack)
    while channel_report(sync(client=client_of(slack, limiter=CallLimiter(1)))).stats.pages == 0:
        pass
    sync(LATER)
    assert texts(workspace)[-2:] == ["said 1", "said 2"]
    assert "a new line" not in texts(workspace)


def test_a_message_from_an_event_meanwhile_is_not_deleted(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """It is stored after the call to Slack, and no page contains it."""
    sync()
    client = client_of(slack)
    history = client.history

    def and_meanwhile(*positions: str) -> Iterator[Any]:
        for page in history(*positions):
            raw = {"type": "message", "user": "U1", "text": "just now", "ts": ts(0.1)}
            store_messages(general(workspace), [raw], NOW, live=True)
            yield page

    client.history = and_meanwhile  # type: ignore[method-assign]
    report = channel_report(sync(client=client))
    assert report.stats.deleted == 0
    assert texts(workspace)[-1] == "just now"
    # Slack does not have it after all.
    assert channel_report(sync()).stats.deleted == 1


def test_a_channel_in_its_first_sync_is_not_planned() -> None:
    """Older messages are missing, so the end of a segment would be a guess."""
    channel = ChannelFactory()
    set_sync(channel, history_newest_ts="1767603600.000100")
    channel.remember_from(to_micros(MONDAY))
    MessageFactory(channel=channel, at=MONDAY, text="hello")
    late = to_micros(MONDAY + timedelta(days=1))
    assert channels_to_plan(channel.workspace, late) == []
    set_sync(channel, synced_ts="1767603600.000100", history_newest_ts="")
    assert [row for row, _ in channels_to_plan(channel.workspace, late)] == [channel]


# Resync


def test_each_week_every_message_of_the_channel_is_compared(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    slack.edit(GENERAL, ts(60), "an old line, and edited", ts(0))
    sync(NOW + timedelta(days=6))
    assert "an old line" in texts(workspace)
    sync(NOW + timedelta(days=7))
    assert slack.count(HISTORY) == 2, "in one page with what is new"
    assert "an old line, and edited" in texts(workspace)
    assert general_sync(workspace).resynced_at == NOW + timedelta(days=7)


def test_a_resync_of_many_runs_does_not_block_new_messages(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    workspace.channels.get(slack_id=CLOSED).follow(by=None, on=False)
    for n in range(6):
        slack.say(GENERAL, "U1", f"long ago {n}", ts(100, n))
    sync()
    slack.page_size = 2
    slack.delete(GENERAL, ts(100, 2))
    begin = NOW + timedelta(days=8)
    for run in range(20):
        now = begin + timedelta(minutes=run)
        slack.say(GENERAL, "U2", f"new {run}", ts_at(now))
        sync(now, client=client_of(slack, limiter=CallLimiter(3)))
        assert texts(workspace)[-1] == f"new {run}"
        if general_sync(workspace).resynced_at != NOW:
            break
    assert general_sync(workspace).resync_reached_ts == ""
    assert "long ago 2" not in texts(workspace)
    assert "long ago 1" in texts(workspace)


@pytest.mark.nightly("thirty days of runs")
def test_each_thread_is_read_once_within_thirty_days(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """Five threads in thirty days, at most one in each sync."""
    for n in range(4):
        slack.say(GENERAL, "U1", f"question {n}", ts(50, n))
        slack.say(GENERAL, "U2", f"answer {n}", ts(49, n), thread=ts(50, n))
    sync()
    read: list[str] = []
    for n in range(4):
        slack.edit(GENERAL, ts(49, n), f"answer {n}, edited", ts(0))
    slack.edit(GENERAL, ts(1.8), "on Monday", ts(0))
    for day in range(1, 31):
        sync(NOW + timedelta(days=day))
        read_now = [call.params["ts"] for call in slack.calls if call.method == REPLIES]
        assert len(read_now) <= 1
        read += read_now
    assert len(read) >= 5
    assert len(set(read[:5])) == 5
    live = general(workspace).messages.filter(state="live")
    assert live.filter(text__endswith=", edited").count() == 4
    assert live.filter(text="on Monday").exists()


def test_a_full_sync_reads_everything_once(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    slack.edit(GENERAL, ts(60), "an old line, and edited", ts(0))
    slack.edit(GENERAL, ts(1.8), "on Monday", ts(0))
    sync(LATER, full=True)
    assert (slack.count(HISTORY), slack.count(REPLIES)) == (2, 1)
    assert "an old line, and edited" in texts(workspace)
    assert "on Monday" in texts(workspace)


def test_a_long_thread_is_read_in_many_runs(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """Each run reads a page of two replies, while people write and delete replies."""
    for n in range(7):
        slack.say(GENERAL, "U2", f"and {n}", ts(1.5, n), thread=ROOT)
    slack.page_size = 2
    for run in range(9):
        sync(client=client_of(slack, limiter=CallLimiter(2 if run else 9)))
        if run == 2:
            slack.delete(GENERAL, ts(1.9))
            slack.say(GENERAL, "U3", "late", ts(0.1), thread=ROOT)
    sync()
    thread = general(workspace).messages.filter(thread_ts=ROOT, state="live").in_order()
    assert list(thread.values_list("text", flat=True)) == [
        *("shall we ship?", "on Friday"),
        *(f"and {n}" for n in range(7)),
        "late",
    ]


def test_unread_threads_of_a_new_channel_delay_no_other_channel(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """Its first sync includes its threads, so nothing of it is remembered yet."""
    general(workspace).follow(by=None, on=False)
    sync()
    general(workspace).follow(by=None, on=True)
    limiter = CallLimiter(99)
    limiter.left[REPLIES] = 0
    report = sync(LATER, client=client_of(slack, limiter=limiter))
    coverage = channel_report(report).coverage
    assert coverage is not None and coverage.code == "ratelimited"
    assert general_sync(workspace).synced_ts
    workspace.refresh_from_db()
    assert workspace.synced_at == LATER, "the other channels are read"
    rows = workspace.channels.past_first_sync()
    assert not rows.filter(slack_id=GENERAL).exists()
    sync(LATER)
    assert rows.filter(slack_id=GENERAL).exists()
