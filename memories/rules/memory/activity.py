"""How much was said on each of the last days, and how high that is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from memories.rules.ingest.timestamps import to_micros


@dataclass(frozen=True)
class Day:
    """A day in some zone: from ``begin_us`` to before ``end_us``, microseconds since 1970. A day on
    which clocks are changed is shorter or longer."""

    date: date
    begin_us: int
    end_us: int


def last_days(now: datetime, zone: tzinfo, many: int) -> list[Day]:
    """The last days, today as the last one; a day before it whole."""
    today = now.astimezone(zone).date()
    dates = [today - timedelta(days=back) for back in reversed(range(-1, many))]
    begins = [to_micros(datetime.combine(day, time(), zone)) for day in dates]
    return [Day(*each) for each in zip(dates[:-1], begins[:-1], begins[1:], strict=True)]


def heights(counts: Sequence[int], highest: int) -> list[int]:
    """Each count as a height; whatever is not nothing can be seen."""
    most = max(counts, default=0)
    return [-(-count * highest // most) if most else 0 for count in counts]
