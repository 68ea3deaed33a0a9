"""OAuth scopes that the Slack app needs, and the feature that needs each."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Feature(StrEnum):
    """What a scope allows, and what does not work without it."""

    CHANNELS = "channels"
    MESSAGES = "messages"
    PEOPLE = "people"
    PRIVATE_CHANNELS = "private_channels"
    PRIVATE_MESSAGES = "private_messages"
    EMAILS = "emails"


ALWAYS = {
    "channels:history": Feature.MESSAGES,
    "channels:read": Feature.CHANNELS,
    "users:read": Feature.PEOPLE,
}
FOR_PRIVATE_CHANNELS = {
    "groups:history": Feature.PRIVATE_MESSAGES,
    "groups:read": Feature.PRIVATE_CHANNELS,
}
FOR_EMAILS = {"users:read.email": Feature.EMAILS}


def required_scopes(*, private_channels: bool, emails: bool) -> dict[str, Feature]:
    """Return scopes and their features for a workspace with these settings."""
    return (
        ALWAYS | (FOR_PRIVATE_CHANNELS if private_channels else {}) | (FOR_EMAILS if emails else {})
    )


@dataclass(frozen=True)
class ScopeDifference:
    """Required scopes that were not granted, with their features, and granted ones to remove."""

    missing: dict[str, Feature]
    surplus: list[str]


def compare_scopes(
    granted: Iterable[str], *, private_channels: bool, emails: bool
) -> ScopeDifference:
    granted_scopes = set(granted)
    required = required_scopes(private_channels=private_channels, emails=emails)
    missing = {scope: feature for scope, feature in required.items() if scope not in granted_scopes}
    return ScopeDifference(missing, sorted(granted_scopes - set(required)))
