"""Roles given and taken: a table."""

import pytest

from memories.rules.access.roles import LAST_ADMIN, SELF, effective_role, find_role_error


@pytest.mark.parametrize(
    ("who", "before", "after", "other_admins", "why"),
    [
        ("another", "", "admin", 0, ""),
        ("another", "member", "guest", 0, ""),
        ("another", "admin", "editor", 1, ""),
        ("another", "admin", "editor", 0, LAST_ADMIN),
        ("another", "admin", "", 0, LAST_ADMIN),
        ("another", "admin", "admin", 0, ""),
        ("self", "", "member", 5, SELF),
        ("self", "guest", "member", 5, SELF),
        ("self", "editor", "admin", 5, SELF),
        ("self", "admin", "member", 1, ""),
        ("self", "admin", "member", 0, LAST_ADMIN),
        ("self", "editor", "editor", 0, ""),
    ],
)
def test_a_change_of_a_role(who: str, before: str, after: str, other_admins: int, why: str) -> None:
    error = find_role_error(
        is_self=who == "self", before=before, after=after, other_admins=other_admins
    )
    assert error == why


@pytest.mark.parametrize(
    ("given", "by_slack", "expected"),
    [
        ("", [], ""),
        ("admin", [], "admin"),
        ("", ["guest", "member"], "member"),
        ("editor", ["member"], "editor"),
        ("guest", ["member"], "guest"),
        ("admin", ["guest"], "guest"),
        ("admin", ["", "guest"], "guest"),
        ("admin", [""], ""),
        ("admin", ["", "member"], "admin"),
    ],
)
def test_of_a_role_and_slacks_word_the_stricter_counts(given, by_slack, expected):
    assert effective_role(given, by_slack) == expected
