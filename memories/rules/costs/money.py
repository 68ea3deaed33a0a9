"""Whether a call still fits under a limit, in tokens and in millionths of a dollar."""

from dataclasses import dataclass
from datetime import datetime

MICROS = 1_000_000  # money is kept in millionths of a dollar, so that sums stay exact


@dataclass(frozen=True)
class Asked:
    """The most that a call can use. ``micros`` None: its model has no price."""

    tokens: int
    micros: int | None


@dataclass(frozen=True)
class Limit:
    """A cap (None: none of that unit), what is used of it or promised, and until when it counts."""

    name: str
    tokens: int | None
    micros: int | None
    used_tokens: int
    used_micros: int
    until: datetime | None


def refusal(asked: Asked, limit: Limit) -> str:
    """Why the call may not begin, "" when it may. Without a price no cap in money can be kept, so
    nothing is spent under one."""
    if limit.tokens is not None and limit.used_tokens + asked.tokens > limit.tokens:
        return f"{limit.name}: this call may need {asked.tokens} tokens, and less is left."
    if limit.micros is None:
        return ""
    if asked.micros is None:
        return f"{limit.name}: a cap in dollars needs a price for the model, and there is none."
    if limit.used_micros + asked.micros > limit.micros:
        return f"{limit.name}: this call may need {_dollars(asked.micros)}, and less is left."
    return ""


def _dollars(micros: int) -> str:
    return f"${micros / MICROS:,.4f}"
