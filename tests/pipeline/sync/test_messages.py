"""A sync stores messages that people wrote, edited and deleted since the previous one."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from memories.models import ChannelSync, Message, SlackConnection, Workspace
from memories.pipeline.ingest.store import store_messages
from memories.pipeline.redaction.forget import forget_person
from memories.pipeline.sync.sync_report import SyncState
from memories.rules.ingest.outcomes import Result
from tests.pipeline.sync.team import (
    GENERAL,
    LATER,
    NOW,
    REPLIES,
    ROOT,
    Sync,
    channel_report,
    delete_a_line,
    delete_a_reply,
    delete_a_root,
    delete_a_thread,
    delete_all_replies,
    edit_a_reply_of_a_changed_thread,
    edit_a_root,
    everything,
    general,
    reply_aloud,
    reply_first,
    reply_late,
    say_more,
    texts,
    ts,
)
from tests.slack.fake_slack import FakeSlack
from tests.slack.fake_workspace import BOT_ID, BOT_USER

pytestmark = pytest.mark.django_db


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "threads", "removed", "added"),
    [
        pytest.param(say_more, 0, [], ["one more"], id="new message"),
        pytest.param(reply_late, 1, [], ["a late answer"], id="late reply"),
        pytest.param(reply_first, 1, [], ["the first answer"], id="first reply"),
        # The history contains it, so no thread is read.
        pytest.param(reply_aloud, 0, [], ["for all"], id="broadcast reply"),
        pytest.param(
            edit_a_root, 0, ["shall we ship?"], ["shall we really ship?"], id="edited root"
        ),
        pytest.param(
            edit_a_reply_of_a_changed_thread,
            1,
            ["yes"],
            ["no", "a late answer"],
            id="edited reply of a changed thread",
        ),
        pytest.param(delete_a_line, 0, ["a new line"], [], id="deleted message"),
        pytest.param(delete_a_reply, 1, ["on Friday"], [], id="deleted reply"),
        pytest.param(delete_all_replies, 1, ["yes", "on Friday"], [], id="all replies deleted"),
        pytest.param(delete_a_root, 0, ["shall we ship?"], [], id="deleted root, replies live"),
        pytest.param(
            delete_a_thread, 1, ["shall we ship?", "yes", "on Friday"], [], id="deleted thread"
        ),
    ],
)
@pytest.mark.parametrize(
    "page_size", [1, pytest.param(1000, marks=pytest.mark.nightly("one page has no bounds"))]
)
def test_the_next_sync_stores_changes(
    slack: FakeSlack,
    workspace: Workspace,
    sync: Sync,
    page_size: int,
    act: Callable[[FakeSlack], None],
    threads: int,
    removed: list[str],
    added: list[str],
) -> None:
    slack.page_size = page_size
    sync()
    before = texts(workspace)
    act(slack)
    report = sync(LATER)
    assert not report.in_state(SyncState.FAILED)
    assert sorted(texts(workspace)) == sorted([*(t for t in before if t not in removed), *added])
    assert channel_report(report).stats.threads == threads
    assert report.tally.is_complete
    # The next sync changes nothing.
    after = everything(workspace)
    report = sync(LATER)
    assert everything(workspace) == after
    assert slack.count(REPLIES) == 0
    assert report.tally.count(result=Result.DUPLICATE) == report.tally.count()


def test_the_row_of_a_deleted_message_has_no_text(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    delete_a_line(slack)
    report = channel_report(sync(LATER))
    assert (report.stats.deleted, report.stats.updated, report.stats.new) == (1, 0, 0)
    row = general(workspace).messages.get(ts=ts(1))
    assert (row.state, row.text, row.raw, row.author) == ("deleted", "", "", None)


def test_expired_messages_are_still_compared(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    messages = general(workspace).messages
    messages.update(state=Message.State.EXPIRED)
    sync(LATER)
    assert slack.count(REPLIES) == 0, "no thread has changed"
    delete_a_line(slack)
    slack.delete(GENERAL, ts(1.8))
    sync(LATER + timedelta(hours=1))
    deleted = messages.filter(state=Message.State.DELETED).values_list("ts", flat=True)
    assert set(deleted) == {ts(1), ts(1.8)}


def test_replies_to_a_post_of_the_hub_are_stored(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """The post itself has no row, because it repeats what is remembered already."""
    SlackConnection.objects.of(workspace)
    sync()
    slack.say(GENERAL, BOT_USER, "the digest", ts(0.9), bot_id=BOT_ID)
    slack.say(GENERAL, "U1", "the digest is wrong", ts(0.8), thread=ts(0.9))
    sync(LATER)
    assert texts(workspace)[-1] == "the digest is wrong"
    assert "the digest" not in texts(workspace)
    sync(LATER + timedelta(minutes=5))
    assert slack.count(REPLIES) == 0


def test_a_thread_with_replies_of_a_forgotten_person_is_not_read_each_time(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    forget_person(workspace.people.get(slack_id="U2"), NOW, by=None)
    sync(LATER)
    assert "yes" not in texts(workspace)
    sync(LATER + timedelta(minutes=5))
    assert slack.count(REPLIES) == 0
    reply_late(slack)
    sync(LATER + timedelta(minutes=10))
    assert texts(workspace)[-1] == "a late answer"


def test_a_reply_that_only_an_export_reported_is_read(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """The export has the root with its new count, and lacks the reply."""
    sync()
    slack.say(GENERAL, "U1", "a lost answer", ts(1.5), thread=ROOT)
    fake = slack.channels[GENERAL]
    store_messages(general(workspace), [fake.render(fake.messages[ROOT])], LATER)
    sync(LATER)
    assert "a lost answer" in texts(workspace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("days", "is_found"),
    [pytest.param(29, True, id="in the hot window"), pytest.param(31, False, id="older")],
)
def test_new_replies_are_found_within_the_hot_window(
    slack: FakeSlack, workspace: Workspace, sync: Sync, days: int, is_found: bool
) -> None:
    slack.say(GENERAL, "U1", "asked long ago", ts(days))
    sync()
    slack.say(GENERAL, "U2", "answered today", ts(0), thread=ts(days))
    sync()
    assert ("answered today" in texts(workspace)) is is_found


def test_a_late_sync_reads_back_to_the_previous_sync(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """After half a year without a sync no message is missing."""
    sync()
    for day in (170, 100, 40):
        slack.say(GENERAL, "U1", f"{day} days before", ts(day - 180))
    report = channel_report(sync(NOW + timedelta(days=180)))
    assert (report.stats.start_ts, report.stats.new) == (ts(1), 3)


def test_messages_that_a_plan_hides_are_not_deleted(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    ChannelSync.objects.update(synced_ts="")
    slack.is_limited = True
    slack.delete(GENERAL, ts(60))  # it is only hidden: ROOT is the oldest shown message
    delete_a_line(slack)
    report = channel_report(sync())
    assert report.stats.deleted == 1
    assert "an old line" in texts(workspace)
    assert "a new line" not in texts(workspace)
