"""Required scopes of the Slack app."""

import pytest

from memories.rules.sync.scopes import compare_scopes, required_scopes

PUBLIC = ["channels:history", "channels:read", "users:read"]
PRIVATE = ["groups:history", "groups:read"]
EMAILS = ["users:read.email"]


@pytest.mark.parametrize(
    ("private", "emails", "expected"),
    [
        (False, False, PUBLIC),
        (True, False, PUBLIC + PRIVATE),
        (False, True, PUBLIC + EMAILS),
        (True, True, PUBLIC + PRIVATE + EMAILS),
    ],
)
def test_required_scopes_follow_the_settings(
    private: bool, emails: bool, expected: list[str]
) -> None:
    assert sorted(required_scopes(private_channels=private, emails=emails)) == sorted(expected)
    grant = compare_scopes(expected, private_channels=private, emails=emails)
    assert (grant.missing, grant.surplus) == ({}, [])
    assert set(compare_scopes([], private_channels=private, emails=emails).missing) == set(expected)


def test_surplus_scopes_are_listed() -> None:
    granted = [*PUBLIC, "im:history", "groups:read", "chat:write"]
    assert compare_scopes(granted, private_channels=False, emails=False).surplus == [
        "chat:write",
        "groups:read",
        "im:history",
    ]
