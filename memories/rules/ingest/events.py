"""What Slack tells by events, as values: what came in, and what is to be done about it.

Events only ever narrow who may read: what they would widen is left to the next sync, which asks
Slack. None of these functions raises, whatever it is given.
"""

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from memories.rules.ingest.characters import fit
from memories.rules.ingest.message_text import as_dict, as_list, as_text, dicts
from memories.rules.ingest.slack_objects import first_name, slack_id, whole_number

# What the app subscribes to: event → the scope it needs, "" for none. Those of private channels
# are subscribed to only where such channels are read.
SUBSCRIBED = {
    "app_uninstalled": "",
    "channel_archive": "channels:read",
    "channel_created": "channels:read",
    "channel_deleted": "channels:read",
    "channel_left": "channels:read",
    "channel_rename": "channels:read",
    "channel_shared": "channels:read",
    "channel_unarchive": "channels:read",
    "group_archive": "groups:read",
    "group_deleted": "groups:read",
    "group_left": "groups:read",
    "group_rename": "groups:read",
    "group_unarchive": "groups:read",
    "member_joined_channel": "channels:read",
    "member_left_channel": "channels:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "team_join": "users:read",
    "tokens_revoked": "",
    "user_change": "users:read",
}

LARGEST_BODY = 1_000_000  # bytes of one request
MOST_ATTEMPTS = 5
KEPT_FOR = timedelta(days=7)  # Slack itself sends nothing again after an hour

_EVENT_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIRECT = ("im", "mpim", "app_home")
# What an event adds to a message, beside what the channel's history holds.
_OF_EVENTS = frozenset(["channel", "channel_type", "event_ts"])

_OF_CHANNELS = frozenset(
    [
        *("member_joined_channel", "member_left_channel", "channel_left", "group_left"),
        *("channel_rename", "group_rename", "channel_created", "channel_shared"),
        *("channel_archive", "group_archive", "channel_unarchive", "group_unarchive"),
        *("channel_deleted", "group_deleted"),
        "channel_convert_to_private",
    ]
)


# What came in


