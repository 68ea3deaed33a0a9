"""Required scopes of the Slack app."""

import pytest

from memories.rules.settings import MemorySettings
from memories.rules.sync.scopes import compare_scopes, required_scopes

PUBLIC = ["channels:history", "channels:read", "users:read"]
PRIVATE = ["groups:history", "groups:read"]
EMAILS = ["users:read.email"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (MemorySettings(), PUBLIC),
        (MemorySettings(read_private_channels=True), PUBLIC + PRIVATE),
        (MemorySettings(read_emails=True), PUBLIC + EMAILS),
        (MemorySettings(slack_commands=True, slack_shortcuts=True), [*PUBLIC, "commands"]),
        (MemorySettings(slack_home=True), PUBLIC),
        (
            MemorySettings(slack_reaction=True, slack_unfurls=True),
            [*PUBLIC, "chat:write", "reactions:read", "links:read", "links:write"],
        ),
    ],
)
def test_required_scopes_follow_the_settings(settings: MemorySettings, expected: list[str]) -> None:
    assert sorted(required_scopes(settings)) == sorted(expected)
    assert compare_scopes(expected, settings) == ({}, [])
    missing, _ = compare_scopes([], settings)
    assert set(missing) == set(expected)


def test_surplus_scopes_are_listed() -> None:
    granted = [*PUBLIC, "im:history", "groups:read", "chat:write"]
    _, surplus = compare_scopes(granted, MemorySettings())
    assert surplus == ["chat:write", "groups:read", "im:history"]
