"""The problems of a workspace, the most urgent first."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memories.rules.health import SYNC_MAX_AGE, HealthProblem, HealthSignals, find_problems
from tests.factories import MONDAY as NOW

A_SECOND = timedelta(seconds=1)
HEALTHY = HealthSignals(NOW, timedelta(minutes=3), is_connected=True, synced_at=NOW - SYNC_MAX_AGE)


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"worker_at": None}, [HealthProblem.WORKER]),
        ({"worker_at": NOW - timedelta(minutes=3)}, []),
        ({"worker_at": NOW - timedelta(minutes=3) - A_SECOND}, [HealthProblem.WORKER]),
        ({"synced_at": NOW - SYNC_MAX_AGE - A_SECOND}, [HealthProblem.SLACK]),
        ({"synced_at": NOW - SYNC_MAX_AGE - A_SECOND, "is_connected": False}, []),
        ({"synced_at": None}, []),
        ({"synced_at": NOW - timedelta(days=1), "is_stopped": True}, [HealthProblem.STOPPED]),
        (
            {"failed_jobs": 1, "worker_at": None, "is_blocked": True},
            [*HealthProblem][1:3] + [HealthProblem.JOBS],
        ),
        ({"failing_channels": 2}, [HealthProblem.CHANNELS]),
    ],
)
def test_the_problems_of_signals(changes: dict[str, Any], problems: list[HealthProblem]) -> None:
    assert find_problems(replace(HEALTHY, **changes), NOW) == problems
