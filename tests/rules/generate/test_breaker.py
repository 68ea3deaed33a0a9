"""The breaker as a table, and what it may never do whatever happens."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.generate.breaker import (
    DOWN,
    LONGEST_PAUSE,
    MOST_FAILURES,
    NEEDS_PERSON,
    Breaker,
    Refusal,
    back_off,
)

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
PAUSE = timedelta(seconds=30)
LEASE = timedelta(seconds=180)


def after(
    *codes: str,
    breaker: Breaker | None = None,
    retry_after: float | None = None,
    now: datetime = NOW,
) -> Breaker:
    state = breaker or Breaker()
    for code in codes:
        state = state.failed(code, "no", now, retry_after=retry_after, pause=PAUSE, luck=0.5)
    return state


def test_a_fresh_one_lets_calls_through() -> None:
    assert Breaker().refusal(NOW) is None


@pytest.mark.parametrize("code", sorted(DOWN))
def test_the_fifth_failure_in_a_row_opens_it(code: str) -> None:
    assert after(*[code] * (MOST_FAILURES - 1)).refusal(NOW) is None
    state = after(*[code] * MOST_FAILURES)
    assert state.refusal(NOW) == (Refusal.BREAKER_OPEN, NOW + PAUSE)
    assert state.refusal(NOW + PAUSE) is None


def test_an_answer_in_between_begins_the_count_anew() -> None:
    state = after(*["server_error"] * 4).answered()
    assert after(*["server_error"] * 4, breaker=state).refusal(NOW) is None


def test_half_open_lets_one_probe_through() -> None:
    later = NOW + PAUSE
    probing = after(*["timeout"] * MOST_FAILURES).began(later, LEASE)
    assert probing.refusal(later) == (Refusal.BREAKER_OPEN, later + LEASE)
    assert probing.refusal(later + LEASE) is None, "a probe that never came back"
    assert probing.answered() == Breaker()


def test_each_failed_probe_makes_the_pause_longer() -> None:
    state, now = after(*["connection"] * MOST_FAILURES), NOW
    pauses = []
    for _ in range(8):
        assert state.open_until is not None
        pauses.append(state.open_until - now)
        now = state.open_until
        state = after("connection", breaker=state.began(now, LEASE), now=now)
    assert pauses == sorted(pauses)
    assert pauses[0] == PAUSE
    assert pauses[1] == 2 * PAUSE
    assert pauses[-1] == LONGEST_PAUSE


@pytest.mark.parametrize("code", sorted(NEEDS_PERSON))
def test_what_a_person_must_mend_is_probed_now_and_then(code: str) -> None:
    """One call at a time, ever more seldom; the first that is answered opens it."""
    state, now = after(code), NOW
    for _ in range(8):
        assert state.refusal(now) == (Refusal.NEEDS_PERSON, state.open_until)
        assert state.fault == code
        now = state.open_until or now
        assert state.refusal(now) is None
        state = state.began(now, LEASE)
        assert state.refusal(now) == (Refusal.NEEDS_PERSON, now + LEASE)
        mended = state.answered()
        state = after(code, breaker=state, now=now)
    assert state.open_until == now + LONGEST_PAUSE
    assert mended.refusal(now) is None


def test_a_late_answer_does_not_open_it() -> None:
    """To a call from before: no probe is under way yet."""
    state = after("unauthorised")
    assert state.answered() == state


def test_a_probe_that_breaks_leaves_the_reason() -> None:
    state = after("unauthorised")
    now = state.open_until or NOW
    failed = after("connection", breaker=state.began(now, LEASE), now=now)
    assert failed.refusal(now) == (Refusal.NEEDS_PERSON, failed.open_until)
    assert failed.fault == "unauthorised" and failed.open_until == now + 2 * PAUSE


def test_a_rate_limit_is_obeyed_as_told() -> None:
    state = after("rate_limited", retry_after=7)
    assert state.refusal(NOW) == (Refusal.RATE_LIMITED, NOW + timedelta(seconds=7))
    assert state.refusal(NOW + timedelta(seconds=7)) is None
    assert state.failures == 0


def test_a_rate_limit_without_a_time_waits_longer_each_time() -> None:
    once = after("rate_limited")
    assert once.not_before == NOW + PAUSE
    twice = after("rate_limited", breaker=once, now=NOW + PAUSE)
    assert twice.not_before == NOW + PAUSE + 2 * PAUSE


def test_a_shorter_limit_does_not_undo_a_longer_one() -> None:
    state = after("rate_limited", breaker=after("rate_limited", retry_after=60), retry_after=1)
    assert state.not_before == NOW + timedelta(seconds=60)


@pytest.mark.parametrize("code", ["bad_request", "context_too_long", "content_filter"])
def test_a_refused_request_shows_that_the_endpoint_is_well(code: str) -> None:
    assert after("server_error", code) == Breaker()


@given(attempt=st.integers(-3, 500), luck=st.floats(0, 1))
def test_back_off_is_spread_and_bounded(attempt: int, luck: float) -> None:
    pause = back_off(PAUSE, attempt, luck)
    assert PAUSE / 2 <= pause <= LONGEST_PAUSE * 1.5


@given(codes=st.lists(st.sampled_from(sorted(DOWN | {"rate_limited", "bad_request", "ok"}))))
def test_never_more_than_five_failures_in_a_row_go_through(codes: list[str]) -> None:
    """Calls are made one after the other, only when allowed, without waiting."""
    state, row = Breaker(), 0
    for code in codes:
        if state.refusal(NOW) is not None:
            break
        row = row + 1 if code in DOWN else 0
        state = state.answered() if code == "ok" else after(code, breaker=state)
    assert row <= MOST_FAILURES


def test_calls_that_fail_together_open_the_breaker_once() -> None:
    assert after(*["server_error"] * 16).open_until == NOW + PAUSE
    limited = after(*["rate_limited"] * 16)
    assert limited.not_before is not None
    assert limited.not_before < NOW + timedelta(minutes=5)


def test_the_reason_for_which_a_person_is_needed_stays() -> None:
    assert after("out_of_credit", "rate_limited").fault == "out_of_credit"
