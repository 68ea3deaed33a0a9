"""A bundle: one workspace as an open zip of JSON and Markdown (docs/bundle.md).

Names of its files and the shape of each object in them; `bundle_text` is how they are written.
"""

import re
from collections.abc import Mapping
from typing import Any

from memories.rules.lines import Origin
from memories.rules.memory import WORKSPACE_SCOPE_ID, MemoryScope, MemoryType
from memories.rules.segments import Trigger
from memories.rules.shapes import (
    HUGE,
    LARGE,
    SMALL,
    Check,
    Shape,
    an_object,
    day,
    flag,
    many,
    maybe,
    moment,
    money,
    number,
    one_of,
    pattern,
    row,
    text,
    ts,
    ts_or_none,
    whole,
)
from memories.rules.summary import Kind, Way

FORMAT = "memory-hub-workspace"
VERSION = 4
READABLE = (1, 2, 3, 4)

MANIFEST = "manifest.json"
WORKSPACE = "workspace.json"
PEOPLE = "people.jsonl"
CHANNELS = "channels.jsonl"
SEGMENTS = "segments.jsonl"
BACKFILLS = "backfills.jsonl"
GENERATIONS = "generations.jsonl"
NOTES = "notes.jsonl"
ALWAYS = (WORKSPACE, PEOPLE, CHANNELS, SEGMENTS, BACKFILLS, GENERATIONS, NOTES)

# -- names of files

_SPECIAL = re.compile(r"[^A-Za-z0-9_-]")
_UNSPEAKABLE = re.compile(r"[^\w-]+")


def of_id(slack_id: str) -> str:
    """A Slack id as part of a file's name: what is no letter or digit as ``%`` and its code."""
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):04X}", slack_id)


def messages_file(slack_id: str) -> str:
    return f"messages/{of_id(slack_id)}.jsonl"


def memory_folder(scope: str, memory_type: str, slack_id: str, name: str, thread_ts: str) -> str:
    """``memories/channels/C123-launch/long_term``: the name is for people, the id tells."""
    if scope == MemoryScope.WORKSPACE:
        return f"memories/workspace/{memory_type}"
    spoken = _UNSPEAKABLE.sub("-", name).strip("-")[:40]
    place = f"memories/channels/{of_id(slack_id)}" + (f"-{spoken}" if spoken else "")
    if scope == MemoryScope.THREAD:
        place += f"/threads/{thread_ts}"
    return f"{place}/{memory_type}"


def version_file(folder: str, number: int) -> str:
    return f"{folder}/v{number:04d}.md"


# -- objects

_US = whole(-HUGE, HUGE)
_ID = text(32, least=1)
_USER = maybe(text(150, least=1))
_TIMES = {"created_at": moment}
SEGMENT_KEY = row(_ID, ts_or_none, whole())  # channel, thread, number
MEMORY_KEY = row(  # scope, scope id, type
    one_of(MemoryScope), text(60, least=1), one_of(MemoryType)
)
MESSAGE_KEY = row(_ID, ts)  # channel, ts

MANIFEST_SHAPE = Shape(
    {
        "format": text(),
        "version": whole(),
        "prompts": text(64),
        "left_out": Shape({"channels": whole(), "references": whole()}),
        "counts": an_object,
        "files": many(
            Shape(
                {
                    "name": text(1000, least=1),
                    "bytes": whole(0, HUGE),
                    "sha256": pattern("[0-9a-f]{64}"),
                }
            )
        ),
    }
)

WORKSPACE_SHAPE = Shape(
    {
        "slug": pattern("[-a-zA-Z0-9_]{1,50}"),
        "name": text(200),
        "team_id": text(32),
        "domain": text(100),
        "settings": an_object,
        "created_at": moment,
        "connected_at": maybe(moment),
        "synced_at": maybe(moment),
        "members": many(
            Shape(
                {
                    "user": text(150, least=1),
                    "role": one_of(("guest", "member", "editor", "admin")),
                }
            )
        ),
        "caps": many(
            Shape(
                {
                    "period": one_of(("day", "month")),
                    "tokens": maybe(whole(0, HUGE)),
                    "money": maybe(money),
                }
            )
        ),
    }
)

