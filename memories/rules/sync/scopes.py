"""What the app in Slack must be allowed, and no more: scopes by what needs them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """What a scope is for, and what stands still without it."""

    CHANNELS = "channels"
    MESSAGES = "messages"
    PEOPLE = "people"
    PRIVATE_CHANNELS = "private_channels"
    PRIVATE_MESSAGES = "private_messages"
    EMAILS = "emails"


ALWAYS = {
    "channels:history": Part.MESSAGES,
    "channels:read": Part.CHANNELS,
    "users:read": Part.PEOPLE,
}
FOR_PRIVATE_CHANNELS = {
    "groups:history": Part.PRIVATE_MESSAGES,
    "groups:read": Part.PRIVATE_CHANNELS,
}
FOR_EMAILS = {"users:read.email": Part.EMAILS}


def needed(*, private_channels: bool, emails: bool) -> dict[str, Part]:
    """Scope → what needs it, for a workspace with these switches."""
    return (
        ALWAYS | (FOR_PRIVATE_CHANNELS if private_channels else {}) | (FOR_EMAILS if emails else {})
    )


@dataclass(frozen=True)
class Grant:
    """``missing``: scope → what stands still; ``surplus``: what the app may and nothing asks for."""

    missing: dict[str, Part]
    surplus: list[str]


def compare(granted: Iterable[str], *, private_channels: bool, emails: bool) -> Grant:
    held = set(granted)
    wanted = needed(private_channels=private_channels, emails=emails)
    missing = {scope: part for scope, part in wanted.items() if scope not in held}
    return Grant(missing, sorted(held - set(wanted)))
