"""The problems of a workspace, the most urgent first."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memories.rules.health import HealthProblem, HealthSignals, find_problems, sync_max_age
from tests.factories import MONDAY as NOW

A_SECOND = timedelta(seconds=1)
HEALTHY = HealthSignals(NOW, timedelta(minutes=3), is_connected=True, synced_at=NOW)


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"worker_at": None}, [HealthProblem.WORKER]),
        ({"worker_at": NOW - timedelta(minutes=3)}, []),
        ({"worker_at": NOW - timedelta(minutes=3) - A_SECOND}, [HealthProblem.WORKER]),
        ({"is_late": True}, [HealthProblem.SLACK]),
        ({"is_late": True, "is_connected": False}, []),
        ({"is_late": True, "is_stopped": True}, [HealthProblem.STOPPED]),
        (
            {"failed_jobs": 1, "worker_at": None, "is_blocked": True},
            [*HealthProblem][1:3] + [HealthProblem.JOBS],
        ),
        ({"failing_channels": 2}, [HealthProblem.CHANNELS]),
    ],
)
def test_the_problems_of_signals(changes: dict[str, Any], problems: list[HealthProblem]) -> None:
    assert find_problems(replace(HEALTHY, **changes), NOW) == problems


@pytest.mark.parametrize(
    ("channels", "slow", "minutes"),
    [(0, False, 10), (100, False, 15.3), (1_000, False, 63), (10, True, 30.7)],
)
def test_a_sync_takes_longer_with_more_channels(channels: int, slow: bool, minutes: float) -> None:
    age = sync_max_age(channels, slow=slow)
    assert age.total_seconds() / 60 == pytest.approx(minutes, abs=0.1)
