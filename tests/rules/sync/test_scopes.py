"""What the app must be allowed, by what is switched on."""

import pytest

from memories.rules.sync.scopes import compare, needed

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
def test_the_least_that_does(private: bool, emails: bool, expected: list[str]) -> None:
    assert sorted(needed(private_channels=private, emails=emails)) == sorted(expected)
    grant = compare(expected, private_channels=private, emails=emails)
    assert (grant.missing, grant.surplus) == ({}, [])
    assert set(compare([], private_channels=private, emails=emails).missing) == set(expected)


def test_more_than_is_asked_is_named() -> None:
    held = [*PUBLIC, "im:history", "groups:read", "chat:write"]
    assert compare(held, private_channels=False, emails=False).surplus == [
        "chat:write",
        "groups:read",
        "im:history",
    ]
