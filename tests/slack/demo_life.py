"""The demo's team in the fake Slack: its earlier messages, and new messages while it runs.

The newest messages of the demo are posted one by one while it runs, with their threads. Now and
then a person edits or deletes a message.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from memories.demo.ids import TEAM
from memories.rules.ingest.timestamps import micros
from tests.slack.fake_slack import FakeSlack

Json = dict[str, Any]

LATER_MESSAGES = 80  # posted while the demo runs
EDIT_EVERY, SLIP_EVERY = 6, 9  # messages
# Messages that are deleted at once.
SLIPS = (
    "oops, wrong channel, sorry",
    "すみません、誤爆です",
    "never mind, found it two lines above",
    "あ、これは下書きでした",
)
_OF_THREADS = frozenset(
    [
        *("reply_count", "reply_users", "reply_users_count", "latest_reply", "replies"),
        *("is_locked", "subscribed", "parent_user_id"),
    ]
)
_SPOKEN = (None, "bot_message", "thread_broadcast", "me_message")


def fill_workspace(slack: FakeSlack, export: Path) -> list[tuple[str, Json]]:
    """Fill the fake with the team of an export; return the newest messages, which are left out.

    The result is (channel id, message), the oldest first.
    """
    slack.team_id, slack.name, slack.domain = TEAM, "Kazoe", "kazoe"
    for user in _read(export / "users.json"):
        slack.users[user["id"]] = user
    messages: list[tuple[str, Json]] = []
    for name in ("channels.json", "groups.json"):
        for raw in _read(export / name):
            channel = slack.add_channel(
                raw["id"],
                raw["name"],
                is_private=raw["is_private"],
                members=raw["members"],
                topic=raw["topic"]["value"],
                purpose=raw["purpose"]["value"],
            )
            messages += [(channel.slack_id, row) for row in _messages(export / raw["name"])]
    messages.sort(key=lambda item: micros(item[1]["ts"]))
    later = [item for item in messages if item[1].get("subtype") in _SPOKEN][-LATER_MESSAGES:]
    later_keys = {(channel_id, row["ts"]) for channel_id, row in later}
    for channel_id, row in messages:
        if (channel_id, row["ts"]) not in later_keys:
            slack.channels[channel_id].put(row)
    slack.take_events()
    return later


def _read(path: Path) -> list[Json]:
    rows: list[Json] = json.loads(path.read_text("utf-8"))
    return rows


def _messages(folder: Path) -> list[Json]:
    """Return the messages of a channel without deleted ones."""
    rows = [row for day in sorted(folder.glob("*.json")) for row in _read(day)]
    deleted = {row.get("deleted_ts") for row in rows if row.get("subtype") == "message_deleted"}
    return [
        {key: value for key, value in row.items() if key not in _OF_THREADS}
        for row in rows
        if row.get("subtype") != "message_deleted" and row["ts"] not in deleted
    ]


def post_messages(slack: FakeSlack, later: list[tuple[str, Json]]) -> Iterator[str]:
    """Post the messages one by one; yield a short description of each step."""
    new_ts: dict[tuple[str, str], str] = {}  # old ts of a message → its new ts
    for number, (channel_id, row) in enumerate(later, 1):
        name = slack.channels[channel_id].name
        who = _who(slack, row)
        text = row["text"]
        fixes = number % EDIT_EVERY == 0 and " " in text
        more = {
            key: value
            for key, value in row.items()
            if key not in ("type", "user", "text", "ts", "thread_ts", "edited")
            and not (fixes and key == "blocks")
        }
        old_root = str(row.get("thread_ts", ""))
        root = new_ts.get((channel_id, old_root), old_root) if old_root != row["ts"] else ""
        if root and root not in slack.channels[channel_id].messages:
            root = ""
        ts = slack.now_ts()
        first = text.rpartition(" ")[0] if fixes else text
        slack.say(channel_id, row.get("user", ""), first, ts, thread=root, **more)
        new_ts[channel_id, row["ts"]] = ts
        yield f"#{name} {who}{' answers' if root else ''}: {_short(first)}"
        if fixes:
            slack.edit(channel_id, ts, text)
            yield f"#{name} {who} corrects it: {_short(text)}"
        if number % SLIP_EVERY == 0:
            slip = SLIPS[number // SLIP_EVERY % len(SLIPS)]
            user = slack.channels[channel_id].members[0]
            slack.say(channel_id, user, slip, ts := slack.now_ts())
            yield f"#{name} {_who(slack, {'user': user})}: {slip}"
            slack.delete(channel_id, ts)
            yield f"#{name} {_who(slack, {'user': user})} deletes that"


def _who(slack: FakeSlack, row: Json) -> str:
    user = slack.users.get(row.get("user", ""), {})
    return str(user.get("name") or row.get("username") or "somebody")


def _short(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= 70 else f"{line[:70]}…"


def build_demo_export(now: datetime, folder: Path) -> Path:
    """Build the demo's export as of ``now``."""
    from memories.demo.workspace import build_export

    build_export(folder, now)
    return folder
