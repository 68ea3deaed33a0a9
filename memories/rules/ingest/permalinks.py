"""Where a message stands in Slack itself."""

import re
from collections.abc import Iterator
from typing import Any

from memories.rules.ingest.message_text import as_dict, as_text

_DOMAIN = re.compile(r"https://([a-z0-9][a-z0-9-]{0,62})\.slack\.com/(?:files|archives)/", re.ASCII)
DOMAIN = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def permalink(domain: str, channel_id: str, ts: str, thread_ts: str = "") -> str:
    """``acme``, ``C1``, ``1700000000.123456`` as the address that Slack's "Copy link" gives.

    A reply also names its thread. "" when the workspace's domain is not known.
    """
    if not domain:
        return ""
    address = f"https://{domain}.slack.com/archives/{channel_id}/p{ts.replace('.', '')}"
    if thread_ts and thread_ts != ts:
        address += f"?thread_ts={thread_ts}&cid={channel_id}"
    return address


def domains_in(raw: object) -> Iterator[str]:
    """Domains of the addresses that Slack itself wrote into a message: of its files, and of messages
    that it shows. What people type is not read."""
    message = as_dict(raw)
    addresses: list[Any] = [as_dict(file).get("permalink") for file in _items(message, "files")]
    addresses += [as_dict(one).get("from_url") for one in _items(message, "attachments")]
    for address in addresses:
        if found := _DOMAIN.match(as_text(address)):
            yield found[1]


def _items(message: dict[str, Any], name: str) -> list[Any]:
    value = message.get(name)
    return value if isinstance(value, list) else []
