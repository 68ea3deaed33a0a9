"""What somebody is in a workspace, and who may give or take which role: nobody raises themselves, and
no last one is taken away."""

from collections.abc import Collection

RANKS = ("", "guest", "member", "editor", "admin")  # "": an outsider

SELF, LAST_ADMIN, LAST_OPERATOR = "self", "last_admin", "last_operator"


def in_effect(given: str, by_slack: Collection[str]) -> str:
    """What an account is, by the role that it was given ("" for none) and by what Slack makes of
    each of its people there. Where these say different things the stricter counts: a guest in Slack
    is one with any role, and who left Slack is nothing by a role."""
    best = max(by_slack, key=RANKS.index, default="")
    if not given or (by_slack and best != "member"):
        return best
    return given


def refusal(*, is_self: bool, before: str, after: str, other_admins: int) -> str:
    """Why this change is not made, "" when it is. ``before`` and ``after`` are what the account is
    in effect, by its row here or by what Slack says; ``other_admins`` those who would be left."""
    if is_self and RANKS.index(after) > RANKS.index(before):
        return SELF
    if before == "admin" and after != "admin" and not other_admins:
        return LAST_ADMIN
    return ""
