"""Decide from its heartbeats whether a worker hangs."""

from datetime import datetime, timedelta

START_LIMIT = timedelta(seconds=30)
"""A new worker has at least this time until its first heartbeat."""


def hangs(
    now: datetime,
    *,
    started_at: datetime,
    last_beat: datetime | None,
    watched_since: datetime,
    heartbeat: timedelta,
) -> bool:
    """Return whether a worker was silent for one and a half heartbeats, or never began.

    ``watched_since`` is the start of the time without a gap in which its supervisor could read its row.
    Earlier silence does not count: the database was down, or the machine slept.
    """
    if last_beat is None or last_beat < started_at:
        return now - max(started_at, watched_since) > max(START_LIMIT, 2 * heartbeat)
    return now - max(last_beat, watched_since) > 1.5 * heartbeat
