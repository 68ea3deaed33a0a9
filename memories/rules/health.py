"""Find what is wrong with a workspace, from the signals that its reader may see."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from memories.rules.sync.rate_limits import calls_per_minute, seconds_per_call
from memories.rules.sync.resync_schedule import SYNC_INTERVAL

SYNC_MAX_AGE = 2 * SYNC_INTERVAL


def sync_max_age(channels: int, *, slow: bool = False) -> timedelta:
    """Return how old a sync of so many channels may be. Each takes a call, which Slack limits.

    ``slow``: Slack has the app on its slow plan.
    """
    rate = calls_per_minute("conversations.history", slow=slow)
    return SYNC_MAX_AGE + 2 * timedelta(seconds=channels * seconds_per_call(rate))


class HealthProblem(StrEnum):
    """Problems, the most urgent first."""

    STOPPED = "stopped"  # Slack has ended the connection
    WORKER = "worker"  # no worker runs
    MODEL = "model"  # accepts no calls, or a budget is reached
    SLACK = "slack"  # the last sync is too old
    CHANNELS = "channels"  # some cannot be read
    JOBS = "jobs"  # some have failed


@dataclass(frozen=True)
class HealthSignals:
    """``worker_at``: the last heartbeat. ``synced_at``: the end of the last complete sync.

    ``is_late``: it, or the connection of a workspace without one, is older than `Workspace.sync_max_age`.
    """

    worker_at: datetime | None
    worker_max_age: timedelta
    is_connected: bool = False
    synced_at: datetime | None = None
    is_late: bool = False
    is_stopped: bool = False
    is_blocked: bool = False
    failing_channels: int = 0
    failed_jobs: int = 0


def find_problems(signals: HealthSignals, now: datetime) -> list[HealthProblem]:
    """Return the problems in their order."""
    worker_at = signals.worker_at
    states = {
        HealthProblem.STOPPED: signals.is_stopped,
        HealthProblem.WORKER: worker_at is None or now - worker_at > signals.worker_max_age,
        HealthProblem.MODEL: signals.is_blocked,
        HealthProblem.SLACK: signals.is_connected and signals.is_late and not signals.is_stopped,
        HealthProblem.CHANNELS: signals.failing_channels > 0,
        HealthProblem.JOBS: signals.failed_jobs > 0,
    }
    return [problem for problem, is_present in states.items() if is_present]
