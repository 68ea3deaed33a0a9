"""Days and bars of the timeline of a channel."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memories.rules.ingest.timestamps import HOUR, to_micros
from memories.rules.memory.timeline import bar_heights, last_days


def test_days_follow_the_zone():
    days = last_days(datetime(2026, 1, 4, 20, tzinfo=UTC), ZoneInfo("Asia/Tokyo"), 3)
    assert [day.date.isoformat() for day in days] == ["2026-01-03", "2026-01-04", "2026-01-05"]
    assert days[-1].begin_us == to_micros(datetime(2026, 1, 4, 15, tzinfo=UTC))
    assert all(a.end_us == b.begin_us for a, b in zip(days, days[1:], strict=False))


def test_a_day_is_shorter_when_clocks_change():
    days = last_days(datetime(2026, 3, 30, 12, tzinfo=UTC), ZoneInfo("Europe/Berlin"), 3)
    assert [(day.end_us - day.begin_us) // HOUR for day in days] == [24, 23, 24]


@pytest.mark.parametrize(
    ("counts", "drawn"),
    [
        ([], []),
        ([0, 0], [0, 0]),
        ([1, 2, 4], [8, 16, 32]),
        ([1, 1000], [1, 32]),
    ],
    ids=["none", "nothing", "in proportion", "one is seen beside many"],
)
def test_bar_heights(counts, drawn):
    assert bar_heights(counts, 32) == drawn