@dataclass(frozen=True, slots=True)
class Challenge:
    """Slack asks whether this is the address; it wants the text back."""

    text: str


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Slack leaves out all events of that minute (seconds since 1970)."""

    teams: tuple[str, ...]
    minute: int


@dataclass(frozen=True, slots=True)
class EventEnvelope:
    """One event. ``teams``: ids, the one that our app was told through first. ``body``: what is
    kept of it until it is worked on, for `read_body`."""

    event_id: str
    teams: tuple[str, ...]
    kind: str
    event: dict[str, Any]
    body: str


def envelope(raw: object) -> Challenge | RateLimited | EventEnvelope | None:
    """What a request says; None when it is nothing that Slack sends."""
    if not isinstance(raw, dict):
        return None
    what = raw.get("type")
    if what == "url_verification":
        text = as_text(raw.get("challenge"))
        return Challenge(text) if 0 < len(text) <= 1000 else None
    authorised = list(dicts(raw.get("authorizations")))
    ids = [one.get("team_id") for one in authorised]
    ids += [raw.get("context_team_id"), raw.get("team_id")]
    teams = tuple(dict.fromkeys(filter(None, map(slack_id, ids))))
    if not teams:
        return None
    if what == "app_rate_limited":
        return RateLimited(teams, whole_number(raw.get("minute_rate_limited"), 10**11))
    event, event_id = raw.get("event"), as_text(raw.get("event_id"))
    if what != "event_callback" or not isinstance(event, dict):
        return None
    if not _EVENT_ID.fullmatch(event_id) or not as_text(event.get("type")):
        return None
    bots = [one.get("user_id") for one in authorised if one.get("is_bot") is True]
    kept = {"event": event, "bots": bots, "at": whole_number(raw.get("event_time"), 10**11)}
    try:
        body = json.dumps(kept)
    except RecursionError:
        return None
    return EventEnvelope(event_id, teams, _kind(event), event, body)


def read_body(body: str) -> tuple[dict[str, Any], list[str], int]:
    """The event, the ids of our bot where Slack told them, and when it happened (seconds since
    1970, 0 unknown)."""
    try:
        kept = as_dict(json.loads(body))
    except (ValueError, RecursionError):
        kept = {}
    bots = [one for one in map(slack_id, as_list(kept.get("bots"))) if one]
    return as_dict(kept.get("event")), bots, whole_number(kept.get("at"), 10**11)


def _kind(event: dict[str, Any]) -> str:
    parts = (as_text(event.get("type")), as_text(event.get("subtype")))
    return fit("/".join(part for part in parts if part), 60)


# What is to be done


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing; ``reason`` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Store:
    """A message, an edit or a deletion. ``private``: Slack calls the channel so by now."""

    channel: str
    raw: dict[str, Any]
    private: bool
    deleted_ts: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """Somebody came in."""

    channel: str
    person: str
    is_bot: bool  # our own


@dataclass(frozen=True, slots=True)
class Leave:
    """Somebody is gone; our own bot with an empty ``person``."""

    channel: str
    person: str


@dataclass(frozen=True, slots=True)
class Describe:
    """A channel has another name, or was archived or taken out of the archive."""

    channel: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """There is a new channel; ``kind`` as for `rules.slack.channel`."""

    channel: str
    raw: dict[str, Any]
    kind: str


class Narrowing(StrEnum):
    PRIVATE = "private"  # it was converted
    DELETED = "deleted"
    SHARED = "shared"  # with another organisation


@dataclass(frozen=True, slots=True)
class Narrow:
    """Fewer people may read a channel, from now on."""

    channel: str
    why: Narrowing


@dataclass(frozen=True, slots=True)
class UpdatePerson:
    """A person as they are now."""

    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """Our token is worth nothing any more: ``state`` is a word of `SlackConnection.State`."""

    state: str
    why: str


Deed = Skip | Store | Join | Leave | Describe | Create | Narrow | UpdatePerson | Stop


def action_for(event: dict[str, Any], bots: list[str]) -> Deed:
    """What one event asks for."""
    kind = as_text(event.get("type"))
    if kind == "message":
        return _message(event)
    if kind in ("team_join", "user_change", "user_profile_changed"):
        user = event.get("user")
        return UpdatePerson(user) if isinstance(user, dict) else Skip("no person")
    if kind == "app_uninstalled":
        return Stop("uninstalled", "Slack says that the app was removed from the workspace.")
    if kind == "tokens_revoked":
        if as_list(as_dict(event.get("tokens")).get("bot")):
            return Stop("revoked", "Slack says that the bot's token was revoked.")
        return Skip("tokens of people")
    if kind in _OF_CHANNELS:
        return _channel(kind, event, bots)
    return Skip("not an event that is read")


def _message(event: dict[str, Any]) -> Deed:
    channel, subtype = slack_id(event.get("channel")), as_text(event.get("subtype"))
    if not channel:
        return Skip("no channel")
    if event.get("channel_type") in _DIRECT or channel.startswith("D"):
        return Skip("direct messages")
    if subtype == "message_replied":
        return Skip("reply notice")
    # An edit without a moment of its own is dated by the event's.
    left_out = _OF_EVENTS if subtype != "message_changed" else frozenset(["channel"])
    return Store(
        channel=channel,
        raw={key: value for key, value in event.items() if key not in left_out},
        private=event.get("channel_type") == "group" or subtype == "channel_convert_to_private",
        deleted_ts=_deleted(event, subtype),
    )


def _deleted(event: dict[str, Any], subtype: str) -> str:
    """The ts of what is gone, "" when nothing is."""
    if subtype == "message_deleted":
        return as_text(event.get("deleted_ts"))
    inner = as_dict(event.get("message")) if subtype == "message_changed" else event
    return as_text(inner.get("ts")) if inner.get("subtype") == "tombstone" else ""


def _channel(kind: str, event: dict[str, Any], bots: list[str]) -> Deed:
    told = event.get("channel")
    raw = as_dict(told)
    channel, person = slack_id(raw.get("id") or told), slack_id(event.get("user"))
    if not channel:
        return Skip("no channel")
    if channel.startswith("D") or raw.get("is_im") is True or raw.get("is_mpim") is True:
        return Skip("direct messages")
    match kind.partition("_")[2]:
        case "joined_channel":
            return Join(channel, person, person in bots) if person else Skip("no person")
        case "left_channel":
            return Leave(channel, "" if person in bots else person) if person else Skip("no person")
        case "left":
            return Leave(channel, "")
        case "rename":
            name = first_name([raw.get("name"), raw.get("name_normalized")])
            return Describe(channel, {"name": name}) if name else Skip("no name")
        case "archive" | "unarchive" as what:
            return Describe(channel, {"is_archived": what == "archive"})
        case "created":
            # As in a sync: what Slack does not call public in so many words is private.
            return Create(channel, raw, "public" if raw.get("is_private") is False else "private")
        case "shared":
            return Narrow(channel, Narrowing.SHARED)
        case "deleted":
            return Narrow(channel, Narrowing.DELETED)
        case _:
            return Narrow(channel, Narrowing.PRIVATE)
