"""OAuth scopes that the Slack app needs, and the feature that needs each."""

from collections.abc import Iterable
from enum import StrEnum

from memories.rules.settings import MemorySettings


class Feature(StrEnum):
    """What a scope allows, and what does not work without it."""

    CHANNELS = "channels"
    MESSAGES = "messages"
    PEOPLE = "people"
    PRIVATE_CHANNELS = "private_channels"
    PRIVATE_MESSAGES = "private_messages"
    EMAILS = "emails"
    COMMANDS = "commands"
    REACTIONS = "reactions"
    ANSWERS = "answers"
    LINKS = "links"
    PREVIEWS = "previews"
    SLACKBOT = "slackbot"


ALWAYS = {
    "channels:history": Feature.MESSAGES,
    "channels:read": Feature.CHANNELS,
    "users:read": Feature.PEOPLE,
}
# Setting of a workspace → the scopes that it needs.
FOR_SETTING = {
    "read_private_channels": {
        "groups:history": Feature.PRIVATE_MESSAGES,
        "groups:read": Feature.PRIVATE_CHANNELS,
    },
    "read_emails": {"users:read.email": Feature.EMAILS},
    "slack_commands": {"commands": Feature.COMMANDS},
    "slack_shortcuts": {"commands": Feature.COMMANDS},
    "slack_reaction": {"chat:write": Feature.ANSWERS, "reactions:read": Feature.REACTIONS},
    "slack_unfurls": {"links:read": Feature.LINKS, "links:write": Feature.PREVIEWS},
    "slack_digests": {"chat:write": Feature.ANSWERS},
    "slack_mcp": {"mcp:connect": Feature.SLACKBOT},
}


def required_scopes(settings: MemorySettings) -> dict[str, Feature]:
    """Return scopes and their features for a workspace with these settings."""
    scopes = dict(ALWAYS)
    for name, for_setting in FOR_SETTING.items():
        if getattr(settings, name):
            scopes |= for_setting
    return scopes


def compare_scopes(
    granted: Iterable[str], settings: MemorySettings
) -> tuple[dict[str, Feature], list[str]]:
    """Return required scopes that were not granted, with their features, and ones to remove."""
    granted_scopes = set(granted)
    required = required_scopes(settings)
    missing = {scope: feature for scope, feature in required.items() if scope not in granted_scopes}
    return missing, sorted(granted_scopes - set(required))
