"""The circuit breaker of an endpoint: rate limits, outages, and faults that a person must correct.

Pure state transitions. `models.Endpoint` keeps the state for all workers.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

MAX_FAILURES = 5  # in a row: then no call begins before a trial call succeeds
MAX_PAUSE = timedelta(minutes=10)

RATE_LIMITED = "rate_limited"
OUTAGES = frozenset({"server_error", "connection", "timeout", "malformed", "empty"})
OPERATOR_FAULTS = frozenset({"out_of_credit", "unauthorised", "forbidden", "not_found"})


class Refusal(StrEnum):
    """Why no call may begin now."""

    RATE_LIMITED = "rate_limited"
    BREAKER_OPEN = "breaker_open"
    NEEDS_PERSON = "needs_person"


def backoff_delay(base: timedelta, attempt: int, jitter: float) -> timedelta:
    """Return the delay after failure number ``attempt``: doubled each time, then spread.

    ``jitter`` is a random number from 0 to 1. It separates the retries of calls that failed together.
    """
    doubled: timedelta = base * 2 ** min(max(attempt, 1) - 1, 20)
    return min(doubled, MAX_PAUSE) * (0.5 + jitter)


@dataclass(frozen=True)
class CircuitBreaker:
    """The state of an endpoint. Each ``after_`` method returns the next state."""

    retry_at: datetime | None = None
    failures: int = 0  # in a row
    rate_limits: int = 0  # in a row
    open_until: datetime | None = None
    times_opened: int = 0  # in a row
    needs_person: bool = False
    half_open_until: datetime | None = None  # the end of the trial call's lease
    fault: str = ""
    fault_text: str = ""

    def find_refusal(self, now: datetime) -> tuple[Refusal, datetime | None] | None:
        """Return why no call may begin, and until when. None: a call may begin."""
        if self.needs_person and (self.open_until is None or self.open_until > now):
            return Refusal.NEEDS_PERSON, self.open_until
        if self.retry_at is not None and self.retry_at > now:
            return Refusal.RATE_LIMITED, self.retry_at
        if self.open_until is not None and self.open_until > now:
            return Refusal.BREAKER_OPEN, self.open_until
        if self._is_open and self.half_open_until is not None and self.half_open_until > now:
            # Half open: one trial call at a time.
            reason = Refusal.NEEDS_PERSON if self.needs_person else Refusal.BREAKER_OPEN
            return reason, self.half_open_until
        return None

    @property
    def _is_open(self) -> bool:
        return self.needs_person or self.failures >= MAX_FAILURES

    def after_start(self, now: datetime, lease: timedelta) -> "CircuitBreaker":
        """A call begins. The first call after a pause is the trial call."""
        return replace(self, half_open_until=now + lease) if self._is_open else self

    def after_answer(self) -> "CircuitBreaker":
        """The endpoint answered, with or without a usable reply.

        The answer may belong to a call from before a rate limit or before a fault for a person. So these
        stay, unless the call was a trial call.
        """
        if self.needs_person and self.half_open_until is None:
            return self
        return CircuitBreaker(retry_at=self.retry_at)

    def after_failure(
        self,
        code: str,
        text: str,
        now: datetime,
        *,
        retry_after: float | None,
        pause: timedelta,
        jitter: float,
    ) -> "CircuitBreaker":
        """A call ended without an answer. ``retry_after`` is the endpoint's own delay in seconds."""
        if self.needs_person and code not in OPERATOR_FAULTS and self.half_open_until is None:
            return self
        reported = replace(self, fault=code, fault_text=text)
        if code == RATE_LIMITED:
            # Calls that were under way together hit one limit, not several.
            count = self.rate_limits + (self.retry_at is None or self.retry_at <= now)
            delay = backoff_delay(pause, count, jitter)
            if retry_after is not None:
                delay = timedelta(seconds=retry_after)
            until = max(self.retry_at or now, now + delay)
            return replace(reported, retry_at=until, rate_limits=count, half_open_until=None)
        if code in OPERATOR_FAULTS:
            failed = replace(reported, needs_person=True)
        elif code in OUTAGES:
            # A failed trial call keeps the fault that a person must correct.
            failed = replace(self if self.needs_person else reported, failures=self.failures + 1)
        else:
            return self.after_answer()
        if not failed._is_open or (self.open_until is not None and self.open_until > now):
            return failed
        longer = min(pause * 2 ** min(self.times_opened, 20), MAX_PAUSE)
        return replace(
            failed,
            open_until=now + longer,
            times_opened=self.times_opened + 1,
            half_open_until=None,
        )
