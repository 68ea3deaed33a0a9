"""Times that people and programs write."""

from datetime import UTC, datetime

import pytest

from memories.rules.ingest.timestamps import parse_utc

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T09:00:00Z", NINE),
        ("2026-11-20T18:00:00+09:00", NINE),
        ("2026-11-20 09:00", NINE),
        ("2026-11-20", NINE.replace(hour=0)),
        ("0001-01-01T00:00:00+09:00", None),  # before the first time in UTC
        ("2026-11-31T09:00:00Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_is_parsed_in_utc(text: str, moment: datetime | None) -> None:
    assert parse_utc(text) == moment
