"""The periods of digests."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from memories.rules.memory.digests import last_period, next_end

TOKYO = ZoneInfo("Asia/Tokyo")
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("frequency", "now", "start", "end", "following"),
    [
        ("daily", "2026-11-24 06:59", "2026-11-22 07:00", "2026-11-23 07:00", "2026-11-24 07:00"),
        ("daily", "2026-11-24 07:00", "2026-11-23 07:00", "2026-11-24 07:00", "2026-11-25 07:00"),
        ("weekly", "2026-11-23 06:59", "2026-11-09 07:00", "2026-11-16 07:00", "2026-11-23 07:00"),
        ("weekly", "2026-11-23 07:00", "2026-11-16 07:00", "2026-11-23 07:00", "2026-11-30 07:00"),
        ("weekly", "2026-11-29 23:00", "2026-11-16 07:00", "2026-11-23 07:00", "2026-11-30 07:00"),
    ],
)
def test_periods(frequency: str, now: str, start: str, end: str, following: str) -> None:
    for zone in (TOKYO, BERLIN):

        def at(text: str, zone: ZoneInfo = zone) -> datetime:
            return datetime.fromisoformat(text).replace(tzinfo=zone)

        assert last_period(frequency, at(now), zone) == (at(start), at(end))
        assert next_end(frequency, at(now), zone) == at(following)


def test_a_day_keeps_its_hour_when_the_clocks_change() -> None:
    now = datetime(2026, 10, 25, 12, tzinfo=BERLIN)
    start, end = last_period("daily", now, BERLIN)
    assert (start.hour, end.hour) == (7, 7)
    assert end.timestamp() - start.timestamp() == 25 * 3600
