"""Schedule of a sync: which messages of a channel it reads again, and when.

- Each sync reads the hot window: the messages of the last 30 days.
- Each week it reads all messages of the channel itself, including the roots of threads.
- Within 30 days it reads the replies of every thread, because Slack reports no edit of a reply.
"""

from datetime import datetime, timedelta
from zlib import crc32

from memories.rules.ingest.timestamps import HOUR, micros

SYNC_INTERVAL = timedelta(minutes=5)
HOT_WINDOW_US = 30 * 24 * HOUR
RESYNC_INTERVAL = timedelta(days=7)
THREAD_MAX_AGE = timedelta(days=30)
THREAD_REST = timedelta(days=2)  # after a read, until a thread may be due again
THREAD_PERIOD = timedelta(days=27)  # with the rest and a day of delay below THREAD_MAX_AGE
MEMBERS_MAX_AGE = timedelta(hours=1)
# A task that continues another one reads nothing again that is newer than this.
FRESH_FOR = timedelta(minutes=4)


def history_end(synced_ts: str, now_us: int) -> int:
    """Return where a read of the history ends, in microseconds and exclusive.

    The end is ``synced_ts`` or the start of the hot window, whichever is older. It is 0, the very
    beginning, for a channel that was never synced.
    """
    return max(0, min(micros(synced_ts), now_us - HOT_WINDOW_US)) if synced_ts else 0


def is_resync_due(resynced_at: datetime | None, now: datetime) -> bool:
    return resynced_at is None or now - resynced_at >= RESYNC_INTERVAL


def are_members_due(known_at: datetime | None, now: datetime) -> bool:
    return known_at is None or now - known_at >= MEMBERS_MAX_AGE


def is_fresh(at: datetime | None, now: datetime) -> bool:
    return at is not None and now - at < FRESH_FOR


def due_threads(threads: int, resynced_to: datetime | None, now: datetime) -> tuple[int, timedelta]:
    """Return how many of a channel's threads became due since a time, and the time between two threads.

    All are due after THREAD_PERIOD, and none if ``resynced_to`` is None.
    """
    if not threads:
        return 0, timedelta()
    interval = THREAD_PERIOD / threads
    if resynced_to is None:
        return 0, interval
    return min(threads, max(0, int((now - resynced_to) / interval))), interval


def starts_with_resync(now: datetime) -> bool:
    """Return a pseudo-random choice for this minute: read old messages first, or new ones.

    Where calls are scarce, the first of the two uses them up. So both come first in turn.
    """
    return bool(crc32(str(int(now.timestamp()) // 60).encode()) & 1)
