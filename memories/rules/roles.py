"""Who may give or take which role: nobody raises themselves, and no last one is taken away."""

RANKS = ("", "guest", "member", "editor", "admin")  # "": an outsider

SELF, LAST_ADMIN, LAST_OPERATOR = "self", "last_admin", "last_operator"


def refusal(*, is_self: bool, before: str, after: str, other_admins: int) -> str:
    """Why this change is not made, "" when it is. ``before`` and ``after`` are what the account is
    in effect, by its row here or by what Slack says; ``other_admins`` those who would be left."""
    if is_self and RANKS.index(after) > RANKS.index(before):
        return SELF
    if before == "admin" and after != "admin" and not other_admins:
        return LAST_ADMIN
    return ""
