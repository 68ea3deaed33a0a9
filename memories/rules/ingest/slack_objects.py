"""People and channels of Slack as values, the same from an export and from the Web API.

Every raw object becomes a value, or an `Outcome` with the reason why it does not; nothing raises.
Ids, names and texts of the values fit every database: no NUL, no half surrogates, no excess length.
"""

import re
from dataclasses import dataclass
from typing import Any

from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.outcomes import Outcome, quarantined, skipped
from memories.rules.json_values import as_dict, as_text

SLACKBOT = "USLACKBOT"

_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")


class TooLarge:
    """Stands in a stream for an object that is too large or too deeply nested to parse."""


@dataclass(frozen=True, slots=True)
class PersonIn:
    slack_id: str
    name: str
    real_name: str
    email: str
    is_bot: bool
    is_guest: bool | None  # None: unknown
    is_external: bool
    is_deleted: bool
    updated: int  # seconds since 1970 by Slack's clock, 0 unknown


@dataclass(frozen=True, slots=True)
class ChannelIn:
    """``members`` are Slack ids; None when the object has no list of them."""

    slack_id: str
    name: str
    kind: str  # public | private | mpim | im
    is_archived: bool
    is_shared: bool  # with another organisation, or about to be
    topic: str
    purpose: str
    members: tuple[str, ...] | None


def parse_slack_id(value: object) -> str:
    """Return the value when it is a Slack id, otherwise ""."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def parse_person(raw: object, team_id: str = "") -> PersonIn | Outcome:
    """Parse a user or bot user. A person of another team than ``team_id`` is external."""
    parsed = _parse_object(raw)
    if isinstance(parsed, Outcome):
        return parsed
    raw, slack_id = parsed
    profile = as_dict(raw.get("profile"))
    names = [profile.get("display_name"), profile.get("real_name"), raw.get("real_name")]
    real_names = [profile.get("real_name"), raw.get("real_name")]
    guest_flags = [raw[key] for key in ("is_restricted", "is_ultra_restricted") if key in raw]
    team = as_text(raw.get("team_id")) or as_text(profile.get("team"))
    return PersonIn(
        slack_id=slack_id,
        name=first_nonblank([*names, raw.get("name")]) or slack_id,
        real_name=first_nonblank(real_names),
        email=make_storable(as_text(profile.get("email")), 254),
        is_bot=raw.get("is_bot") is True or slack_id == SLACKBOT,
        is_guest=True in guest_flags if guest_flags else None,
        is_external=raw.get("is_stranger") is True or bool(team_id and team and team != team_id),
        is_deleted=raw.get("deleted") is True,
        updated=bounded_int(raw.get("updated"), 10**11),
    )


def parse_channel(raw: object, kind: str, *, direct: bool = False) -> ChannelIn | Outcome:
    """Parse a channel from a list of public, private, im or mpim channels (``kind``).

    A channel object that calls itself private is private in every list. Direct and group messages
    are skipped unless ``direct``.
    """
    parsed = _parse_object(raw)
    if isinstance(parsed, Outcome):
        return parsed
    raw, slack_id = parsed
    if raw.get("is_im") is True or kind == "im":
        kind = "im"
    elif raw.get("is_mpim") is True or kind == "mpim":
        kind = "mpim"
    elif raw.get("is_private") is True or raw.get("is_group") is True:
        kind = "private"
    if kind in ("im", "mpim") and not direct:
        return skipped("direct messages")
    members = raw.get("members")
    return ChannelIn(
        slack_id=slack_id,
        name=first_nonblank([raw.get("name"), raw.get("name_normalized")]) or slack_id,
        kind=kind,
        is_archived=raw.get("is_archived") is True,
        is_shared=raw.get("is_ext_shared") is True or raw.get("is_pending_ext_shared") is True,
        topic=make_storable(as_text(as_dict(raw.get("topic")).get("value"))),
        purpose=make_storable(as_text(as_dict(raw.get("purpose")).get("value"))),
        members=tuple(dict.fromkeys(filter(None, map(parse_slack_id, members))))
        if isinstance(members, list)
        else None,
    )


def bounded_int(value: object, largest: int) -> int:
    """Return a whole number from 0 to ``largest``, and 0 for any other value."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest:
        return value
    return 0


def first_nonblank(names: list[Any]) -> str:
    """Return the first name that is not blank, or ""."""
    for name in names:
        if isinstance(name, str) and name.strip():
            return make_storable(name.strip(), 200)
    return ""


def _parse_object(raw: object) -> tuple[dict[str, Any], str] | Outcome:
    """Return an object with its id, or the reason why it is unusable."""
    if not isinstance(raw, dict):
        return quarantined("too large" if isinstance(raw, TooLarge) else "not an object")
    slack_id = parse_slack_id(raw.get("id"))
    return (raw, slack_id) if slack_id else quarantined("no id")
