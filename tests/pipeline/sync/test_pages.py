"""A valid page that lacks existing messages does not delete them."""

from datetime import timedelta

import pytest

from memories.models import Workspace
from memories.pipeline.sync.sync_report import SyncState
from memories.rules.ingest.outcomes import ObjectType, Result
from tests.pipeline.sync.team import (
    CLOSED,
    GENERAL,
    HISTORY,
    LATER,
    REPLIES,
    ROOT,
    Sync,
    channel_report,
    delete_a_line,
    delete_a_thread,
    everything,
    general,
    reply_late,
    say_more,
    texts,
    ts,
)
from tests.slack.fake_slack import TOKEN, FakeSlack, Fault

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_a_page_with_an_invalid_object_deletes_nothing(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    delete_a_line(slack)
    slack.say(GENERAL, "U1", "when?", ts(1, 5))
    answer = slack.answer(HISTORY, {"channel": GENERAL, "limit": "99"}, f"Bearer {TOKEN}")
    answer["messages"][0]["ts"] = None
    slack.inject_fault(HISTORY, Fault.answer(answer))
    report = sync(LATER)
    assert report.tally.count(ObjectType.MESSAGE, Result.QUARANTINED) == 1
    assert channel_report(report).stats.deleted == 0
    assert "a new line" in texts(workspace)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2], ids=["one page", "of both channels"])
def test_an_empty_page_deletes_no_existing_message(
    slack: FakeSlack, workspace: Workspace, sync: Sync, times: int
) -> None:
    sync()
    before = everything(workspace)
    slack.inject_fault(HISTORY, Fault.empty_page(), times=times)
    report = sync(LATER)
    assert [each.code for each in report.in_state(SyncState.FAILED)] == ["malformed"] * times
    assert (slack.count(HISTORY), slack.count(REPLIES)) == (2, times)
    assert everything(workspace) == before
    say_more(slack)
    assert not sync(LATER + timedelta(hours=1)).in_state(SyncState.FAILED)
    assert texts(workspace)[-1] == "one more"
    assert texts(workspace, CLOSED) == ["between us"]


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
def test_a_page_that_ends_early_deletes_no_existing_message(
    slack: FakeSlack, workspace: Workspace, sync: Sync, full: bool
) -> None:
    """The second page is empty. The next read finds its messages."""
    for n in range(4):
        slack.say(GENERAL, "U1", f"line {n}", ts(5, n))
    slack.page_size = 2
    sync()
    before = texts(workspace)
    all_ts = [raw["ts"] for raw in slack.channels[GENERAL].in_channel()]
    slack.edit(GENERAL, all_ts[1], "line 0, edited", ts(0))
    slack.inject_fault(HISTORY, Fault.empty_page(), on=2)
    assert channel_report(sync(LATER, full=full)).code == "malformed"
    assert texts(workspace) == before
    assert not sync(LATER + timedelta(hours=1)).in_state(SyncState.FAILED)
    assert texts(workspace) == [before[0], "line 0, edited", *before[2:]]


@pytest.mark.slow
def test_a_channel_that_people_emptied_is_empty_after_one_sync(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """One deletion of each page is confirmed by a second call."""
    sync()
    delete_a_thread(slack)
    delete_a_line(slack)
    slack.delete(CLOSED, ts(3))
    report = sync(LATER)
    assert not report.in_state(SyncState.FAILED)
    assert texts(workspace) == ["an old line"]
    assert texts(workspace, CLOSED) == []
    read_threads = [call.params["ts"] for call in slack.calls if call.method == REPLIES]
    assert len(read_threads) == 3, "a confirmation for each channel, and the thread"
    sync(LATER + timedelta(hours=1))
    assert slack.count(REPLIES) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault.empty_page(), id="an empty page again"),
        pytest.param(Fault.error("internal_error"), id="an error of Slack"),
        pytest.param(Fault.rate_limited(60), id="no call left"),
    ],
)
def test_nothing_is_deleted_without_a_confirmation(
    slack: FakeSlack, workspace: Workspace, sync: Sync, fault: Fault
) -> None:
    sync()
    before = texts(workspace)
    delete_a_thread(slack)
    delete_a_line(slack)
    slack.inject_fault(REPLIES, fault)
    sync(LATER)
    assert texts(workspace) == before
    sync(LATER + timedelta(hours=1))
    assert texts(workspace) == ["an old line"]


def test_a_thread_without_its_root_is_read_again(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    before = texts(workspace)
    reply_late(slack)
    slack.inject_fault(REPLIES, Fault.empty_page())
    report = channel_report(sync(LATER))
    assert report.state is SyncState.FAILED
    assert ROOT in report.failures[0]
    assert texts(workspace) == before
    assert not sync(LATER + timedelta(hours=1)).in_state(SyncState.FAILED)
    assert texts(workspace) == [*before, "a late answer"]


def test_a_resynced_thread_without_its_root_is_read_again(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """It does not wait until it is due again, a month later."""
    sync()
    slack.edit(GENERAL, ts(1.8), "on Monday", ts(0))
    slack.inject_fault(REPLIES, Fault.empty_page(), times=2)
    sync(LATER, full=True)
    slack.clear_faults()
    assert general(workspace).messages.with_unread_replies().count() == 1
    assert "on Friday" in texts(workspace)
    sync(LATER + timedelta(hours=1))
    assert "on Monday" in texts(workspace)
    assert not general(workspace).messages.with_unread_replies().exists()
