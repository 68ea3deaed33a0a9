"""Whether all is well, from the signs that a reader is told of: what is not, the worst first."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from memories.rules.sync.resync_schedule import SYNC_EVERY

SYNC_MAX_AGE = 2 * SYNC_EVERY


class HealthProblem(StrEnum):
    STOPPED = "stopped"  # Slack has ended the connection
    WORKER = "worker"  # nothing is made or read without one
    MODEL = "model"  # takes no calls, or may not be paid
    SLACK = "slack"  # was not read for long
    CHANNELS = "channels"  # some are not read
    JOBS = "jobs"  # some were given up


@dataclass(frozen=True)
class HealthSignals:
    """``worker_at`` None: no sign yet. ``synced_at`` None: never read to the end; it says nothing
    where the workspace is not connected."""

    worker_at: datetime | None
    worker_lasts: timedelta
    is_connected: bool = False
    synced_at: datetime | None = None
    is_stopped: bool = False
    has_trouble: bool = False
    failing_channels: int = 0
    failed_jobs: int = 0


def find_problems(signs: HealthSignals, now: datetime) -> list[HealthProblem]:
    """Empty: all is well. A sync that never ended is a first one under way, not a late one."""
    late = signs.synced_at is not None and now - signs.synced_at > SYNC_MAX_AGE
    found = {
        HealthProblem.STOPPED: signs.is_stopped,
        HealthProblem.WORKER: signs.worker_at is None or now - signs.worker_at > signs.worker_lasts,
        HealthProblem.MODEL: signs.has_trouble,
        HealthProblem.SLACK: signs.is_connected and late and not signs.is_stopped,
        HealthProblem.CHANNELS: signs.failing_channels > 0,
        HealthProblem.JOBS: signs.failed_jobs > 0,
    }
    return [ill for ill, is_so in found.items() if is_so]
