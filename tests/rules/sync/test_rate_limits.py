"""Calls per minute of Slack's methods."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.sync import rate_limits
from memories.rules.sync.rate_limits import Bucket

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("method", "slow", "calls"),
    [
        ("users.list", False, 20),
        ("conversations.list", False, 20),
        ("conversations.history", False, 50),
        ("conversations.replies", False, 50),
        ("conversations.members", False, 100),
        ("conversations.history", True, 1),
        ("conversations.replies", True, 1),
        ("conversations.members", True, 100),
        ("of.tomorrow", False, 20),
    ],
)
def test_calls_per_minute_of_each_method(method, slow, calls):
    assert rate_limits.calls_per_minute(method, slow=slow) == calls


def calls_by(rate: int, seconds: float, step: float, chance: random.Random | None = None):
    """Return the times of calls that are tried every ``step`` seconds, or at random."""
    bucket, now, times = Bucket(rate_limits.burst(rate), NOW), 0.0, []
    while now < seconds:
        bucket, wait = rate_limits.take(bucket, rate, NOW + timedelta(seconds=now))
        if wait == 0:
            times.append(now)
        now += (chance.expovariate(1 / step) if chance else step) if wait == 0 else wait
    return times


def busiest(moments: list[float]) -> int:
    return max(sum(first <= moment < first + 60 for moment in moments) for first in moments)


@pytest.mark.parametrize("rate", [1, 20, 50, 100])
@pytest.mark.parametrize("step", [0.0001, 0.3, 7.0])
def test_no_minute_has_more_calls_than_allowed(rate, step):
    assert busiest(calls_by(rate, 400, step)) <= rate
    assert busiest(calls_by(rate, 400, step, random.Random(1))) <= rate


@pytest.mark.parametrize(("rate", "at_least"), [(1, 10), (20, 155), (50, 380), (100, 730)])
def test_most_of_the_allowed_calls_are_used(rate, at_least):
    assert len(calls_by(rate, 600, 0.01)) >= at_least


def test_an_empty_bucket_returns_the_seconds_to_wait():
    bucket = Bucket(0.0, NOW)
    after, wait = rate_limits.take(bucket, 1, NOW + timedelta(seconds=45))
    assert wait == pytest.approx(17)
    assert rate_limits.take(after, 1, NOW + timedelta(seconds=62))[1] == 0.0


def test_a_clock_that_was_set_back_does_not_shorten_the_wait():
    bucket, wait = rate_limits.take(Bucket(0.0, NOW), 1, NOW - timedelta(days=1))
    assert wait == pytest.approx(62)
    assert bucket.calls_left == 0.0


def test_a_refusal_by_slack_blocks_calls_until_its_end():
    bucket = rate_limits.block(Bucket(rate_limits.burst(50), NOW), 90, NOW)
    assert rate_limits.take(bucket, 50, NOW + timedelta(seconds=30))[1] == pytest.approx(60)
    shorter = rate_limits.block(bucket, 1, NOW)
    assert shorter.paused_until == bucket.paused_until
    assert rate_limits.take(shorter, 50, NOW + timedelta(seconds=90))[1] == 0.0
