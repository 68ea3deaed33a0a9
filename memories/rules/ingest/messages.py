"""Messages of Slack as values: what was said, edited, deleted, or only noticed.

Every raw object, from an export or the Web API, becomes a `MessageIn` or an `Outcome`
that says why not; none raises. Times are microseconds since 1970; ``now_us`` is the reader's
clock.
"""

import json
from dataclasses import dataclass
from typing import Any

from memories.rules.ingest.characters import fit
from memories.rules.ingest.message_text import as_dict, as_text, message_text
from memories.rules.ingest.outcomes import Outcome, quarantined, skipped
from memories.rules.ingest.slack_objects import (
    SLACKBOT,
    TooLarge,
    first_name,
    slack_id,
    whole_number,
)
from memories.rules.ingest.timestamps import HOUR, SLACK_BEGAN, micros, ts_from_micros

LARGEST_OBJECT = 1_000_000  # bytes of JSON
DEEPEST_OBJECT = 100  # lists and objects in one another; Slack's have ten or so
UNKNOWN_BOT = "unknown bot"

# What Slack itself says in a channel; kept, but nothing that a person said.
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
    """A message, or with ``is_deleted`` what is left of one: its place in the conversation.

    ``thread_ts`` is "" outside of threads and equal to ``ts`` for a root. ``author`` is an id or
    "". ``edited_ts``, ``latest_reply``: "" when never.
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


def message(raw: object, now_us: int) -> MessageIn | Outcome:
    """A message, an edit or a deletion of one (by the inner ts), or why it is neither."""
    if not isinstance(raw, dict):
        return quarantined("too large" if isinstance(raw, TooLarge) else "not an object")
    if as_text(raw.get("type")) not in ("", "message"):
        return skipped("not a message")
    subtype = as_text(raw.get("subtype"))
    if subtype == "message_deleted":
        return _gone(raw, raw.get("deleted_ts"), now_us)
    if subtype == "message_changed":
        return _changed(raw, now_us)
    if subtype == "message_replied":
        return skipped("reply notice")
    if subtype == "tombstone":
        return _gone(raw, raw.get("ts"), now_us)
    if raw.get("user") == "U00":
        return skipped("placeholder author U00")
    us = moment(raw.get("ts"), now_us)
    if isinstance(us, Outcome):
        return us
    try:
        text = json.dumps(raw)
    except RecursionError:
        return quarantined("too large")
    if len(text) > LARGEST_OBJECT and _size(raw) > LARGEST_OBJECT:
        return quarantined("too large")
    # What is nested deeper could not be read again in each place that reads it.
    if text.count("[") + text.count("{") > DEEPEST_OBJECT and _is_deep(raw):
        return quarantined("too large")
    edited = raw.get("edited")
    found = MessageIn(
        ts=ts_from_micros(us),
        micros=us,
        thread_ts=_thread(raw, us),
        text=fit(message_text(raw)),
        raw=text,
        subtype=fit(subtype, 50),
        is_notice=subtype in _NOTICES or subtype.startswith(_NOTICE_PREFIXES),
        broadcast=subtype in ("thread_broadcast", "reply_broadcast"),
    )
    if edited is not None:
        found.edited_ts = _later_ts(as_dict(edited).get("ts"), now_us)
    if "reply_count" in raw or "latest_reply" in raw:
        found.reply_count, found.latest_reply = replies(raw)
        if found.reply_count and not found.thread_ts:
            found.thread_ts = found.ts
    _sign(found, raw, subtype)
    return found


def moment(ts: object, now_us: int) -> int | Outcome:
    """A message's ts in microseconds; never a guess and never "now" when it is not one."""
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


def replies(raw: dict[str, Any]) -> tuple[int, str]:
    """A root's number of replies and the ts of the last one; (0, "") when none is alive."""
    latest = raw.get("latest_reply")
    try:
        latest_us = micros(latest) if isinstance(latest, str) else 0
    except ValueError:
        latest_us = 0
    if latest_us == 0 and isinstance(latest, str):
        return 0, ""
    count = whole_number(raw.get("reply_count"), 2**31 - 1)
    return count, ts_from_micros(latest_us) if latest_us else ""


def _changed(event: dict[str, Any], now_us: int) -> MessageIn | Outcome:
    inner = event.get("message")
    if not isinstance(inner, dict) or as_text(inner.get("subtype")).startswith("message_"):
        return quarantined("a change without its message")
    found = message(inner, now_us)
    if isinstance(found, MessageIn) and not (found.edited_ts or found.is_deleted):
        before = as_text(as_dict(event.get("previous_message")).get("text"))
        if before != as_text(inner.get("text")):
            # An edit that does not say when: it was when Slack told.
            found.edited_ts = _later_ts(event.get("event_ts") or event.get("ts"), now_us)
    return found


def _gone(raw: dict[str, Any], ts: object, now_us: int) -> MessageIn | Outcome:
    us = moment(ts, now_us)
    if isinstance(us, Outcome):
        return us
    before = raw if raw.get("subtype") == "tombstone" else as_dict(raw.get("previous_message"))
    reply_count, latest_reply = replies(before)
    found_ts = ts_from_micros(us)
    return MessageIn(
        ts=found_ts,
        micros=us,
        thread_ts=_thread(before, us) or (found_ts if reply_count else ""),
        reply_count=reply_count,
        latest_reply=latest_reply,
        is_deleted=True,
    )


def _thread(raw: dict[str, Any], us: int) -> str:
    """The root's ts; "" when there is none, or when it could not have been answered by then."""
    thread = raw.get("thread_ts")
    if not isinstance(thread, str):
        return ""
    try:
        root_us = micros(thread)
    except ValueError:
        return ""
    return ts_from_micros(root_us) if SLACK_BEGAN <= root_us <= us else ""


def _later_ts(ts: object, now_us: int) -> str:
    us = moment(ts, now_us)
    return "" if isinstance(us, Outcome) else ts_from_micros(us)


def _sign(found: MessageIn, raw: dict[str, Any], subtype: str) -> None:
    """Who said it: user, else bot, else a bare name, else an unknown bot."""
    bot_id = slack_id(raw.get("bot_id"))
    user = slack_id(raw.get("user"))
    if not user and subtype == "file_comment":
        user = slack_id(as_dict(raw.get("comment")).get("user"))
    if subtype == "huddle_thread":
        user = slack_id(as_dict(raw.get("room")).get("created_by")) or user
    found.is_bot = bool(bot_id) or subtype == "bot_message" or user == SLACKBOT
    found.author = user or bot_id
    found.username = fit(as_text(raw.get("username")), 200)
    if found.is_bot and not (found.author or found.username):
        found.username = UNKNOWN_BOT
    profile = as_dict(raw.get("user_profile"))
    if profile or not user:
        bot_name = as_dict(raw.get("bot_profile")).get("name")
        found.author_name = first_name(
            [profile.get("display_name"), profile.get("real_name"), profile.get("name")]
            if user
            else [bot_name, raw.get("username")]
        )
    found.author_team = fit(
        as_text(raw.get("user_team"))
        or as_text(raw.get("source_team"))
        or as_text(raw.get("team")),
        32,
    )


def _is_deep(raw: object) -> bool:
    level = [raw]
    for _ in range(DEEPEST_OBJECT):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _size(raw: object) -> int:
    return len(json.dumps(raw, ensure_ascii=False).encode("utf-8", "surrogatepass"))
