"""Slack events as values: the parsed request, and the action that an event calls for.

An event may only reduce who reads a channel. Only a sync, which reads Slack's current lists, may
extend it. No function here raises, whatever the input is.
"""

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.references import load_object
from memories.rules.ingest.slack_objects import bounded_int, first_nonblank, parse_slack_id
from memories.rules.json_values import as_dict, as_dicts, as_list, as_text

# Event → the scope it needs, "" for none. The app subscribes to the events of private channels only
# where private channels are read.
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

MAX_BODY_BYTES = 1_000_000  # bytes of one request
MAX_ATTEMPTS = 5
EVENT_RETENTION = timedelta(days=7)  # Slack stops its own retries after an hour

_EVENT_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIRECT = ("im", "mpim", "app_home")
# Keys of a message event that the same message in a channel's history does not have.
_EVENT_KEYS = frozenset(["channel", "channel_type", "event_ts"])

_CHANNEL_EVENTS = frozenset(
    kind for kind in SUBSCRIBED if kind.startswith(("channel_", "group_", "member_"))
) | {"channel_convert_to_private"}


# Requests


@dataclass(frozen=True, slots=True)
class Challenge:
    """Slack's verification of the request URL. The response is this text."""

    text: str


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Slack drops all events of this minute (seconds since 1970)."""

    teams: tuple[str, ...]
    minute: int


@dataclass(frozen=True, slots=True)
class EventEnvelope:
    """One event. ``teams`` are ids, the team that authorised the app first. ``body`` is the JSON
    that is stored until the event is processed; `read_body` parses it."""

    event_id: str
    teams: tuple[str, ...]
    kind: str
    event: dict[str, Any]
    body: str


def parse_payload(raw: object) -> Challenge | RateLimited | EventEnvelope | None:
    """Parse a request's JSON; return None when Slack does not send such a request."""
    if not isinstance(raw, dict):
        return None
    request_type = raw.get("type")
    if request_type == "url_verification":
        text = as_text(raw.get("challenge"))
        return Challenge(text) if 0 < len(text) <= 1000 else None
    authorizations = list(as_dicts(raw.get("authorizations")))
    ids = [authorization.get("team_id") for authorization in authorizations]
    ids += [raw.get("context_team_id"), raw.get("team_id")]
    teams = tuple(dict.fromkeys(filter(None, map(parse_slack_id, ids))))
    if not teams:
        return None
    if request_type == "app_rate_limited":
        return RateLimited(teams, bounded_int(raw.get("minute_rate_limited"), 10**11))
    event, event_id = raw.get("event"), as_text(raw.get("event_id"))
    if request_type != "event_callback" or not isinstance(event, dict):
        return None
    if not _EVENT_ID.fullmatch(event_id) or not as_text(event.get("type")):
        return None
    bots = [item.get("user_id") for item in authorizations if item.get("is_bot") is True]
    stored = {"event": event, "bots": bots, "at": bounded_int(raw.get("event_time"), 10**11)}
    try:
        body = json.dumps(stored)
    except RecursionError:
        return None
    types = (as_text(event.get("type")), as_text(event.get("subtype")))
    kind = make_storable("/".join(filter(None, types)), 60)
    return EventEnvelope(event_id, teams, kind, event, body)


def read_body(body: str) -> tuple[dict[str, Any], list[str], int]:
    """Return (event, ids of the app's bot, time) of an `EventEnvelope.body`.

    The time is in seconds since 1970, 0 when unknown.
    """
    stored = load_object(body)
    bots = list(filter(None, map(parse_slack_id, as_list(stored.get("bots")))))
    return as_dict(stored.get("event")), bots, bounded_int(stored.get("at"), 10**11)


# Actions


@dataclass(frozen=True, slots=True)
class Skip:
    """Do nothing. ``reason`` is a short phrase."""

    reason: str


@dataclass(frozen=True, slots=True)
class Store:
    """Store a message, an edit or a deletion. ``private``: the event calls the channel private."""

    channel: str
    raw: dict[str, Any]
    private: bool
    deleted_ts: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """A person joined a channel."""

    channel: str
    person: str
    is_bot: bool  # the app's own bot


