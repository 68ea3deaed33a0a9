"""The readers of a channel follow Slack: its members, its kind, the list of people."""

from datetime import timedelta

import pytest

from memories.models import Message, Reader, Workspace
from memories.pipeline.sync.sync_report import SyncState
from tests.factories import UserFactory
from tests.pipeline.sync.team import (
    CLOSED,
    GENERAL,
    LATER,
    NOW,
    Sync,
    channel_report,
    everything,
    general,
    members,
    say_more,
    sees,
    texts,
    ts,
)
from tests.slack.fake_slack import FakeSlack, Fault

pytestmark = pytest.mark.django_db


def test_members_follow_slack(
    slack: FakeSlack, workspace: Workspace, sync: Sync, ann: Reader
) -> None:
    sync()
    assert sees(ann, CLOSED)
    slack.channels[CLOSED].members = ["U2", "U3"]
    sync(LATER - timedelta(minutes=1))
    assert slack.count("conversations.members") == 0, "they are an hour old at most"
    sync(LATER)
    assert not sees(ann, CLOSED)
    assert members(workspace.channels.get(slack_id=CLOSED)) == ["U2", "U3"]


def test_an_old_list_of_members_adds_no_one_who_left(
    slack: FakeSlack, workspace: Workspace, sync: Sync, ann: Reader
) -> None:
    sync()
    closed = workspace.channels.get(slack_id=CLOSED)
    closed.mark_members_changed(LATER + timedelta(seconds=1))  # an event during the sync
    closed.memberships.filter(person__slack_id="U1").delete()
    slack.channels[CLOSED].members = ["U1", "U2", "U3"]
    sync(LATER)
    assert not sees(ann, CLOSED)
    assert members(closed) == ["U2"]
    slack.channels[CLOSED].members = ["U2", "U3"]
    sync(LATER + timedelta(minutes=1))
    assert members(closed) == ["U2", "U3"], "read again at once"


def test_unlisted_members_become_placeholders(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.channels[CLOSED].members.append("W9")
    sync()
    assert members(workspace.channels.get(slack_id=CLOSED)) == ["U1", "U2", "W9"]
    assert workspace.people.get(slack_id="W9").is_placeholder


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(500), id="500"),
        pytest.param(Fault.dropped(), id="dropped"),
        pytest.param(Fault.rate_limited(60), id="rate limit"),
        pytest.param(Fault.error("fetch_members_failed"), id="an error of Slack"),
        pytest.param(Fault(200, '{"ok": true}'), id="no list"),
    ],
)
@pytest.mark.parametrize("page", [1, 2])
def test_an_interrupted_list_of_members_changes_nothing(
    slack: FakeSlack, workspace: Workspace, sync: Sync, ann: Reader, fault: Fault, page: int
) -> None:
    sync()
    slack.page_size = 1
    slack.channels[CLOSED].members = ["U3"]
    say_more(slack)
    slack.inject_fault(
        "conversations.members", fault, on=3 + page, times=4
    )  # after those of general
    slack.channels[CLOSED].members = ["U3", "U2"]
    report = sync(LATER)
    closed = workspace.channels.get(slack_id=CLOSED)
    assert channel_report(report, CLOSED).state in (SyncState.FAILED, SyncState.LIMITED)
    assert (members(closed), closed.members_known_at) == (["U1", "U2"], NOW)
    assert texts(workspace)[-1] == "one more"
    # A day later the old list gives no access.
    day_after = Reader(ann.user_id, now=NOW + timedelta(hours=25))
    assert not sees(day_after, CLOSED)


@pytest.mark.slow
@pytest.mark.parametrize("bot_is_in", [True, False], ids=["with the bot", "without the bot"])
def test_a_channel_that_became_private_is_hidden_at_once(
    slack: FakeSlack, workspace: Workspace, sync: Sync, bot_is_in: bool
) -> None:
    sync()
    everybody = Reader.public(now=NOW)
    assert sees(everybody, GENERAL)
    slack.channels[GENERAL].is_private = True
    slack.channels[GENERAL].bot_is_in = bot_is_in
    report = sync()
    assert not sees(everybody, GENERAL)
    assert general(workspace).kind == "private"
    hidden = [each.channel_id for each in report.in_state(SyncState.HIDDEN)]
    assert hidden == ([] if bot_is_in else [GENERAL])


def test_a_channel_that_became_public_is_public(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    slack.channels[CLOSED].is_private = False
    sync()
    assert workspace.channels.get(slack_id=CLOSED).kind == "public"


@pytest.mark.parametrize("page_size", [1, 1000])
def test_what_was_said_in_private_since_the_last_sync_stays_with_the_members(
    slack: FakeSlack, workspace: Workspace, sync: Sync, page_size: int
) -> None:
    slack.page_size = page_size
    sync()
    slack.say(CLOSED, "U2", "not for all", ts(0.5))
    slack.say(CLOSED, "U1", "nor this", ts(0.45), thread=ts(0.5))
    slack.channels[CLOSED].is_private = False
    slack.say(CLOSED, "U1", "made it public", ts(0.4), subtype="channel_convert_to_public")
    slack.say(CLOSED, "U1", "hello all", ts(0.3))
    slack.say(CLOSED, "U1", "a late answer", ts(0.2), thread=ts(0.5))
    # With this one a page contains a reply, and neither its root nor the notice.
    slack.say(CLOSED, "U1", "for all", ts(0.1), thread=ts(0.5), subtype="thread_broadcast")
    sync(LATER)
    closed = workspace.channels.get(slack_id=CLOSED)
    assert closed.kind == "public"
    everybody = Reader.public(now=LATER)
    readable = Message.objects.visible_to(everybody).filter(channel=closed).in_order()
    assert list(readable.values_list("text", flat=True)) == [
        "made it public",
        "hello all",
        "a late answer",
        "for all",
    ]
    assert texts(workspace, CLOSED)[:3] == ["between us", "not for all", "nor this"]


def test_an_interrupted_list_of_channels_changes_nothing(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    before = everything(workspace)
    slack.channels[CLOSED].is_private = False
    slack.page_size = 1
    slack.inject_fault("conversations.list", Fault(503), on=3, times=4)
    assert sync(LATER).code == "unreachable"
    assert everything(workspace) == before


@pytest.mark.slow
@pytest.mark.parametrize("listed", [[], ["U1"]], ids=["empty", "cut"])
def test_unlisted_people_are_guests_until_slack_lists_them(
    slack: FakeSlack, workspace: Workspace, sync: Sync, listed: list[str]
) -> None:
    """They cannot read a channel that becomes public meanwhile."""
    slack.channels[CLOSED].members = ["U1"]
    sync()
    everybody = dict(slack.users)
    ben = UserFactory()
    workspace.people.filter(slack_id="U2").update(user=ben, linked_by="slack")
    assert sees(Reader.of(ben, NOW), GENERAL)
    slack.users = {slack_id: everybody[slack_id] for slack_id in listed}
    slack.channels[CLOSED].is_private = False
    assert sync().code == ""
    assert not sees(Reader.of(ben, NOW), CLOSED)
    assert sees(Reader.of(ben, NOW), GENERAL)  # a guest who is in it
    slack.users = everybody
    sync()
    assert workspace.people.full_members().filter(slack_id__in=everybody).count() == 3
    assert sees(Reader.of(ben, NOW), CLOSED)
