"""The wait reason and the status of a job, and conditions that block all jobs."""

from datetime import timedelta
from typing import Any

import pytest

from memories.rules.generate.circuit_breaker import CircuitBreaker, Refusal
from memories.rules.generate.job_status import (
    OVER_BUDGET,
    Blocker,
    Status,
    WaitReason,
    find_blocker,
    find_wait_reason,
    status_of,
)
from tests.factories import MONDAY as NOW

SOON, PAST = NOW + timedelta(minutes=5), NOW - timedelta(seconds=1)
MOMENT = NOW + timedelta(seconds=60)
LATE, PAUSED = {"retry_at": SOON}, {"backfill_state": "paused"}


@pytest.mark.parametrize(
    ("state", "facts", "reason", "status"),
    [
        ("waiting", {}, WaitReason.TURN, Status.QUEUED),
        ("waiting", LATE, WaitReason.LATER, Status.WAITING),
        ("waiting", {"retry_at": PAST}, WaitReason.TURN, Status.QUEUED),
        ("waiting", LATE | {"fault": OVER_BUDGET}, WaitReason.BUDGET, Status.WAITING),
        ("waiting", {"backfill_state": "running"}, WaitReason.TURN, Status.QUEUED),
        ("waiting", PAUSED, WaitReason.BACKFILL, Status.PAUSED),
        ("waiting", LATE | PAUSED, WaitReason.BACKFILL, Status.PAUSED),
        ("waiting", {"is_endpoint_closed": True}, WaitReason.ENDPOINT, Status.WAITING),
        ("claimed", {"lease_until": SOON} | PAUSED, WaitReason.RUNNING, Status.RUNNING),
        ("claimed", {"lease_until": PAST}, WaitReason.NO_WORKER, Status.QUEUED),
        ("replied", {}, WaitReason.TURN, Status.RUNNING),
        ("replied", LATE, WaitReason.LATER, Status.WAITING),
        ("replied", {"backfill_state": "cancelled"}, WaitReason.TURN, Status.RUNNING),
        ("replied", {"is_endpoint_closed": True}, WaitReason.TURN, Status.RUNNING),
        ("proposed", {}, WaitReason.PERSON, Status.WAITING),
        ("dead", LATE | {"is_endpoint_closed": True}, WaitReason.RETRY, Status.FAILED),
        ("done", {"is_endpoint_closed": True}, None, Status.DONE),
        ("superseded", {}, None, Status.REPLACED),
        ("rejected", {}, None, Status.CANCELLED),
        ("cancelled", {}, None, Status.CANCELLED),
    ],
)
def test_wait_reason_and_status_of_a_job(
    state: str, facts: dict[str, Any], reason: WaitReason | None, status: Status
) -> None:
    assert find_wait_reason(state, NOW, **facts) is reason
    assert status_of(state, reason) is status


@pytest.mark.parametrize(
    ("breaker", "over_budget_until", "expected"),
    [
        (None, None, None),
        (CircuitBreaker(), None, None),
        (CircuitBreaker(failures=4, fault="timeout"), None, None),
        (CircuitBreaker(retry_at=MOMENT, fault="rate_limited"), None, None),
        (
            CircuitBreaker(retry_at=SOON, fault="rate_limited"),
            None,
            Blocker(Refusal.RATE_LIMITED, "rate_limited", SOON),
        ),
        (
            CircuitBreaker(failures=5, open_until=SOON, fault="timeout"),
            None,
            Blocker(Refusal.BREAKER_OPEN, "timeout", SOON),
        ),
        (
            CircuitBreaker(failures=5, open_until=PAST, half_open_until=MOMENT, fault="timeout"),
            None,
            Blocker(Refusal.BREAKER_OPEN, "timeout", MOMENT),
        ),
        (
            CircuitBreaker(needs_person=True, fault="forbidden"),
            SOON,
            Blocker(Refusal.NEEDS_PERSON, "forbidden"),
        ),
        (CircuitBreaker(), SOON, Blocker(OVER_BUDGET, "", SOON)),
        (CircuitBreaker(retry_at=MOMENT), SOON, Blocker(OVER_BUDGET, "", SOON)),
        (CircuitBreaker(), PAST, None),
    ],
)
def test_find_blocker(breaker, over_budget_until, expected) -> None:
    assert find_blocker(breaker, over_budget_until, NOW) == expected


def test_only_a_job_that_is_done_has_errors() -> None:
    assert status_of("done", None, has_errors=True) is Status.DONE_WITH_ERRORS
    assert status_of("claimed", WaitReason.RUNNING, has_errors=True) is Status.RUNNING
    assert status_of("superseded", None, has_errors=True) is Status.REPLACED
