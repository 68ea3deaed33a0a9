"""Signatures, addresses and retries of webhooks, in the form of Standard Webhooks."""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

# The pause after each failed try. A delivery that failed six times ends.
PAUSES = tuple(timedelta(seconds=n) for n in (30, 300, 1_800, 7_200, 21_600))
MAX_TRIES = len(PAUSES) + 1


def next_try(tries: int, now: datetime) -> datetime | None:
    """The time of the next try after so many failed ones, None after the last."""
    return now + PAUSES[tries - 1] if tries < MAX_TRIES else None


def sign(keys: Iterable[bytes], message_id: str, timestamp: int, body: str) -> str:
    """The value of ``webhook-signature``: one signature for each key, separated by spaces."""
    content = f"{message_id}.{timestamp}.{body}".encode()
    signatures = (hmac.new(key, content, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(signature).decode()}" for signature in signatures)


def host_of(url: str) -> str:
    """The lower-case host of an http or https address. Raise ValueError for any other address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError("A webhook needs an http or https address without a user name.")
    _ = parts.port  # raises ValueError for a number that is no port
    return parts.hostname.lower()


def is_public(address: str) -> bool:
    """Whether an IP address is reachable from the whole internet, so that no internal service is called."""
    ip = ip_address(address)
    mapped = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None)
    return ip.is_global and not ip.is_multicast and (mapped is None or mapped.is_global)
