"""The demo's team in the fake Slack: what it has said so far, and what it goes on to say.

The newest part of the demo's talk is held back, and said again line by line as one watches, in
threads that may be weeks old; now and then somebody corrects a line, or takes one back.
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

HELD_BACK = 80  # messages
EDIT_EVERY, SLIP_EVERY = 6, 9  # messages
# What is said in the wrong place, and deleted.
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


def move_in(slack: FakeSlack, export: Path) -> list[tuple[str, Json]]:
    """Fill the fake with the team of an export but for the newest messages, which come back:
    (channel id, message), oldest first."""
    slack.team_id, slack.name, slack.domain = TEAM, "Kazoe", "kazoe"
    for user in _read(export / "users.json"):
        slack.users[user["id"]] = user
    said: list[tuple[str, Json]] = []
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
            said += [(channel.slack_id, row) for row in _standing(export / raw["name"])]
    said.sort(key=lambda one: micros(one[1]["ts"]))
    held = [one for one in said if one[1].get("subtype") in _SPOKEN][-HELD_BACK:]
    kept_back = {(channel_id, row["ts"]) for channel_id, row in held}
    for channel_id, row in said:
        # Who answers what is held back has to wait for it.
        if (channel_id, row["ts"]) not in kept_back:
            slack.channels[channel_id].put(row)
    slack.take_events()
    return held


def _read(path: Path) -> list[Json]:
    found: list[Json] = json.loads(path.read_text("utf-8"))
    return found


def _standing(folder: Path) -> list[Json]:
    """What stands in a channel by now: without what was deleted since."""
    rows = [row for day in sorted(folder.glob("*.json")) for row in _read(day)]
    gone = {row.get("deleted_ts") for row in rows if row.get("subtype") == "message_deleted"}
    return [
        {key: value for key, value in row.items() if key not in _OF_THREADS}
        for row in rows
        if row.get("subtype") != "message_deleted" and row["ts"] not in gone
    ]


def go_on(slack: FakeSlack, held: list[tuple[str, Json]]) -> Iterator[str]:
    """Each step lets somebody do one thing; what, in a few words."""
    now_at: dict[tuple[str, str], str] = {}  # the old ts of what is said again → its new one
    for number, (channel_id, row) in enumerate(held, 1):
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
        root = now_at.get((channel_id, old_root), old_root) if old_root != row["ts"] else ""
        if root and root not in slack.channels[channel_id].messages:
            root = ""
        ts = slack.now_ts()
        first = text.rpartition(" ")[0] if fixes else text
        slack.say(channel_id, row.get("user", ""), first, ts, thread=root, **more)
        now_at[channel_id, row["ts"]] = ts
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


def as_of_now(now: datetime, folder: Path) -> Path:
    """The demo's export, as of now."""
    from memories.demo.workspace import build_export

    build_export(folder, now)
    return folder
