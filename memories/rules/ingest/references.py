"""Which messages an object of Slack's tells of or shows: an event's body, a message as it was sent."""

import json
import re
from collections.abc import Iterator, Set
from typing import Any

from memories.rules.ingest.message_text import as_dict, as_list, as_text

TS = re.compile(r"\d{10}\.\d{6}")
LINK = re.compile(r"/archives/[A-Z0-9]+/p\d{16}")


def read_told(text: str) -> dict[str, Any]:
    """What Slack told; nothing where that cannot be read."""
    try:
        return as_dict(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def strings(told: Any) -> Iterator[str]:
    """All texts in it, however deep."""
    if isinstance(told, str):
        yield told
    inner = told.values() if isinstance(told, dict) else told if isinstance(told, list) else ()
    for one in inner:
        yield from strings(one)


def link(channel: str, ts: str) -> str:
    """The end of a message's permalink."""
    return f"/archives/{channel}/p{ts.replace('.', '')}"


def place_of(link: str) -> tuple[str, str]:
    """(channel, ts) of the end of a permalink."""
    _, _, channel, ts = link.split("/")
    return channel, f"{ts[1:11]}.{ts[11:]}"


def links_of(attachment: Any) -> set[str]:
    """The messages that it shows, as the ends of their permalinks."""
    told = as_dict(attachment)
    channel, ts = as_text(told.get("channel_id")), as_text(told.get("ts"))
    addresses = as_text(told.get("from_url")), as_text(told.get("original_url")), link(channel, ts)
    return {found for address in addresses for found in LINK.findall(address)}


def carried(told: dict[str, Any], channel: str) -> set[str]:
    """The messages that one of this channel carries along: that it links to or shares, and the root
    of a reply that was sent to the channel as well."""
    found = set(LINK.findall(link(channel, as_text(as_dict(told.get("root")).get("ts")))))
    return found.union(*map(links_of, as_list(told.get("attachments"))))


def without_carried(told: dict[str, Any], channel: str, gone: Set[str]) -> dict[str, Any]:
    """The message without what it carries along of these."""
    kept = dict(told)
    if link(channel, as_text(as_dict(told.get("root")).get("ts"))) in gone:
        del kept["root"]
    if "attachments" in told:
        shown = as_list(told["attachments"])
        kept["attachments"] = [one for one in shown if links_of(one).isdisjoint(gone)]
    return kept


def messages_of(told: dict[str, Any]) -> set[tuple[str, str]]:
    """(channel, ts) of the messages that an event tells of, at whatever depth Slack puts them."""
    event = told.get("event", told)
    if not isinstance(event, dict):
        return set()
    found = set()
    for part in (event, event.get("message"), event.get("previous_message")):
        if isinstance(part, dict):
            found |= {(event.get("channel"), part.get(name)) for name in ("ts", "deleted_ts")}
    return {(a, b) for a, b in found if isinstance(a, str) and isinstance(b, str)}
