"""Decide whether a model call fits under a limit in tokens and in money."""

from dataclasses import dataclass, replace
from datetime import datetime

MICROS = 1_000_000  # money is kept in millionths of a dollar, so that sums stay exact


@dataclass(frozen=True)
class Limit:
    """The limit of a budget or a backfill, and its use up to now, with reservations.

    None: no limit in that unit. ``until`` is the end of the period, None without one.
    """

    name: str
    tokens: int | None
    micros: int | None
    used_tokens: int
    used_micros: int
    until: datetime | None

    def without(self, tokens: int, micros: int) -> "Limit":
        """Return the limit as if so much of its use were free."""
        return replace(
            self, used_tokens=self.used_tokens - tokens, used_micros=self.used_micros - micros
        )


def find_limit_error(tokens: int, micros: int | None, limit: Limit) -> str:
    """Return why a call of at most so many tokens may not begin, "" if it may.

    ``micros`` is its price in millionths of a dollar, None for a model without a price. A limit in
    money refuses such a model.
    """
    if limit.tokens is not None and limit.used_tokens + tokens > limit.tokens:
        return f"{limit.name}: this call may need {tokens} tokens, and fewer are left."
    if limit.micros is None:
        return ""
    if micros is None:
        return f"{limit.name}: a budget in dollars needs a price of the model, which is missing."
    if limit.used_micros + micros > limit.micros:
        return f"{limit.name}: this call may need ${micros / MICROS:,.4f}, and less is left."
    return ""
