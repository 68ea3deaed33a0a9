"""One budget for a token and a method, whoever asks."""

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


def taken(budget: SharedLimiter, method: str = HISTORY, **how) -> int:
    """How many calls there are at once."""
    calls = 0
    while budget.take(method, **how) == 0.0:
        calls += 1
    return calls


@pytest.mark.django_db
def test_two_clients_of_a_token_share_it(clock):
    one, other = SharedLimiter("xoxb-1", clock), SharedLimiter("xoxb-1", clock)
    assert taken(one) == 12
    assert other.take(HISTORY) == pytest.approx(62 / 39)
    assert taken(SharedLimiter("xoxb-2", clock)) == 12
    assert taken(other, "conversations.replies") == 12
    clock.now += timedelta(seconds=60)
    assert taken(other) == 12


@pytest.mark.django_db
def test_on_the_slow_plan_there_is_one_a_minute(clock):
    budget = SharedLimiter("xoxb-1", clock)
    assert taken(budget, slow=True) == 1
    clock.now += timedelta(seconds=60)
    assert budget.take(HISTORY, slow=True) == pytest.approx(2)
    clock.now += timedelta(seconds=2)
    assert taken(budget, slow=True) == 1
    assert taken(budget, "users.list", slow=True) == 5


@pytest.mark.django_db
def test_what_slack_told_one_the_other_heeds(clock):
    SharedLimiter("xoxb-1", clock).limited(HISTORY, 90)
    other = SharedLimiter("xoxb-1", clock)
    assert other.take(HISTORY) == 90
    assert other.take("conversations.replies") == 0
    clock.now += timedelta(seconds=90)
    assert other.take(HISTORY) == 0


@pytest.mark.django_db
def test_the_token_is_nowhere(clock):
    SharedLimiter("xoxb-very-secret", clock).take(HISTORY)
    row = SlackBudget.objects.get()
    assert "secret" not in repr(row.__dict__)
    assert len(row.token_key) == 16


@pytest.mark.django_db(transaction=True)
def test_many_at_once_take_no_call_twice():
    clock = Clock()
    calls: list[int] = []

    def ask() -> None:
        try:
            calls.append(taken(SharedLimiter("xoxb-1", clock)))
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 6
    assert sum(calls) == 12
