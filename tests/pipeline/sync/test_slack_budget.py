"""All clients of a token share one rate limit for each method."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from memories.models import SlackBudget
from memories.pipeline.sync.slack_budget import SharedLimiter

pytestmark = pytest.mark.postgres("reservations under row locks")

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HISTORY = "conversations.history"


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def count_calls(limiter: SharedLimiter, method: str = HISTORY, **options) -> int:
    """Take calls until the limiter returns a wait, and return their number."""
    calls = 0
    while limiter.take(method, **options) == 0.0:
        calls += 1
    return calls


@pytest.mark.django_db
def test_clients_with_the_same_token_share_its_calls(clock):
    first, second = SharedLimiter("xoxb-1", clock), SharedLimiter("xoxb-1", clock)
    assert count_calls(first) == 12
    assert "xoxb" not in repr(SlackBudget.objects.values())
    assert second.take(HISTORY) == pytest.approx(62 / 39)
    assert count_calls(SharedLimiter("xoxb-2", clock)) == 12
    assert count_calls(second, "conversations.replies") == 12
    clock.now += timedelta(seconds=60)
    assert count_calls(second) == 12


@pytest.mark.django_db
def test_the_slow_plan_allows_one_call_a_minute(clock):
    limiter = SharedLimiter("xoxb-1", clock)
    assert count_calls(limiter, slow=True) == 1
    clock.now += timedelta(seconds=60)
    assert limiter.take(HISTORY, slow=True) == pytest.approx(2)
    clock.now += timedelta(seconds=2)
    assert count_calls(limiter, slow=True) == 1
    assert count_calls(limiter, "users.list", slow=True) == 5


@pytest.mark.django_db
def test_a_refusal_blocks_other_clients_too(clock):
    SharedLimiter("xoxb-1", clock).limited(HISTORY, 90)
    second = SharedLimiter("xoxb-1", clock)
    assert second.take(HISTORY) == 90
    assert second.take("conversations.replies") == 0
    clock.now += timedelta(seconds=90)
    assert second.take(HISTORY) == 0


@pytest.mark.django_db(transaction=True)
def test_threads_never_share_a_call():
    clock = Clock()
    calls: list[int] = []

    def take_all() -> None:
        try:
            calls.append(count_calls(SharedLimiter("xoxb-1", clock)))
        finally:
            connection.close()

    threads = [threading.Thread(target=take_all) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 6
    assert sum(calls) == 12
