"""Roles from the claims of a sign-in with an OpenID Connect provider."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memories.rules.access.roles import RANKS

OPERATOR = "operator"


@dataclass(frozen=True)
class ClaimRole:
    """People whose ``claim`` is ``value``, or a list that contains it, have this role."""

    claim: str
    value: str
    role: str


def parse_claim_roles(text: str) -> tuple[ClaimRole, ...]:
    """Parse `groups:admins=admin,groups:staff=member`. Raises ValueError with a sentence.

    A claim may contain colons, like a URL, or dots for an object inside an object.
    """
    parsed = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        left, _, role = part.rpartition("=")
        claim, _, value = left.rpartition(":")
        if not claim or not value or role not in (*RANKS[1:], OPERATOR):
            roles = ", ".join((*RANKS[1:], OPERATOR))
            raise ValueError(f"{part!r} is not like claim:value=role, with a role of {roles}.")
        parsed.append(ClaimRole(claim, value, role))
    return tuple(parsed)


def roles_from_claims(claims: Mapping[str, Any], rules: Iterable[ClaimRole]) -> tuple[str, bool]:
    """Return the highest role of a workspace ("": none), and whether the person is an operator."""
    roles = {rule.role for rule in rules if rule.value in _values(claims, rule.claim)}
    return max(roles - {OPERATOR}, key=RANKS.index, default=""), OPERATOR in roles


def _values(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a claim. `realm.roles` may be the claim `roles` inside `realm`."""
    value: Any = claims
    if name in claims:
        value = claims[name]
    else:
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]
