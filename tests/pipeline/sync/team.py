"""The Slack team in the tests of the sync: its channels, changes by its people, and stored rows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from memories.models import Channel, ChannelSync, Message, Reader, Workspace
from memories.models.sync.channel_sync import sync_of
from memories.pipeline.sync.sync_report import ChannelReport, SyncReport
from memories.slack.web import SlackClient
from tests.factories import ts_at
from tests.processes import PATIENCE
from tests.slack.fake_slack import TOKEN, FakeSlack

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
GENERAL, CLOSED, ELSEWHERE = "C1", "C2", "C3"
HISTORY, REPLIES = "conversations.history", "conversations.replies"

Sync = Callable[..., SyncReport]


def ts(days: float, number: int = 0) -> str:
    """Return the ts of a time before NOW. ``number`` distinguishes messages of the same time."""
    moment = NOW - timedelta(days=days)
    return ts_at(moment + timedelta(microseconds=number))


ROOT = ts(2)


def follow(workspace: Workspace, *slack_ids: str) -> Workspace:
    """Create and follow these channels, including private ones."""
    workspace.change_settings({"read_private_channels": True})
    for slack_id in slack_ids or (GENERAL, CLOSED, ELSEWHERE):
        row, _ = workspace.channels.get_or_create(slack_id=slack_id, defaults={"name": slack_id})
        row.follow(by=None, on=True)
    return workspace


def client_of(slack: FakeSlack, **options: Any) -> SlackClient:
    return SlackClient(TOKEN, slack.url, timeout=PATIENCE, pause=0.001, **options)


def channel_report(report: SyncReport, slack_id: str = GENERAL) -> ChannelReport:
    [channel] = [each for each in report.channels if each.channel_id == slack_id]
    return channel


def general(workspace: Workspace) -> Channel:
    return workspace.channels.get(slack_id=GENERAL)


def general_sync(workspace: Workspace) -> ChannelSync:
    return sync_of(general(workspace))


def texts(workspace: Workspace, slack_id: str = GENERAL) -> list[str]:
    """Return the texts of live messages and replies, in order of time."""
    messages = Message.objects.filter(channel__workspace=workspace, channel__slack_id=slack_id)
    return list(messages.filter(state="live").in_order().values_list("text", flat=True))


def everything(workspace: Workspace) -> Any:
    """Return all rows of a workspace, without ids and the time of storing."""
    messages = Message.objects.filter(channel__workspace=workspace).order_by("channel_id", "ts")
    fields = ("channel__slack_id", "ts", "thread_ts", "author__slack_id", "text", "state")
    fields += ("broadcast", "is_notice", "edited_ts", "reply_count", "latest_reply")
    people = workspace.people.order_by("slack_id").values_list("slack_id", "name", "is_bot")
    channels = workspace.channels.order_by("slack_id")
    return (
        list(messages.values_list(*fields)),
        list(people),
        list(channels.values_list("slack_id", "name", "kind", "is_archived")),
        {channel.slack_id: members(channel) for channel in channels},
    )


def members(channel: Channel) -> list[str]:
    return sorted(channel.people.values_list("slack_id", flat=True))


def sees(reader: Reader, slack_id: str) -> bool:
    return Channel.objects.visible_to(reader).filter(slack_id=slack_id).exists()


# Changes in Slack


def say_more(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U2", "one more", ts(0))


def reply_late(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U1", "a late answer", ts(0), thread=ROOT)


def reply_first(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U1", "the first answer", ts(0), thread=ts(1))


def reply_aloud(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U1", "for all", ts(0), thread=ROOT, subtype="thread_broadcast")


def edit_a_root(slack: FakeSlack) -> None:
    slack.edit(GENERAL, ROOT, "shall we really ship?", ts(0))


def edit_a_reply_of_a_changed_thread(slack: FakeSlack) -> None:
    slack.edit(GENERAL, ts(1.9), "no", ts(0, 1))
    reply_late(slack)


def delete_a_line(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ts(1))


def delete_a_reply(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ts(1.8))


def delete_all_replies(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ts(1.8))
    slack.delete(GENERAL, ts(1.9))


def delete_a_root(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ROOT)


def delete_a_thread(slack: FakeSlack) -> None:
    delete_all_replies(slack)
    slack.delete(GENERAL, ROOT)


class CallLimiter:
    """Allows so many calls for history, and as many for replies, without a refill."""

    def __init__(self, calls: int) -> None:
        self.left = {HISTORY: calls, REPLIES: calls}

    def take(self, method: str, *, slow: bool = False) -> float:
        if self.left.get(method, 1) == 0:
            return 60.0
        if method in self.left:
            self.left[method] -= 1
        return 0.0

    def limited(self, method: str, seconds: float) -> None:
        self.left[method] = 0
