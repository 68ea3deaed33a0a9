"""Roles in a workspace: which one counts, and which changes are refused.

Nobody raises their own role, and the last admin keeps theirs.
"""

from collections.abc import Collection

RANKS = ("", "guest", "member", "editor", "admin")  # "": an outsider

SELF, LAST_ADMIN, LAST_OPERATOR = "self", "last_admin", "last_operator"


def effective_role(given: str, slack_roles: Collection[str]) -> str:
    """Return the role of an account from its given role ("": none) and the roles of its people.

    The stricter one counts: a guest in Slack is a guest with any given role, and a person who left
    Slack is an outsider.
    """
    best = max(slack_roles, key=RANKS.index, default="")
    if not given or (slack_roles and best != "member"):
        return best
    return given


def find_role_error(*, is_self: bool, before: str, after: str, other_admins: int) -> str:
    """Return the reason against a change of effective roles, or "".

    ``other_admins`` is the number of admins who would remain.
    """
    if is_self and RANKS.index(after) > RANKS.index(before):
        return SELF
    if before == "admin" and after != "admin" and not other_admins:
        return LAST_ADMIN
    return ""
