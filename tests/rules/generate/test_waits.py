"""What a job waits for, and what there is to tell of an installation."""

from datetime import timedelta

import pytest

from memories.rules.generate.breaker import Breaker, Refusal
from memories.rules.generate.waits import (
    OVER_CAP,
    JobStatus,
    Status,
    Trouble,
    Wait,
    status_of,
    trouble,
    waits_for,
)
from tests.factories import MONDAY as NOW

SOON, PAST = NOW + timedelta(minutes=5), NOW - timedelta(seconds=1)
MOMENT = NOW + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("job", "waits"),
    [
        (JobStatus("waiting"), Wait.TURN),
        (JobStatus("waiting", not_before=SOON), Wait.LATER),
        (JobStatus("waiting", not_before=PAST), Wait.TURN),
        (JobStatus("waiting", OVER_CAP, SOON), Wait.CAP),
        (JobStatus("waiting", backfill_state="running"), Wait.TURN),
        (JobStatus("waiting", backfill_state="paused"), Wait.BACKFILL),
        (JobStatus("waiting", OVER_CAP, SOON, backfill_state="paused"), Wait.BACKFILL),
        (JobStatus("claimed", lease_until=SOON, backfill_state="paused"), Wait.RUNNING),
        (JobStatus("claimed", lease_until=PAST), Wait.NO_WORKER),
        (JobStatus("replied"), Wait.TURN),
        (JobStatus("replied", not_before=SOON), Wait.LATER),
        (JobStatus("replied", backfill_state="cancelled"), Wait.TURN),
        (JobStatus("proposed"), Wait.PERSON),
        (JobStatus("dead", not_before=SOON), Wait.RETRY),
        (JobStatus("done"), None),
        (JobStatus("superseded"), None),
        (JobStatus("rejected"), None),
        (JobStatus("cancelled"), None),
    ],
)
def test_waits_for(job: JobStatus, waits: Wait | None) -> None:
    assert waits_for(job, NOW, endpoint_closed=False) == waits


def test_a_closed_endpoint_holds_what_would_be_asked() -> None:
    told = {
        state: waits_for(JobStatus(state), NOW, endpoint_closed=True)
        for state in ("waiting", "replied", "dead", "done")
    }
    assert told == {
        "waiting": Wait.ENDPOINT,
        "replied": Wait.TURN,
        "dead": Wait.RETRY,
        "done": None,
    }


@pytest.mark.parametrize(
    ("breaker", "capped_until", "expected"),
    [
        (None, None, None),
        (Breaker(), None, None),
        (Breaker(failures=4, fault="timeout"), None, None),
        (Breaker(not_before=MOMENT, fault="rate_limited"), None, None),
        (
            Breaker(not_before=SOON, fault="rate_limited"),
            None,
            Trouble(Refusal.RATE_LIMITED, "rate_limited", SOON),
        ),
        (
            Breaker(failures=5, open_until=SOON, fault="timeout"),
            None,
            Trouble(Refusal.BREAKER_OPEN, "timeout", SOON),
        ),
        (
            Breaker(failures=5, open_until=PAST, probing_until=MOMENT, fault="timeout"),
            None,
            Trouble(Refusal.BREAKER_OPEN, "timeout", MOMENT),
        ),
        (
            Breaker(needs_person=True, fault="forbidden"),
            SOON,
            Trouble(Refusal.NEEDS_PERSON, "forbidden"),
        ),
        (Breaker(), SOON, Trouble(OVER_CAP, "", SOON)),
        (Breaker(not_before=MOMENT), SOON, Trouble(OVER_CAP, "", SOON)),
        (Breaker(), PAST, None),
    ],
)
def test_what_there_is_to_tell(breaker, capped_until, expected) -> None:
    assert trouble(breaker, capped_until, NOW) == expected


@pytest.mark.parametrize(
    ("state", "wait", "status"),
    [
        ("waiting", Wait.TURN, Status.QUEUED),
        ("waiting", Wait.LATER, Status.WAITING),
        ("waiting", Wait.CAP, Status.WAITING),
        ("waiting", Wait.ENDPOINT, Status.WAITING),
        ("waiting", Wait.BACKFILL, Status.PAUSED),
        ("claimed", Wait.RUNNING, Status.RUNNING),
        ("claimed", Wait.NO_WORKER, Status.QUEUED),
        ("replied", Wait.TURN, Status.RUNNING),
        ("replied", Wait.LATER, Status.WAITING),
        ("proposed", Wait.PERSON, Status.WAITING),
        ("dead", Wait.RETRY, Status.FAILED),
        ("done", None, Status.DONE),
        ("superseded", None, Status.REPLACED),
        ("rejected", None, Status.CANCELLED),
        ("cancelled", None, Status.CANCELLED),
    ],
)
def test_status_of(state: str, wait: Wait | None, status: Status) -> None:
    assert status_of(state, wait) is status


def test_done_with_errors_is_said_of_what_is_done_alone() -> None:
    assert status_of("done", None, has_errors=True) is Status.DONE_WITH_ERRORS
    assert status_of("claimed", Wait.RUNNING, has_errors=True) is Status.RUNNING
    assert status_of("superseded", None, has_errors=True) is Status.REPLACED
