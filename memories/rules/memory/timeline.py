"""The days of a timeline, and the heights of its bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from memories.rules.ingest.timestamps import to_micros


@dataclass(frozen=True)
class Day:
    """A day from ``begin_us`` to before ``end_us``, in microseconds since 1970.

    It is shorter or longer than 24 hours when clocks change.
    """

    date: date
    begin_us: int
    end_us: int


def last_days(now: datetime, zone: tzinfo, count: int) -> list[Day]:
    """Return the last ``count`` whole days in ``zone``. The last one is today."""
    today = now.astimezone(zone).date()
    dates = [today - timedelta(days=back) for back in reversed(range(-1, count))]
    begins = [to_micros(datetime.combine(day, time(), zone)) for day in dates]
    return [Day(*values) for values in zip(dates[:-1], begins[:-1], begins[1:], strict=True)]


def bar_heights(counts: Sequence[int], max_height: int) -> list[int]:
    """Scale counts to heights. A count above 0 has a height of at least 1."""
    largest = max(counts, default=0)
    return [-(-count * max_height // largest) if largest else 0 for count in counts]
