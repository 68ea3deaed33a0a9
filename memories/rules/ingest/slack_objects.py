"""People and channels of Slack as values, the same from an export and from the Web API.

Every raw object becomes either a value or an `Outcome` that says why not; none raises. Ids, names
and texts come out fit for every database: without NUL and half surrogates, within their lengths.
"""

import re
from dataclasses import dataclass
from typing import Any

from memories.rules.ingest.characters import fit
from memories.rules.ingest.message_text import as_dict, as_text
from memories.rules.ingest.outcomes import Outcome, quarantined, skipped

SLACKBOT = "USLACKBOT"

_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")


class TooLarge:
    """Stands in a stream of objects for one that was too large, or nested too deeply, to hold."""


@dataclass(frozen=True, slots=True)
class PersonIn:
    slack_id: str
    name: str
    real_name: str
    email: str
    is_bot: bool
    is_guest: bool | None  # None: the object does not tell
    is_external: bool
    is_deleted: bool
    updated: int  # seconds since 1970 by Slack's clock; 0 unknown


@dataclass(frozen=True, slots=True)
class ChannelIn:
    """``members`` are Slack ids; None when the object does not tell."""

    slack_id: str
    name: str
    kind: str  # public | private | mpim | im
    is_archived: bool
    is_shared: bool  # with another organisation, or about to be
    topic: str
    purpose: str
    members: tuple[str, ...] | None


def slack_id(value: object) -> str:
    """An id, or "" when it is none."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def person(raw: object, team_id: str = "") -> PersonIn | Outcome:
    """A user or bot user. ``team_id`` is the workspace's own: others are external."""
    if (problem := _unreadable(raw)) is not None:
        return problem
    raw = as_dict(raw)
    if not (known_as := slack_id(raw.get("id"))):
        return quarantined("no id")
    profile = as_dict(raw.get("profile"))
    names = [profile.get("display_name"), profile.get("real_name"), raw.get("real_name")]
    real_names = [profile.get("real_name"), raw.get("real_name")]
    team = as_text(raw.get("team_id")) or as_text(profile.get("team"))
    return PersonIn(
        slack_id=known_as,
        name=first_name([*names, raw.get("name")]) or known_as,
        real_name=first_name(real_names),
        email=fit(as_text(profile.get("email")), 254),
        is_bot=raw.get("is_bot") is True or known_as == SLACKBOT,
        is_guest=_is_guest(raw),
        is_external=raw.get("is_stranger") is True or bool(team_id and team and team != team_id),
        is_deleted=raw.get("deleted") is True,
        updated=whole_number(raw.get("updated"), 10**11),
    )


def _is_guest(raw: dict[str, Any]) -> bool | None:
    told = [raw[key] for key in ("is_restricted", "is_ultra_restricted") if key in raw]
    return True in told if told else None


def channel(raw: object, kind: str, *, direct: bool = False) -> ChannelIn | Outcome:
    """A channel; ``kind`` is public, private, im or mpim as its source says.

    An object that calls itself private is private, whatever its source says. Direct and group
    messages are left out unless ``direct``.
    """
    if (problem := _unreadable(raw)) is not None:
        return problem
    raw = as_dict(raw)
    if not (known_as := slack_id(raw.get("id"))):
        return quarantined("no id")
    kind = _kind(raw, kind)
    if kind in ("im", "mpim") and not direct:
        return skipped("direct messages")
    members = raw.get("members")
    return ChannelIn(
        slack_id=known_as,
        name=first_name([raw.get("name"), raw.get("name_normalized")]) or known_as,
        kind=kind,
        is_archived=raw.get("is_archived") is True,
        is_shared=raw.get("is_ext_shared") is True or raw.get("is_pending_ext_shared") is True,
        topic=fit(as_text(as_dict(raw.get("topic")).get("value"))),
        purpose=fit(as_text(as_dict(raw.get("purpose")).get("value"))),
        members=tuple(dict.fromkeys(filter(None, map(slack_id, members))))
        if isinstance(members, list)
        else None,
    )


def _kind(raw: dict[str, Any], kind: str) -> str:
    if raw.get("is_im") is True or kind == "im":
        return "im"
    if raw.get("is_mpim") is True or kind == "mpim":
        return "mpim"
    return "private" if raw.get("is_private") is True or raw.get("is_group") is True else kind


def whole_number(value: object, largest: int) -> int:
    """A number from 0 to ``largest``; anything else is 0."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest
    return value if whole and isinstance(value, int) else 0


def first_name(names: list[Any]) -> str:
    """The first name that says something."""
    for name in names:
        if isinstance(name, str) and name.strip():
            return fit(name.strip(), 200)
    return ""


def _unreadable(raw: object) -> Outcome | None:
    if isinstance(raw, TooLarge):
        return quarantined("too large")
    return None if isinstance(raw, dict) else quarantined("not an object")