PERSON = Shape(
    {
        "slack_id": _ID,
        "name": text(200),
        "real_name": text(200),
        "email": text(254),
        "is_bot": flag,
        "is_guest": flag,
        "is_external": flag,
        "is_deleted": flag,
        "is_placeholder": flag,
        "updated": _US,
        "is_revoked": flag,
        "forgotten_at": maybe(moment),
        "user": _USER,
        "linked_by": one_of(("", "email", "slack", "demo")),
    },
    {"is_revoked": False, "forgotten_at": None, "linked_by": ""},
)

CHANNEL = Shape(
    {
        "slack_id": _ID,
        "name": text(200),
        "kind": one_of(("public", "private", "mpim", "im")),
        "is_archived": flag,
        "is_shared": flag,
        "is_followed": flag,
        "in_workspace_memory": flag,
        "private_since": maybe(moment),
        "forgotten_at": maybe(moment),
        "topic": text(),
        "purpose": text(),
        "remember_bots": flag,
        "start_us": maybe(_US),
        "cut_from_us": maybe(_US),
        "members_known_at": maybe(moment),
        "synced_ts": ts_or_none,
        "members": many(_ID),
    },
    {
        **{"is_shared": False, "is_followed": False, "in_workspace_memory": False},
        **{"private_since": None, "forgotten_at": None},
    },
)

MESSAGE = Shape(
    {
        "ts": ts,
        "thread_ts": ts_or_none,
        "author": maybe(_ID),
        "username": text(200),
        "subtype": text(50),
        "is_notice": flag,
        "is_bot": flag,
        "broadcast": flag,
        "state": one_of(("live", "deleted", "expired", "missing")),
        "text": text(),
        "raw": text(),
        "edited_ts": ts_or_none,
        "reply_count": whole(),
        "latest_reply": ts_or_none,
        "was_private": flag,
        "is_revoked": flag,
        "segment": maybe(whole()),
        "thread_segment": maybe(row(ts_or_none, whole())),  # thread, number
    },
    {"was_private": False, "is_revoked": False},
)

SEGMENT = Shape(
    {
        "channel": _ID,
        "thread_ts": ts_or_none,
        "number": whole(),
        "first_us": _US,
        "last_us": _US,
        "closed_us": _US,
        "message_count": whole(),
        "reason": one_of(Trigger),
        "outcome": one_of(("waiting", "remembered", "nothing", "skipped", "cancelled")),
        "stale": flag,
    }
)

BACKFILL = Shape(
    {
        "since_us": _US,
        "until_us": _US,
        "channels": many(row(_ID, maybe(_US))),  # and its start mark before
        "cap_tokens": maybe(whole(0, HUGE)),
        "cap_micros": maybe(whole(0, HUGE)),
        "state": one_of(("paused", "cancelled", "done")),
        "paused_by": text(20),
        "quote": an_object,
        "author": _USER,
        **_TIMES,
        "finished_at": maybe(moment),
    }
)

MEMORY = Shape(
    {
        "scope": one_of(MemoryScope),
        "scope_id": text(60, least=1),
        "memory_type": one_of(MemoryType),
        "channel": maybe(_ID),
        "thread_ts": ts_or_none,
        "head": whole(),
        "current": maybe(whole(1)),
        "versions": many(whole(1)),
    }
)

LINE = Shape(
    {
        "text": text(),
        "origin": one_of(Origin),
        "since": whole(),
        "pinned": flag,
        "masked": flag,
        "kind": one_of(("", *Kind)),
        "at_us": _US,
        "unverified": flag,
        "fate": one_of(("", "superseded", "settled", "archived", "returned")),
        "successor": maybe(whole()),
        "sources": many(MESSAGE_KEY),
    },
    {
        **{"masked": False, "kind": "", "at_us": 0, "unverified": False, "fate": ""},
        "successor": None,
    },
)