@dataclass(frozen=True, slots=True)
class Leave:
    """A person left a channel; an empty ``person`` is the app's own bot."""

    channel: str
    person: str


@dataclass(frozen=True, slots=True)
class Describe:
    """A channel was renamed, archived or unarchived."""

    channel: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """A channel was created; ``kind`` as in `slack_objects.parse_channel`."""

    channel: str
    raw: dict[str, Any]
    kind: str


class Narrowing(StrEnum):
    PRIVATE = "private"  # it was converted
    DELETED = "deleted"
    SHARED = "shared"  # with another organisation


@dataclass(frozen=True, slots=True)
class Narrow:
    """Fewer people may read a channel from now on."""

    channel: str
    reason: Narrowing


@dataclass(frozen=True, slots=True)
class UpdatePerson:
    """A person's profile was created or changed."""

    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """The token no longer works. ``state`` is a value of `SlackConnection.State`."""

    state: str
    reason: str


Action = Skip | Store | Join | Leave | Describe | Create | Narrow | UpdatePerson | Stop


def action_for(event: dict[str, Any], bots: list[str]) -> Action:
    """Return the action that an event calls for; ``bots`` are the ids of the app's bot."""
    kind = as_text(event.get("type"))
    if kind == "message":
        return _message_action(event)
    if kind in ("team_join", "user_change", "user_profile_changed"):
        user = event.get("user")
        return UpdatePerson(user) if isinstance(user, dict) else Skip("no person")
    if kind == "app_uninstalled":
        return Stop("uninstalled", "Slack says that the app was removed from the workspace.")
    if kind == "tokens_revoked":
        if as_list(as_dict(event.get("tokens")).get("bot")):
            return Stop("revoked", "Slack says that the bot's token was revoked.")
        return Skip("tokens of people")
    if kind in _CHANNEL_EVENTS:
        return _channel_action(kind, event, bots)
    return Skip("not an event that is read")


def _message_action(event: dict[str, Any]) -> Action:
    channel, subtype = parse_slack_id(event.get("channel")), as_text(event.get("subtype"))
    if not channel:
        return Skip("no channel")
    if event.get("channel_type") in _DIRECT or channel.startswith("D"):
        return Skip("direct messages")
    if subtype == "message_replied":
        return Skip("reply notice")
    # event_ts dates an edit that has no time of its own.
    dropped_keys = _EVENT_KEYS if subtype != "message_changed" else frozenset(["channel"])
    return Store(
        channel=channel,
        raw={key: value for key, value in event.items() if key not in dropped_keys},
        private=event.get("channel_type") == "group" or subtype == "channel_convert_to_private",
        deleted_ts=_deleted_ts(event, subtype),
    )


def _deleted_ts(event: dict[str, Any], subtype: str) -> str:
    """Return the ts of the deleted message, "" when the event deletes none."""
    if subtype == "message_deleted":
        return as_text(event.get("deleted_ts"))
    inner = as_dict(event.get("message")) if subtype == "message_changed" else event
    return as_text(inner.get("ts")) if inner.get("subtype") == "tombstone" else ""


def _channel_action(kind: str, event: dict[str, Any], bots: list[str]) -> Action:
    raw = as_dict(event.get("channel"))  # some events hold the channel's id instead of an object
    channel = parse_slack_id(raw.get("id") or event.get("channel"))
    person = parse_slack_id(event.get("user"))
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
            name = first_nonblank([raw.get("name"), raw.get("name_normalized")])
            return Describe(channel, {"name": name}) if name else Skip("no name")
        case "archive" | "unarchive" as change:
            return Describe(channel, {"is_archived": change == "archive"})
        case "created":
            # As in a sync, a channel is private unless Slack calls it public.
            return Create(channel, raw, "public" if raw.get("is_private") is False else "private")
        case "shared":
            return Narrow(channel, Narrowing.SHARED)
        case "deleted":
            return Narrow(channel, Narrowing.DELETED)
        case _:
            return Narrow(channel, Narrowing.PRIVATE)
