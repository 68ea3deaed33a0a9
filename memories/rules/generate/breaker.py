"""When an endpoint may be called: rate limits, a breaker, and what only a person can mend.

State in, state out; the row that keeps it is `models.Endpoint`, shared by all workers.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

MOST_FAILURES = 5  # in a row: then no call begins until a probe has been answered
LONGEST_PAUSE = timedelta(minutes=10)

RATE_LIMITED = "rate_limited"
DOWN = frozenset({"server_error", "connection", "timeout", "malformed"})
NEEDS_PERSON = frozenset({"out_of_credit", "unauthorised", "forbidden", "not_found"})
"""No credit, a wrong key, a missing model: somebody has to do something. A probe finds out when."""


class Refusal(StrEnum):
    """Why no call may begin now."""

    RATE_LIMITED = "rate_limited"
    BREAKER_OPEN = "breaker_open"
    NEEDS_PERSON = "needs_person"


def back_off(base: timedelta, attempt: int, luck: float) -> timedelta:
    """The pause after the nth failure: doubled each time, and spread so that those who failed
    together do not come back together. ``luck`` is a random number from 0 to 1."""
    doubled: timedelta = base * 2 ** min(max(attempt, 1) - 1, 20)
    return min(doubled, LONGEST_PAUSE) * (0.5 + luck)


@dataclass(frozen=True)
class Breaker:
    """What is known of an endpoint. Each word returns the next state."""

    NAMES: ClassVar = (
        "not_before",
        "failures",
        "rate_limits",
        "open_until",
        "openings",
        "needs_person",
        "probing_until",
        "fault",
        "fault_text",
    )

    not_before: datetime | None = None
    failures: int = 0  # in a row
    rate_limits: int = 0  # in a row
    open_until: datetime | None = None
    openings: int = 0  # in a row
    needs_person: bool = False
    probing_until: datetime | None = None
    fault: str = ""
    fault_text: str = ""

    def refusal(self, now: datetime) -> tuple[Refusal, datetime | None] | None:
        """Why no call may begin, and until when; None when one may."""
        if self.needs_person and (self.open_until is None or self.open_until > now):
            return Refusal.NEEDS_PERSON, self.open_until
        if self.not_before is not None and self.not_before > now:
            return Refusal.RATE_LIMITED, self.not_before
        if self.open_until is not None and self.open_until > now:
            return Refusal.BREAKER_OPEN, self.open_until
        if self._is_open and self.probing_until is not None and self.probing_until > now:
            # Half open: one probe at a time.
            why = Refusal.NEEDS_PERSON if self.needs_person else Refusal.BREAKER_OPEN
            return why, self.probing_until
        return None

    @property
    def _is_open(self) -> bool:
        return self.needs_person or self.failures >= MOST_FAILURES

    def began(self, now: datetime, lease: timedelta) -> "Breaker":
        """A call begins: the first one after a pause is the probe that the others wait for."""
        return replace(self, probing_until=now + lease) if self._is_open else self

    def answered(self) -> "Breaker":
        """The endpoint gave an answer, whatever that is worth. To a call from before it asked to
        wait, or before a person was needed, perhaps: these stay, unless a probe was under way."""
        if self.needs_person and self.probing_until is None:
            return self
        return Breaker(not_before=self.not_before)

    def failed(
        self,
        code: str,
        text: str,
        now: datetime,
        *,
        retry_after: float | None,
        pause: timedelta,
        luck: float,
    ) -> "Breaker":
        """A call ended without an answer. ``retry_after`` in seconds, as the endpoint asked."""
        if self.needs_person and code not in NEEDS_PERSON and self.probing_until is None:
            return self
        if code == RATE_LIMITED:
            # Those that were under way together are one limit, not many.
            told_already = self.not_before is not None and self.not_before > now
            count = self.rate_limits + (not told_already)
            wait = back_off(pause, count, luck)
            if retry_after is not None:
                wait = timedelta(seconds=retry_after)
            until = max(self.not_before or now, now + wait)
            told = replace(self, not_before=until, rate_limits=count, probing_until=None)
            return replace(told, fault=code, fault_text=text)
        if code in NEEDS_PERSON:
            told = replace(self, needs_person=True, fault=code, fault_text=text)
        elif code in DOWN:
            told = replace(self, failures=self.failures + 1)
            if not self.needs_person:  # else this was a probe: its reason stays
                told = replace(told, fault=code, fault_text=text)
        else:
            return self.answered()
        if not told._is_open or (self.open_until is not None and self.open_until > now):
            return told
        longer = min(pause * 2 ** min(self.openings, 20), LONGEST_PAUSE)
        return replace(
            told, open_until=now + longer, openings=self.openings + 1, probing_until=None
        )