# What a generation tells of a text, also in front of the text itself.
FACTS: dict[str, Check] = {
    "model": text(100),
    "prompt_version": text(60),
    "prompt_tokens": whole(),
    "completion_tokens": whole(),
}

VERSION_SHAPE = Shape(
    {
        "number": whole(1),
        "name": text(80),
        "origin": one_of(Origin),
        "author": _USER,
        **_TIMES,
        "updated_at": moment,
        "revision": whole(),
        "audience": one_of(("scope", "members", "nobody")),
        "base": maybe(whole(1)),
        "restored_from": maybe(whole(1)),
        "segment": maybe(SEGMENT_KEY),
        "provisional": flag,
        "merged": flag,
        "until_us": _US,
        "source_message_count": whole(),
        "source_latest_message_ts": ts_or_none,
        "trigger": an_object,
        "put_back": many(text()),
        "kept": many(text()),
        "dropped": many(text()),
        "generation": maybe(whole(1)),  # its line in generations.jsonl
        "made_by": maybe(Shape(FACTS)),
        "lines": many(LINE),
    },
    {"audience": "scope", "name": "", "dropped": []},
)

GENERATION = Shape(
    {
        "memory": MEMORY_KEY,
        "segment": maybe(SEGMENT_KEY),
        "base": maybe(whole(1)),
        "inputs": many(row(MEMORY_KEY, whole(1), whole())),  # and its revision when it was read
        "backfill": maybe(whole(1)),  # its line in backfills.jsonl
        "inputs_hold": flag,
        "provisional": flag,
        "as_of_us": _US,
        "trigger": an_object,
        "state": one_of(
            (
                *("waiting", "replied", "done", "superseded"),
                *("proposed", "rejected", "cancelled", "dead"),
            )
        ),
        "attempts": whole(),
        "lost": whole(0, SMALL),
        "way": one_of(Way),
        "not_before": maybe(moment),
        "reply": maybe(an_object),
        "cites": many(many(MESSAGE_KEY)),
        "fault": text(40),
        "fault_text": text(),
        **FACTS,
        "calls": whole(0, LARGE),
        "seconds": number,
        **_TIMES,
        "finished_at": maybe(moment),
    }
)

# What a note says, now or in an earlier version.
_WORDING: dict[str, Check] = {
    "channel": maybe(_ID),
    "title": text(60),
    "kind": one_of(("", "pattern", "architecture", "solution")),
    "tags": many(text()),
    "date": day,
    "content": text(),
    "was_private": flag,
    "restored_from": maybe(whole(1)),
}

NOTE_VERSION = Shape(
    {**_WORDING, "number": whole(1), "written_by": _USER, "written_at": moment},
)

NOTE = Shape(
    {
        **_WORDING,
        "author": _USER,
        **_TIMES,
        "updated_at": moment,
        "number": whole(1),
        "worded_by": _USER,
        "worded_at": maybe(moment),
        "is_pinned": flag,
        "in_context": flag,
        "review_on": maybe(day),
        "deleted_at": maybe(moment),
        "deleted_by": _USER,
        "versions": many(NOTE_VERSION),
    },
    {
        **{"was_private": False, "restored_from": None, "number": 1, "versions": []},
        **{"worded_by": None, "worded_at": None, "is_pinned": False, "in_context": True},
        **{"review_on": None, "deleted_at": None, "deleted_by": None},
    },
)


def valid_place(memory: Mapping[str, Any]) -> bool:
    """Whether scope, id, type, channel and thread of a memory belong together (S0)."""
    channel, thread_ts = memory["channel"], memory["thread_ts"]
    wanted = {
        MemoryScope.WORKSPACE: WORKSPACE_SCOPE_ID if not channel and not thread_ts else None,
        MemoryScope.CHANNEL: channel if not thread_ts else None,
        MemoryScope.THREAD: f"{channel}:{thread_ts}"
        if channel and thread_ts and memory["memory_type"] == MemoryType.SHORT_TERM
        else None,
    }[MemoryScope(memory["scope"])]
    return wanted is not None and wanted == memory["scope_id"]
