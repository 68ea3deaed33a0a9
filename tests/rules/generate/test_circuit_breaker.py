"""The transitions of the circuit breaker, and its limits for any sequence of faults."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.generate.circuit_breaker import (
    MAX_FAILURES,
    MAX_PAUSE,
    OPERATOR_FAULTS,
    OUTAGES,
    CircuitBreaker,
    Refusal,
    backoff_delay,
)

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
PAUSE = timedelta(seconds=30)
LEASE = timedelta(seconds=180)


def after(
    *codes: str,
    breaker: CircuitBreaker | None = None,
    retry_after: float | None = None,
    now: datetime = NOW,
) -> CircuitBreaker:
    state = breaker or CircuitBreaker()
    for code in codes:
        state = state.after_failure(
            code, "no", now, retry_after=retry_after, pause=PAUSE, jitter=0.5
        )
    return state


def test_a_new_breaker_allows_calls() -> None:
    assert CircuitBreaker().find_refusal(NOW) is None


@pytest.mark.parametrize("code", sorted(OUTAGES))
def test_the_fifth_failure_in_a_row_opens_it(code: str) -> None:
    assert after(*[code] * (MAX_FAILURES - 1)).find_refusal(NOW) is None
    state = after(*[code] * MAX_FAILURES)
    assert state.find_refusal(NOW) == (Refusal.BREAKER_OPEN, NOW + PAUSE)
    assert state.find_refusal(NOW + PAUSE) is None


def test_an_answer_resets_the_count_of_failures() -> None:
    state = after(*["server_error"] * 4).after_answer()
    assert after(*["server_error"] * 4, breaker=state).find_refusal(NOW) is None


def test_an_answer_ends_no_rate_limit() -> None:
    """It may belong to a call from before."""
    state = after("rate_limited", retry_after=90).after_answer()
    assert state.find_refusal(NOW) == (Refusal.RATE_LIMITED, NOW + timedelta(seconds=90))


def test_a_half_open_breaker_allows_one_trial_call() -> None:
    later = NOW + PAUSE
    half_open = after(*["timeout"] * MAX_FAILURES).after_start(later, LEASE)
    assert half_open.find_refusal(later) == (Refusal.BREAKER_OPEN, later + LEASE)
    assert half_open.find_refusal(later + LEASE) is None, "the trial call was lost"
    assert half_open.after_answer() == CircuitBreaker()


def test_each_failed_trial_call_doubles_the_pause_up_to_the_limit() -> None:
    state, now = after(*["connection"] * MAX_FAILURES), NOW
    pauses = []
    for _ in range(8):
        assert state.open_until is not None
        pauses.append(state.open_until - now)
        now = state.open_until
        state = after("connection", breaker=state.after_start(now, LEASE), now=now)
    assert pauses == sorted(pauses)
    assert pauses[0] == PAUSE
    assert pauses[1] == 2 * PAUSE
    assert pauses[-1] == MAX_PAUSE


@pytest.mark.parametrize("code", sorted(OPERATOR_FAULTS))
def test_a_fault_for_a_person_is_tried_with_growing_pauses(code: str) -> None:
    state, now = after(code), NOW
    for _ in range(8):
        assert state.find_refusal(now) == (Refusal.NEEDS_PERSON, state.open_until)
        assert state.fault == code
        now = state.open_until or now
        assert state.find_refusal(now) is None
        state = state.after_start(now, LEASE)
        assert state.find_refusal(now) == (Refusal.NEEDS_PERSON, now + LEASE)
        answered = state.after_answer()
        state = after(code, breaker=state, now=now)
    assert state.open_until == now + MAX_PAUSE
    assert answered.find_refusal(now) is None


def test_an_answer_to_a_call_before_the_fault_changes_nothing() -> None:
    state = after("unauthorised")
    assert state.after_answer() == state


def test_a_trial_call_that_hits_an_outage_keeps_the_fault() -> None:
    state = after("unauthorised")
    now = state.open_until or NOW
    failed = after("connection", breaker=state.after_start(now, LEASE), now=now)
    assert failed.find_refusal(now) == (Refusal.NEEDS_PERSON, failed.open_until)
    assert failed.fault == "unauthorised" and failed.open_until == now + 2 * PAUSE


def test_a_rate_limit_lasts_for_retry_after() -> None:
    state = after("rate_limited", retry_after=7)
    assert state.find_refusal(NOW) == (Refusal.RATE_LIMITED, NOW + timedelta(seconds=7))
    assert state.find_refusal(NOW + timedelta(seconds=7)) is None
    assert state.failures == 0


def test_a_rate_limit_without_a_time_doubles_the_delay() -> None:
    once = after("rate_limited")
    assert once.retry_at == NOW + PAUSE
    twice = after("rate_limited", breaker=once, now=NOW + PAUSE)
    assert twice.retry_at == NOW + PAUSE + 2 * PAUSE


def test_a_shorter_rate_limit_does_not_replace_a_longer_one() -> None:
    state = after("rate_limited", breaker=after("rate_limited", retry_after=60), retry_after=1)
    assert state.retry_at == NOW + timedelta(seconds=60)


@pytest.mark.parametrize("code", ["bad_request", "context_too_long", "content_filter"])
def test_a_refused_request_resets_the_breaker(code: str) -> None:
    assert after("server_error", code) == CircuitBreaker()


@given(attempt=st.integers(-3, 500), jitter=st.floats(0, 1))
def test_the_backoff_is_spread_and_bounded(attempt: int, jitter: float) -> None:
    pause = backoff_delay(PAUSE, attempt, jitter)
    assert PAUSE / 2 <= pause <= MAX_PAUSE * 1.5


@given(codes=st.lists(st.sampled_from(sorted(OUTAGES | {"rate_limited", "bad_request", "ok"}))))
def test_at_most_five_failures_in_a_row_are_possible(codes: list[str]) -> None:
    """The calls are sequential, without pauses."""
    state, row = CircuitBreaker(), 0
    for code in codes:
        if state.find_refusal(NOW) is not None:
            break
        row = row + 1 if code in OUTAGES else 0
        state = state.after_answer() if code == "ok" else after(code, breaker=state)
    assert row <= MAX_FAILURES


def test_calls_that_fail_together_open_the_breaker_once() -> None:
    assert after(*["server_error"] * 16).open_until == NOW + PAUSE
    limited = after(*["rate_limited"] * 16)
    assert limited.retry_at is not None
    assert limited.retry_at < NOW + timedelta(minutes=5)


def test_a_rate_limit_keeps_a_fault_for_a_person() -> None:
    assert after("out_of_credit", "rate_limited").fault == "out_of_credit"
