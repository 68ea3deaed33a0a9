"""What a job waits for, the status that a page shows, and what blocks all jobs of a workspace."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from memories.rules.generate.circuit_breaker import CircuitBreaker, Refusal

OVER_BUDGET = "over_budget"
_SHORT_RATE_LIMIT = timedelta(seconds=60)  # a rate limit up to this long is not reported


class WaitReason(StrEnum):
    """Why a job is not done yet. A job that is done has none."""

    TURN = "turn"  # a worker takes it next
    RUNNING = "running"
    NO_WORKER = "worker_gone"  # the lease has ended: another worker takes it
    LATER = "later"  # backoff after a fault
    BUDGET = "budget"
    ENDPOINT = "endpoint"  # accepts no call now
    BACKFILL = "backfill"  # paused or cancelled
    PERSON = "person"  # a proposal to approve or reject
    RETRY = "retry"  # failed, until a person retries it


def find_wait_reason(
    state: str,
    now: datetime,
    *,
    fault: str = "",
    retry_at: datetime | None = None,
    lease_until: datetime | None = None,
    backfill_state: str = "",
    is_endpoint_closed: bool = False,
) -> WaitReason | None:
    """Return what a job in this state waits for, or None when it has ended."""
    match state:
        case "proposed":
            return WaitReason.PERSON
        case "dead":
            return WaitReason.RETRY
        case "claimed":
            has_expired = lease_until is not None and lease_until < now
            return WaitReason.NO_WORKER if has_expired else WaitReason.RUNNING
        case "waiting" if backfill_state not in ("", "running"):
            return WaitReason.BACKFILL
        case "waiting" | "replied" if retry_at is not None and retry_at > now:
            return WaitReason.BUDGET if fault == OVER_BUDGET else WaitReason.LATER
        case "waiting" if is_endpoint_closed:
            return WaitReason.ENDPOINT
        case "waiting" | "replied":
            return WaitReason.TURN
    return None


class Status(StrEnum):
    """The status of a job on a page. Earlier faults do not count."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    DONE = "done"
    DONE_WITH_ERRORS = "done_with_errors"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REPLACED = "replaced"  # another job makes its output


_STATUS_OF_WAIT = {
    WaitReason.TURN: Status.QUEUED,
    WaitReason.RUNNING: Status.RUNNING,
    WaitReason.NO_WORKER: Status.QUEUED,
    WaitReason.LATER: Status.WAITING,
    WaitReason.BUDGET: Status.WAITING,
    WaitReason.ENDPOINT: Status.WAITING,
    WaitReason.BACKFILL: Status.PAUSED,
    WaitReason.PERSON: Status.WAITING,
    WaitReason.RETRY: Status.FAILED,
}
_STATUS_OF_END = {
    "superseded": Status.REPLACED,
    "rejected": Status.CANCELLED,
    "cancelled": Status.CANCELLED,
}


def status_of(state: str, wait: WaitReason | None, *, has_errors: bool = False) -> Status:
    """Return a job's status. ``has_errors``: its output lacks some of the input or some lines."""
    if state == "replied" and wait is WaitReason.TURN:
        return Status.RUNNING  # the reply is being saved
    if wait is not None:
        return _STATUS_OF_WAIT[wait]
    done = Status.DONE_WITH_ERRORS if has_errors else Status.DONE
    return _STATUS_OF_END.get(state, done)


@dataclass(frozen=True)
class Blocker:
    """What blocks all jobs. ``until`` is None when a person must act."""

    why: str  # a Refusal, or OVER_BUDGET
    fault: str = ""  # of the endpoint
    until: datetime | None = None


def find_blocker(
    breaker: CircuitBreaker | None, over_budget_until: datetime | None, now: datetime
) -> Blocker | None:
    """Return what blocks all jobs. The endpoint comes first: while it is closed, no budget is reached."""
    if breaker is not None and (refusal := breaker.find_refusal(now)):
        why, until = refusal
        is_short = until is not None and until - now <= _SHORT_RATE_LIMIT
        if not (why is Refusal.RATE_LIMITED and is_short):
            return Blocker(why, breaker.fault, until)
    if over_budget_until is not None and over_budget_until > now:
        return Blocker(OVER_BUDGET, until=over_budget_until)
    return None
