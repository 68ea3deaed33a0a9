"""A first sync reads everything that the bot can see. The next sync reads only new messages."""

from typing import Any

import pytest
from django.db import connection

from memories.models import Workspace
from memories.pipeline.ingest.roster import store_channels, store_people
from memories.pipeline.ingest.store import store_messages
from memories.pipeline.locks import Busy
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncState
from memories.rules.ingest.outcomes import ObjectType, Result
from memories.slack.web import SlackClient
from tests.factories import WorkspaceFactory
from tests.holding import being_stored
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
    everything,
    general,
    members,
    texts,
    ts,
)
from tests.slack.fake_slack import FakeSlack

pytestmark = pytest.mark.django_db


def test_a_first_sync_reads_all_that_the_bot_may_see(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    report = sync()
    assert (report.error, report.code) == ("", "")
    assert texts(workspace) == ["an old line", "shall we ship?", "yes", "on Friday", "a new line"]
    assert texts(workspace, CLOSED) == ["between us"]
    assert list(workspace.channels.order_by("slack_id").values_list("slack_id", "kind")) == [
        (GENERAL, "public"),
        (CLOSED, "private"),
        (ELSEWHERE, "public"),
    ]
    assert members(workspace.channels.get(slack_id=CLOSED)) == ["U1", "U2"]
    assert report.tally.is_complete
    assert report.tally.count(ObjectType.MESSAGE, Result.STORED) == 6
    stats = channel_report(report).stats
    assert (stats.new, stats.threads) == (5, 1)
    assert (stats.start_ts, stats.end_ts) == ("", ts(1))
    assert [each.channel_name for each in report.in_state(SyncState.NOT_MEMBER)] == ["elsewhere"]


def test_the_workspace_gets_the_name_of_the_team(workspace: Workspace, sync: Sync) -> None:
    sync()
    sync(LATER)
    workspace.refresh_from_db()
    assert (workspace.team_id, workspace.name, workspace.domain) == (
        "T0FAKE",
        "Fake Team",
        "faketeam",
    )
    assert (workspace.connected_at, workspace.synced_at) == (NOW, LATER)


def test_each_page_and_each_thread_is_requested_once(slack: FakeSlack, sync: Sync) -> None:
    slack.page_size = 2
    report = sync()
    assert slack.counts() == {
        "auth.test": 1,
        "users.list": 2,
        "conversations.list": 2,
        "conversations.members": 3,  # general: two pages, closed: one
        HISTORY: 3,  # general: two pages, closed: one
        REPLIES: 1,
    }
    assert report.calls == slack.counts()


def test_an_idle_sync_calls_history_once_per_channel(slack: FakeSlack, sync: Sync) -> None:
    sync()
    report = sync(LATER)
    assert slack.count(HISTORY) == 2
    assert slack.count(REPLIES) == 0
    assert report.tally.count(result=Result.STORED) == 0
    assert report.tally.count(result=Result.UPDATED) == 0
    assert report.tally.count(result=Result.DUPLICATE) == report.tally.count()


def test_a_second_sync_changes_nothing(workspace: Workspace, sync: Sync) -> None:
    sync()
    once = everything(workspace)
    sync()
    assert everything(workspace) == once


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_an_import_of_the_same_messages_stores_the_same_rows(
    slack: FakeSlack, workspace: Workspace, sync: Sync, page_size: int
) -> None:
    imported = WorkspaceFactory(team_id=slack.team_id)
    store_people(imported, slack.users.values())
    for channel in slack.channels.values():
        raw = channel.as_json() | {"members": channel.members if channel.bot_is_in else []}
        kind = "private" if channel.is_private else "public"
        store_channels(imported, [(raw, kind)], known_at=NOW)
        if channel.bot_is_in:
            row = imported.channels.get(slack_id=channel.slack_id)
            store_messages(row, [channel.render(m) for m in channel.messages.values()], NOW)
    slack.page_size = page_size
    sync()
    assert everything(workspace) == everything(imported)


def test_a_sync_continues_after_an_import(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """The export reports two replies of the root, and contains one of them."""
    store_channels(workspace, [(slack.channels[GENERAL].as_json(), "public")], known_at=NOW)
    root = slack.channels[GENERAL].render(slack.channels[GENERAL].messages[ROOT])
    assert root["reply_count"] == 2
    reply = slack.channels[GENERAL].messages[ts(1.9)]
    store_messages(general(workspace), [root, reply], NOW)
    stats = channel_report(sync()).stats
    assert (stats.new, stats.threads) == (3, 1)
    assert texts(workspace) == ["an old line", "shall we ship?", "yes", "on Friday", "a new line"]


def test_only_one_process_syncs_a_workspace(workspace: Workspace, sync: Sync) -> None:
    with being_stored(workspace), pytest.raises(Busy):
        sync()


def test_no_call_is_made_inside_a_transaction(
    slack: FakeSlack, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = SlackClient._call
    depths = []

    def spy(self: SlackClient, method: str, parameters: dict[str, str]) -> dict[str, Any]:
        depths.append(len(connection.savepoint_ids))
        return call(self, method, parameters)

    monkeypatch.setattr(SlackClient, "_call", spy)
    outside = len(connection.savepoint_ids)
    sync_workspace(workspace, client_of(slack), NOW)
    assert set(depths) == {outside}
