"""Addresses of messages in Slack."""

import re
from collections.abc import Iterator

from memories.rules.json_values import as_dict, as_dicts, as_text

# Slack's address of a message, and ours.
_MESSAGE = re.compile(
    r"/archives/(?P<channel>[A-Z0-9]{2,32})/p(?P<seconds>\d{10})(?P<rest>\d{6})"
    r"|/c/(?P<our_channel>[A-Z0-9]{2,32})/\S*?(?:around=|#msg-)(?P<ts>\d{1,12}\.\d{1,6})",
    re.ASCII,
)
_SLACK_URL = re.compile(
    r"https://([a-z0-9][a-z0-9-]{0,62})\.slack\.com/(?:files|archives)/", re.ASCII
)
DOMAIN = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def normalize_domain(text: str) -> str:
    """Return ``acme`` of ``acme``, ``acme.slack.com`` or ``https://acme.slack.com/``."""
    return text.strip().lower().removeprefix("https://").rstrip("/").removesuffix(".slack.com")


def permalink(domain: str, channel_id: str, ts: str, thread_ts: str) -> str:
    """Return the address that "Copy link" gives in Slack, "" without a ``domain``.

    ``domain`` is the part before .slack.com. The address of a reply also names its thread.
    """
    if not domain:
        return ""
    address = f"https://{domain}.slack.com/archives/{channel_id}/p{ts.replace('.', '')}"
    if thread_ts and thread_ts != ts:
        address += f"?thread_ts={thread_ts}&cid={channel_id}"
    return address


def find_permalinks(text: str) -> list[tuple[str, str]]:
    """Return the channel and ``ts`` of each message whose address is in the text."""
    return [
        (match["our_channel"], match["ts"])
        if match["ts"]
        else (match["channel"], f"{match['seconds']}.{match['rest']}")
        for match in _MESSAGE.finditer(text)
    ]


def find_domains(raw: object) -> Iterator[str]:
    """Yield the Slack domains in the addresses of a message's files and previews.

    Slack writes these addresses itself. Addresses that people type are not read.
    """
    message = as_dict(raw)
    addresses = [file.get("permalink") for file in as_dicts(message.get("files"))]
    addresses += [attachment.get("from_url") for attachment in as_dicts(message.get("attachments"))]
    for address in addresses:
        if match := _SLACK_URL.match(as_text(address)):
            yield match[1]
