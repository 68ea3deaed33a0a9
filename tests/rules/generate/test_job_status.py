"""What a job waits for, its status, and what blocks all jobs."""

from datetime import timedelta
from typing import Any

import pytest

from memories.rules.generate.circuit_breaker import CircuitBreaker, Refusal
from memories.rules.generate.job_status import (
    OVER_CAP,
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


@pytest.mark.parametrize(
    ("state", "facts", "reason"),
    [
        ("waiting", {}, WaitReason.TURN),
        ("waiting", {"not_before": SOON}, WaitReason.LATER),
        ("waiting", {"not_before": PAST}, WaitReason.TURN),
        ("waiting", {"fault": OVER_CAP, "not_before": SOON}, WaitReason.CAP),
        ("waiting", {"backfill_state": "running"}, WaitReason.TURN),
        ("waiting", {"backfill_state": "paused"}, WaitReason.BACKFILL),
        ("waiting", {"backfill_state": "paused", "not_before": SOON}, WaitReason.BACKFILL),
        ("waiting", {"is_endpoint_closed": True}, WaitReason.ENDPOINT),
        ("claimed", {"lease_until": SOON, "backfill_state": "paused"}, WaitReason.RUNNING),
        ("claimed", {"lease_until": PAST}, WaitReason.NO_WORKER),
        ("replied", {}, WaitReason.TURN),
        ("replied", {"not_before": SOON}, WaitReason.LATER),
        ("replied", {"backfill_state": "cancelled"}, WaitReason.TURN),
        ("replied", {"is_endpoint_closed": True}, WaitReason.TURN),
        ("proposed", {}, WaitReason.PERSON),
        ("dead", {"not_before": SOON, "is_endpoint_closed": True}, WaitReason.RETRY),
        ("done", {"is_endpoint_closed": True}, None),
        ("superseded", {}, None),
        ("rejected", {}, None),
        ("cancelled", {}, None),
    ],
)
def test_what_a_job_waits_for(state: str, facts: dict[str, Any], reason: WaitReason | None) -> None:
    assert find_wait_reason(state, NOW, **facts) is reason


@pytest.mark.parametrize(
    ("breaker", "capped_until", "expected"),
    [
        (None, None, None),
        (CircuitBreaker(), None, None),
        (CircuitBreaker(failures=4, fault="timeout"), None, None),
        (CircuitBreaker(not_before=MOMENT, fault="rate_limited"), None, None),
        (
            CircuitBreaker(not_before=SOON, fault="rate_limited"),
            None,
            Blocker(Refusal.RATE_LIMITED, "rate_limited", SOON),
        ),
        (
            CircuitBreaker(failures=5, open_until=SOON, fault="timeout"),
            None,
            Blocker(Refusal.BREAKER_OPEN, "timeout", SOON),
        ),
        (
            CircuitBreaker(failures=5, open_until=PAST, probing_until=MOMENT, fault="timeout"),
            None,
            Blocker(Refusal.BREAKER_OPEN, "timeout", MOMENT),
        ),
        (
            CircuitBreaker(needs_person=True, fault="forbidden"),
            SOON,
            Blocker(Refusal.NEEDS_PERSON, "forbidden"),
        ),
        (CircuitBreaker(), SOON, Blocker(OVER_CAP, "", SOON)),
        (CircuitBreaker(not_before=MOMENT), SOON, Blocker(OVER_CAP, "", SOON)),
        (CircuitBreaker(), PAST, None),
    ],
)
def test_what_blocks_all_jobs(breaker, capped_until, expected) -> None:
    assert find_blocker(breaker, capped_until, NOW) == expected


@pytest.mark.parametrize(
    ("state", "wait", "status"),
    [
        ("waiting", WaitReason.TURN, Status.QUEUED),
        ("waiting", WaitReason.LATER, Status.WAITING),
        ("waiting", WaitReason.CAP, Status.WAITING),
        ("waiting", WaitReason.ENDPOINT, Status.WAITING),
        ("waiting", WaitReason.BACKFILL, Status.PAUSED),
        ("claimed", WaitReason.RUNNING, Status.RUNNING),
        ("claimed", WaitReason.NO_WORKER, Status.QUEUED),
        ("replied", WaitReason.TURN, Status.RUNNING),
        ("replied", WaitReason.LATER, Status.WAITING),
        ("proposed", WaitReason.PERSON, Status.WAITING),
        ("dead", WaitReason.RETRY, Status.FAILED),
        ("done", None, Status.DONE),
        ("superseded", None, Status.REPLACED),
        ("rejected", None, Status.CANCELLED),
        ("cancelled", None, Status.CANCELLED),
    ],
)
def test_the_status_of_a_job(state: str, wait: WaitReason | None, status: Status) -> None:
    assert status_of(state, wait) is status


def test_only_a_job_that_is_done_has_errors() -> None:
    assert status_of("done", None, has_errors=True) is Status.DONE_WITH_ERRORS
    assert status_of("claimed", WaitReason.RUNNING, has_errors=True) is Status.RUNNING
    assert status_of("superseded", None, has_errors=True) is Status.REPLACED
