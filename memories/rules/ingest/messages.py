"""Messages of Slack as values: messages, edits, deletions and notices.

Every raw object of an export, the Web API or an event becomes a `MessageIn`, or an `Outcome` with
the reason why it does not; nothing raises. Times and ``now_us`` are microseconds since 1970.
"""

import json
from dataclasses import dataclass
from typing import Any

from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.message_text import message_text
from memories.rules.ingest.outcomes import Outcome, quarantined, skipped
from memories.rules.ingest.slack_objects import (
    SLACKBOT,
    TooLarge,
    bounded_int,
    first_nonblank,
    parse_slack_id,
)
from memories.rules.ingest.timestamps import (
    HOUR,
    SLACK_BEGAN,
    micros,
    micros_or_0,
    ts_from_micros,
)
from memories.rules.json_values import as_dict, as_text

MAX_OBJECT_BYTES = 1_000_000  # bytes of JSON
MAX_OBJECT_DEPTH = 100  # nested lists and objects; Slack's have about ten levels
UNKNOWN_BOT = "unknown bot"

# Subtypes of messages that Slack itself writes into a channel.
_NOTICES = frozenset(
    [
        *("pinned_item", "unpinned_item", "bot_add", "bot_remove", "bot_enable", "bot_disable"),
        *("reminder_add", "reminder_delete", "sh_room_created", "ekm_access_denied"),
        *("joiner_notification", "joiner_notification_for_inviter", "huddle_invite"),
        *("app_conversation_join", "app_conversation_leave", "document_mention"),
        *("tabbed_canvas_updated", "canvas_updated", "list_record_comment"),
    ]
)
_NOTICE_PREFIXES = ("channel_", "group_")


@dataclass(slots=True)
class MessageIn:
    """A message. With ``is_deleted`` it has only its place in the conversation.

    ``thread_ts`` is "" outside of threads and equal to ``ts`` for a root. ``author`` is an id or
    "". ``edited_ts`` and ``latest_reply`` are "" for never.
    """

    ts: str
    micros: int
    thread_ts: str
    author: str = ""
    author_name: str = ""
    author_team: str = ""
    username: str = ""
    subtype: str = ""
    is_notice: bool = False
    is_bot: bool = False
    broadcast: bool = False
    text: str = ""
    raw: str = ""
    edited_ts: str = ""
    reply_count: int = 0
    latest_reply: str = ""
    is_deleted: bool = False


def parse_message(raw: object, now_us: int) -> MessageIn | Outcome:
    """Parse a message, or an edit or deletion of one, with the ts of that message."""
    if not isinstance(raw, dict):
        return quarantined("too large" if isinstance(raw, TooLarge) else "not an object")
    if as_text(raw.get("type")) not in ("", "message"):
        return skipped("not a message")
    subtype = as_text(raw.get("subtype"))
    if subtype == "message_deleted":
        return _parse_deletion(raw, raw.get("deleted_ts"), now_us)
    if subtype == "message_changed":
        return _parse_edit(raw, now_us)
    if subtype == "message_replied":
        return skipped("reply notice")
    if subtype == "tombstone":
        return _parse_deletion(raw, raw.get("ts"), now_us)
    if raw.get("user") == "U00":
        return skipped("placeholder author U00")
    us = parse_ts(raw.get("ts"), now_us)
    if isinstance(us, Outcome):
        return us
    try:
        text = json.dumps(raw)
    except RecursionError:
        return quarantined("too large")
    if len(text) > MAX_OBJECT_BYTES and _size(raw) > MAX_OBJECT_BYTES:
        return quarantined("too large")
    # Code that reads the stored JSON again might not be able to parse deeper nesting.
    if text.count("[") + text.count("{") > MAX_OBJECT_DEPTH and _is_deep(raw):
        return quarantined("too large")
    incoming = MessageIn(
        ts=ts_from_micros(us),
        micros=us,
        thread_ts=_thread_ts(raw, us),
        text=make_storable(message_text(raw)),
        raw=text,
        subtype=make_storable(subtype, 50),
        is_notice=subtype in _NOTICES or subtype.startswith(_NOTICE_PREFIXES),
        broadcast=subtype in ("thread_broadcast", "reply_broadcast"),
    )
    incoming.edited_ts = _ts_or_blank(as_dict(raw.get("edited")).get("ts"), now_us)
    if "reply_count" in raw or "latest_reply" in raw:
        incoming.reply_count, incoming.latest_reply = parse_reply_info(raw)
        if incoming.reply_count and not incoming.thread_ts:
            incoming.thread_ts = incoming.ts
    _set_author(incoming, raw, subtype)
    return incoming


