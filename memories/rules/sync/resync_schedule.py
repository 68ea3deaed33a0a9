"""What of a channel a sync looks at again, and when: late changes are found ring by ring.

The hot window is walked in every sync; the roots of all threads and all other messages of the
channel itself in a sweep each week; and the replies of every thread in a ring of 30 days, because
nothing else tells of an edit inside of a thread.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

from memories.rules.ingest.timestamps import HOUR, micros

SYNC_EVERY = timedelta(minutes=5)
HOT_WINDOW = 30 * 24 * HOUR  # microseconds
SWEEP_EVERY = timedelta(days=7)
RING = timedelta(days=30)
REST = timedelta(days=2)  # a thread that was read is left alone for so long
PACE = timedelta(days=27)  # a turn of the ring; with the rest, and a day for what comes between
MEMBERS_LAST = timedelta(hours=1)
# Each sync asks who is here and what is new; one that only goes on with another's work, where Slack
# set that free, need not ask again.
FRESH = timedelta(minutes=4)


def end_of_walk(mark: str, now_us: int) -> int:
    """How far down a walk goes, in microseconds and exclusive: to the mark, or through the hot window
    where that is wider; 0, the very beginning, for a channel that was never walked."""
    return max(0, min(micros(mark), now_us - HOT_WINDOW)) if mark else 0


def sweep_is_due(swept_at: datetime | None, now: datetime) -> bool:
    return swept_at is None or now - swept_at >= SWEEP_EVERY


def members_are_due(known_at: datetime | None, now: datetime) -> bool:
    return known_at is None or now - known_at >= MEMBERS_LAST


def is_fresh(at: datetime | None, now: datetime) -> bool:
    return at is not None and now - at < FRESH


@dataclass(frozen=True)
class Turn:
    """How many threads the ring reads now, and the time that each of them stands for."""

    threads: int
    each: timedelta


def turn_of_ring(threads: int, turned_to: datetime | None, now: datetime) -> Turn:
    """The share of a channel's ``threads`` that is due since ``turned_to``: none right after the last
    one, all of them after a whole turn, and never more."""
    if not threads:
        return Turn(0, timedelta())
    each = PACE / threads
    if turned_to is None:
        return Turn(0, each)
    return Turn(min(threads, max(0, int((now - turned_to) / each))), each)


def looks_back_first(now: datetime) -> bool:
    """A coin that each minute tosses. Where calls are scarce, what is new would leave none for sweep
    and ring, or they none for what is new: so they go first by turns."""
    return bool(crc32(str(int(now.timestamp()) // 60).encode()) & 1)
