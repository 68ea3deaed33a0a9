"""What a job waits for, and what a whole installation or workspace is held up by: one word each."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from memories.rules.generate.breaker import Breaker, Refusal

OVER_CAP = "over_cap"
WORTH_TELLING = timedelta(seconds=60)  # a shorter rate limit is everyday life


class Wait(StrEnum):
    """Why a job is not done yet. "" in a job that is."""

    TURN = "turn"  # a worker takes it next
    RUNNING = "running"
    NO_WORKER = "worker_gone"  # its worker's lease is over: it is taken up again
    LATER = "later"  # after a fault, not before a moment
    CAP = "cap"
    ENDPOINT = "endpoint"  # takes no call now
    BACKFILL = "backfill"  # its backfill is paused, or was cancelled
    PERSON = "person"  # a proposal: accept or reject it
    RETRY = "retry"  # given up: until a person retries it


@dataclass(frozen=True)
class JobStatus:
    """What is known of one: its state and what may hold it."""

    state: str
    fault: str = ""
    not_before: datetime | None = None
    lease_until: datetime | None = None
    backfill_state: str = ""


def waits_for(job: JobStatus, now: datetime, *, endpoint_closed: bool) -> Wait | None:
    """None: it waits for nothing, it is over."""
    if job.state == "proposed":
        return Wait.PERSON
    if job.state == "dead":
        return Wait.RETRY
    if job.state == "claimed":
        is_gone = job.lease_until is not None and job.lease_until < now
        return Wait.NO_WORKER if is_gone else Wait.RUNNING
    if job.state not in ("waiting", "replied"):
        return None
    if job.backfill_state not in ("", "running") and job.state == "waiting":
        return Wait.BACKFILL
    if job.not_before is not None and job.not_before > now:
        return Wait.CAP if job.fault == OVER_CAP else Wait.LATER
    return Wait.ENDPOINT if endpoint_closed and job.state == "waiting" else Wait.TURN


class Status(StrEnum):
    """What a page says of a job: what it does now, whatever happened to it before."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    DONE = "done"
    DONE_WITH_ERRORS = "done_with_errors"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REPLACED = "replaced"  # what was owed is made otherwise


_STATUS_OF_WAIT = {
    Wait.TURN: Status.QUEUED,
    Wait.RUNNING: Status.RUNNING,
    Wait.NO_WORKER: Status.QUEUED,
    Wait.LATER: Status.WAITING,
    Wait.CAP: Status.WAITING,
    Wait.ENDPOINT: Status.WAITING,
    Wait.BACKFILL: Status.PAUSED,
    Wait.PERSON: Status.WAITING,
    Wait.RETRY: Status.FAILED,
}
_STATUS_OF_END = {
    "superseded": Status.REPLACED,
    "rejected": Status.CANCELLED,
    "cancelled": Status.CANCELLED,
}


def status_of(state: str, wait: Wait | None, *, has_errors: bool = False) -> Status:
    """``has_errors``: it was made, though not of everything or not with every line."""
    if state == "replied" and wait is Wait.TURN:
        return Status.RUNNING  # its answer is being saved
    if wait is not None:
        return _STATUS_OF_WAIT[wait]
    done = Status.DONE_WITH_ERRORS if has_errors else Status.DONE
    return _STATUS_OF_END.get(state, done)


@dataclass(frozen=True)
class Trouble:
    """What keeps memories from being made. ``until`` None: until a person does something."""

    why: str  # a Refusal, or OVER_CAP
    fault: str = ""  # of the endpoint
    until: datetime | None = None


def trouble(
    breaker: Breaker | None, capped_until: datetime | None, now: datetime
) -> Trouble | None:
    """The one thing to tell a reader, the endpoint's first: under it no cap is ever reached."""
    refused = breaker.refusal(now) if breaker else None
    if breaker is not None and refused is not None:
        why, until = refused
        is_short = (
            why == Refusal.RATE_LIMITED and until is not None and until - now <= WORTH_TELLING
        )
        if not is_short:
            return Trouble(why, breaker.fault, until)
    if capped_until is not None and capped_until > now:
        return Trouble(OVER_CAP, until=capped_until)
    return None
