"""Which channels a sync lists and reads: those that somebody chose and the bot is in."""

from datetime import timedelta

import pytest

from memories.models import AuditEvent, Message, Workspace
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncState
from tests.factories import WorkspaceFactory
from tests.pipeline.sync.team import (
    CLOSED,
    GENERAL,
    HISTORY,
    LATER,
    NOW,
    Sync,
    channel_report,
    client_of,
    general_sync,
    ts,
)
from tests.slack.fake_slack import FakeSlack

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["closed", "#closed", CLOSED])
def test_only_the_channel_asked_for(
    slack: FakeSlack, workspace: Workspace, sync: Sync, name: str
) -> None:
    report = sync(channels=[name])
    assert [one.channel_id for one in report.channels] == [CLOSED]
    assert slack.count(HISTORY) == 1
    workspace.refresh_from_db()
    assert workspace.synced_at is None


def test_an_unknown_channel_is_an_error(slack: FakeSlack, sync: Sync) -> None:
    report = sync(channels=["general", "nowhere"])
    assert report.code == "unknown_channel"
    assert "nowhere" in report.error
    assert slack.count(HISTORY) == 0


@pytest.mark.parametrize("name", ["closed", "#closed", CLOSED])
def test_whoever_names_a_channel_follows_it(slack: FakeSlack, name: str) -> None:
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW, channels=[name])
    assert [one.channel_id for one in report.channels] == [CLOSED]
    assert [row.slack_id for row in workspace.channels.followed()] == [CLOSED]
    assert AuditEvent.objects.filter(action="channel_follow").count() == 1
    slack.clear_calls()
    assert len(sync_workspace(workspace, client_of(slack), LATER).channels) == 1


def test_what_nobody_chose_is_known_by_name_and_not_read(slack: FakeSlack) -> None:
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW)
    assert (report.channels, report.not_followed) == ([], 2)
    rows = workspace.channels.order_by("slack_id").values_list("name", "bot_is_in", "is_followed")
    assert list(rows) == [("general", True, False), ("elsewhere", False, False)]
    assert slack.counts() == {"auth.test": 1, "users.list": 1, "conversations.list": 1}
    assert not Message.objects.exists()


@pytest.mark.parametrize("switched_on", [False, True])
def test_private_channels_are_listed_only_where_they_are_wanted(
    slack: FakeSlack, switched_on: bool
) -> None:
    workspace = WorkspaceFactory(settings={"read_private_channels": switched_on})
    sync_workspace(workspace, client_of(slack), NOW)
    assert workspace.channels.filter(slack_id=CLOSED).exists() is switched_on


def test_switched_off_a_private_channel_is_read_no_further(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    workspace.change_settings({"read_private_channels": False})
    slack.say(CLOSED, "U2", "not for you", ts(0.5))
    slack.leave(CLOSED, "U2")
    report = channel_report(sync(LATER, full=True), CLOSED)
    assert (report.state, report.stats.pages) == (SyncState.SWITCHED_OFF, 0)
    assert report.coverage is not None and report.coverage.code == "switched_off"
    closed = workspace.channels.get(slack_id=CLOSED)
    assert not closed.messages.filter(text="not for you").exists()
    assert [one.person.slack_id for one in closed.memberships.all()] == ["U1"]
    assert workspace.synced_at == LATER, "it holds up nobody"
    workspace.change_settings({"read_private_channels": True})
    sync(LATER + timedelta(hours=1))
    assert closed.messages.filter(text="not for you").exists()


def test_without_the_scope_of_private_channels_the_public_ones_are_read(slack: FakeSlack) -> None:
    slack.scopes -= {"groups:read", "groups:history"}
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW, channels=["general"])
    assert (report.error, channel_report(report).state) == ("", SyncState.SYNCED)
    workspace.change_settings({"read_private_channels": True})
    assert sync_workspace(workspace, client_of(slack), NOW).code == "missing_scope"


def test_where_the_bot_is_follows_slack(slack: FakeSlack, workspace: Workspace, sync: Sync) -> None:
    sync()
    slack.remove_bot(GENERAL)
    report = sync(LATER)
    assert channel_report(report).state is SyncState.NOT_MEMBER
    found = channel_report(report).coverage
    assert found is not None and found.code == "not_in_channel"
    slack.invite_bot(GENERAL)
    assert channel_report(sync(LATER)).state is SyncState.SYNCED
    assert general_sync(workspace).error_code == ""
