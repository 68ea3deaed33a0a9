"""A sync reads the followed channels that the bot is in."""

from datetime import timedelta

import pytest

from memories.models import AuditEvent, Message, Workspace
from memories.pipeline.sync.coverage import TEMPORARY_CODES, coverage_of
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncState
from tests.factories import WorkspaceFactory
from tests.pipeline.sync.team import (
    CLOSED,
    ELSEWHERE,
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
def test_only_the_requested_channel_is_read(
    slack: FakeSlack, workspace: Workspace, sync: Sync, name: str
) -> None:
    report = sync(channels=[name])
    assert [each.channel_id for each in report.channels] == [CLOSED]
    assert slack.count(HISTORY) == 1
    workspace.refresh_from_db()
    assert workspace.synced_at is None


def test_an_unknown_channel_is_an_error(slack: FakeSlack, sync: Sync) -> None:
    report = sync(channels=["general", "nowhere"])
    assert report.code == "unknown_channel"
    assert "nowhere" in report.error
    assert slack.count(HISTORY) == 0


@pytest.mark.parametrize("name", ["closed", "#closed", CLOSED])
def test_a_requested_channel_is_followed(slack: FakeSlack, name: str) -> None:
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW, channels=[name])
    assert [each.channel_id for each in report.channels] == [CLOSED]
    assert [row.slack_id for row in workspace.channels.followed()] == [CLOSED]
    assert AuditEvent.objects.filter(action="channel_follow").count() == 1
    slack.clear_calls()
    assert len(sync_workspace(workspace, client_of(slack), LATER).channels) == 1


def test_unfollowed_channels_are_listed_and_not_read(slack: FakeSlack) -> None:
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW)
    assert (report.channels, report.not_followed) == ([], 2)
    rows = workspace.channels.order_by("slack_id").values_list("name", "bot_is_in", "is_followed")
    assert list(rows) == [("general", True, False), ("elsewhere", False, False)]
    assert slack.counts() == {"auth.test": 1, "users.list": 1, "conversations.list": 1}
    assert not Message.objects.exists()


@pytest.mark.parametrize("is_on", [False, True])
def test_private_channels_are_listed_only_if_the_settings_include_them(
    slack: FakeSlack, is_on: bool
) -> None:
    workspace = WorkspaceFactory(settings={"read_private_channels": is_on})
    sync_workspace(workspace, client_of(slack), NOW)
    assert workspace.channels.filter(slack_id=CLOSED).exists() is is_on


def test_a_private_channel_is_not_read_after_the_setting_is_off(
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
    assert [each.person.slack_id for each in closed.memberships.all()] == ["U1"]
    assert workspace.synced_at == LATER, "it does not delay the workspace"
    workspace.change_settings({"read_private_channels": True})
    sync(LATER + timedelta(hours=1))
    assert closed.messages.filter(text="not for you").exists()


def test_public_channels_are_read_without_the_scope_for_private_ones(slack: FakeSlack) -> None:
    slack.scopes -= {"groups:read", "groups:history"}
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW, channels=["general"])
    assert (report.error, channel_report(report).state) == ("", SyncState.SYNCED)
    workspace.change_settings({"read_private_channels": True})
    assert sync_workspace(workspace, client_of(slack), NOW).code == "missing_scope"


def test_a_channel_is_read_only_while_the_bot_is_in_it(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    slack.remove_bot(GENERAL)
    report = sync(LATER)
    assert channel_report(report).state is SyncState.NOT_MEMBER
    coverage = channel_report(report).coverage
    assert coverage is not None and coverage.code == "not_in_channel"
    slack.invite_bot(GENERAL)
    assert channel_report(sync(LATER)).state is SyncState.SYNCED
    assert general_sync(workspace).error_code == ""


def test_an_archived_channel_without_the_bot_needs_nobody(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """Slack removes the bot with the archiving, and nobody can invite it there."""
    sync()
    slack.channels[GENERAL].is_archived = True
    slack.channels[GENERAL].bot_is_in = False
    assert [each.channel_id for each in sync(LATER).in_state(SyncState.NOT_MEMBER)] == [ELSEWHERE]
    coverage = coverage_of(workspace.channels.get(slack_id=GENERAL), LATER)
    assert (coverage.code, str(coverage.why)) == ("is_archived", "The channel is archived.")
    failing = workspace.channels.failing(TEMPORARY_CODES)
    assert [row.slack_id for row in failing] == [ELSEWHERE]
