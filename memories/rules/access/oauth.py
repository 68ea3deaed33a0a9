"""Addresses in OAuth: those of apps, and those that an access token is for."""

import re
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MAX_ADDRESS_LENGTH = 1_000  # characters
_VISIBLE = re.compile(r"[!-~]+")


def is_redirect_allowed(uri: str, hosts: Collection[str]) -> bool:
    """Whether an app may have its answers sent to this address.

    It is an https address of one of the hosts, or an http address of the person's own machine.
    """
    if len(uri) > MAX_ADDRESS_LENGTH or not _VISIBLE.fullmatch(uri) or set(uri) & set("*\\#@"):
        return False
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port  # a port that is no number raises ValueError
    except ValueError:
        return False
    if parts.scheme == "http":
        return host is not None and parts.netloc.removesuffix(f":{parts.port}") in LOOPBACK
    return parts.scheme == "https" and parts.netloc in hosts


def origin_of(uri: str) -> str:
    """Return the scheme and the host of an address."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"


def covers(resources: Iterable[str], url: str) -> bool:
    """Whether one of the addresses that a token is for is the URL, or a folder above it."""
    return any(url == each or url.startswith(f"{each.rstrip('/')}/") for each in resources)