def is_newer(incoming: MessageIn, text: str, edited_ts: str, *, live_us: int) -> bool:
    """Return whether this version replaces a stored one: the later edit does.

    Versions with the same edit time differ in attachments, which Slack adds and removes. A live
    version then replaces the stored one, and of other versions the longer one stays. ``live_us`` is
    a time before Slack was asked for a live version, 0 for others. Slack dates no edit by an app, so
    a live version without an edit time also replaces one that was edited before then.
    """
    new_edit, stored_edit = micros_or_0(incoming.edited_ts), micros_or_0(edited_ts)
    if live_us and (new_edit == stored_edit or (not new_edit and stored_edit <= live_us)):
        return incoming.text != text
    if new_edit != stored_edit:
        return new_edit > stored_edit
    return (len(incoming.text), incoming.text) > (len(text), text)


def parse_ts(ts: object, now_us: int) -> int | Outcome:
    """Return a message's ts in microseconds, or the fault of a value that is no ts."""
    if ts is None:
        return quarantined("no ts")
    if not isinstance(ts, str):
        return quarantined("ts is not text")
    try:
        us = micros(ts)
    except ValueError:
        return quarantined("ts is not a number")
    if not SLACK_BEGAN <= us <= now_us + 24 * HOUR:
        return quarantined("ts out of range")
    return us


def parse_reply_info(raw: dict[str, Any]) -> tuple[int, str]:
    """Return (number of replies, ts of the latest one) of a root; (0, "") without replies."""
    latest = raw.get("latest_reply")
    try:
        latest_us = micros(latest) if isinstance(latest, str) else 0
    except ValueError:
        latest_us = 0
    if latest_us == 0 and isinstance(latest, str):
        return 0, ""
    count = bounded_int(raw.get("reply_count"), 2**31 - 1)
    return count, ts_from_micros(latest_us) if latest_us else ""


def _parse_edit(event: dict[str, Any], now_us: int) -> MessageIn | Outcome:
    inner = event.get("message")
    if not isinstance(inner, dict) or as_text(inner.get("subtype")).startswith("message_"):
        return quarantined("a change without its message")
    incoming = parse_message(inner, now_us)
    if isinstance(incoming, MessageIn) and not (incoming.edited_ts or incoming.is_deleted):
        before = as_text(as_dict(event.get("previous_message")).get("text"))
        if before != as_text(inner.get("text")):
            # The edit has no time of its own: the event's time dates it.
            incoming.edited_ts = _ts_or_blank(event.get("event_ts") or event.get("ts"), now_us)
    return incoming


def _parse_deletion(raw: dict[str, Any], ts: object, now_us: int) -> MessageIn | Outcome:
    us = parse_ts(ts, now_us)
    if isinstance(us, Outcome):
        return us
    before = raw if raw.get("subtype") == "tombstone" else as_dict(raw.get("previous_message"))
    reply_count, latest_reply = parse_reply_info(before)
    message_ts = ts_from_micros(us)
    return MessageIn(
        ts=message_ts,
        micros=us,
        thread_ts=_thread_ts(before, us) or (message_ts if reply_count else ""),
        reply_count=reply_count,
        latest_reply=latest_reply,
        is_deleted=True,
    )


def _thread_ts(raw: dict[str, Any], us: int) -> str:
    """Return the root's ts; "" without one, and for a root that is later than the message."""
    thread = raw.get("thread_ts")
    if not isinstance(thread, str):
        return ""
    try:
        root_us = micros(thread)
    except ValueError:
        return ""
    return ts_from_micros(root_us) if SLACK_BEGAN <= root_us <= us else ""


def _ts_or_blank(ts: object, now_us: int) -> str:
    us = parse_ts(ts, now_us)
    return "" if isinstance(us, Outcome) else ts_from_micros(us)


def _set_author(incoming: MessageIn, raw: dict[str, Any], subtype: str) -> None:
    """Set the author: the user, else the bot, else a username, else an unknown bot."""
    bot_id = parse_slack_id(raw.get("bot_id"))
    user = parse_slack_id(raw.get("user"))
    if not user and subtype == "file_comment":
        user = parse_slack_id(as_dict(raw.get("comment")).get("user"))
    if subtype == "huddle_thread":
        user = parse_slack_id(as_dict(raw.get("room")).get("created_by")) or user
    incoming.is_bot = bool(bot_id) or subtype == "bot_message" or user == SLACKBOT
    incoming.author = user or bot_id
    incoming.username = make_storable(as_text(raw.get("username")), 200)
    if incoming.is_bot and not (incoming.author or incoming.username):
        incoming.username = UNKNOWN_BOT
    profile = as_dict(raw.get("user_profile"))
    if profile or not user:
        bot_name = as_dict(raw.get("bot_profile")).get("name")
        incoming.author_name = first_nonblank(
            [profile.get("display_name"), profile.get("real_name"), profile.get("name")]
            if user
            else [bot_name, raw.get("username")]
        )
    incoming.author_team = make_storable(
        as_text(raw.get("user_team"))
        or as_text(raw.get("source_team"))
        or as_text(raw.get("team")),
        32,
    )


def _is_deep(raw: object) -> bool:
    level = [raw]
    for _ in range(MAX_OBJECT_DEPTH):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def _size(raw: object) -> int:
    return len(json.dumps(raw, ensure_ascii=False).encode("utf-8", "surrogatepass"))
