"""The messages that a Slack object refers to: an event's body, or a message as it was sent."""

import json
import re
from collections.abc import Iterator, Set
from typing import Any

from memories.rules.json_values import as_dict, as_list, as_text

TS = re.compile(r"\d{10}\.\d{6}")
LINK = re.compile(r"/archives/[A-Z0-9]+/p\d{16}")


def load_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; return {} when the text is none."""
    try:
        return as_dict(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def iter_strings(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        yield from iter_strings(item)


def permalink_path(channel: str, ts: str) -> str:
    """Return the path of a message's permalink."""
    return f"/archives/{channel}/p{ts.replace('.', '')}"


def parse_permalink_path(path: str) -> tuple[str, str]:
    """Return (channel, ts) of a permalink's path."""
    _, _, channel, ts = path.split("/")
    return channel, f"{ts[1:11]}.{ts[11:]}"


def attachment_links(attachment: Any) -> set[str]:
    """Return the permalink paths of the messages that an attachment shows."""
    shown = as_dict(attachment)
    path = permalink_path(as_text(shown.get("channel_id")), as_text(shown.get("ts")))
    addresses = as_text(shown.get("from_url")), as_text(shown.get("original_url")), path
    return {link for address in addresses for link in LINK.findall(address)}


def may_embed(raw: str) -> bool:
    """Return whether the raw data of a message may contain other messages."""
    return '"attachments"' in raw or '"root"' in raw


def embedded_links(message: dict[str, Any], channel: str) -> set[str]:
    """Return the permalink paths of the messages that a message of this channel contains.

    These are linked and shared messages, and the root of a reply that was also sent to the channel.
    """
    links = set(LINK.findall(_root_path(message, channel)))
    return links.union(*map(attachment_links, as_list(message.get("attachments"))))


def remove_embedded(message: dict[str, Any], channel: str, links: Set[str]) -> dict[str, Any]:
    """Return the message without the messages in it that have these permalink paths."""
    kept = dict(message)
    if _root_path(message, channel) in links:
        del kept["root"]
    if "attachments" in message:
        attachments = as_list(message["attachments"])
        kept["attachments"] = [
            attachment
            for attachment in attachments
            if attachment_links(attachment).isdisjoint(links)
        ]
    return kept


def _root_path(message: dict[str, Any], channel: str) -> str:
    return permalink_path(channel, as_text(as_dict(message.get("root")).get("ts")))


def event_messages(body: dict[str, Any]) -> set[tuple[str, str]]:
    """Return (channel, ts) of every message that an event's body refers to."""
    event = body.get("event", body)
    if not isinstance(event, dict):
        return set()
    keys = set()
    for part in (event, event.get("message"), event.get("previous_message")):
        if isinstance(part, dict):
            keys |= {(event.get("channel"), part.get(name)) for name in ("ts", "deleted_ts")}
    return {
        (channel, ts) for channel, ts in keys if isinstance(channel, str) and isinstance(ts, str)
    }
