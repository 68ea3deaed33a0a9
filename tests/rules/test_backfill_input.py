"""The period and the cap of a backfill as typed text."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from memories.rules.backfill_input import InvalidInput, parse_cap, parse_since
from memories.rules.ingest.timestamps import to_micros

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("", None),
        ("all", None),
        ("30", NOW - timedelta(days=30)),
        (" 2026-02-03 ", datetime(2026, 2, 2, 15, 0, tzinfo=UTC)),
    ],
)
def test_a_period(text: str, moment: datetime | None) -> None:
    since_us = to_micros(moment) if moment else 0
    assert parse_since(text, NOW, ZoneInfo("Asia/Tokyo")) == since_us


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "0", "-3", "36501", "٣", "1.5"])
def test_an_invalid_period(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_since(text, NOW, ZoneInfo("UTC"))


@pytest.mark.parametrize(
    ("text", "tokens", "micros"),
    [
        ("", None, None),
        ("200000", 200_000, None),
        ("1,000,000", 1_000_000, None),
        ("$2.50", None, 2_500_000),
        ("$ 1,000", None, 1_000_000_000),
        ("$0.000001", None, 1),
        ("0", 0, None),
    ],
)
def test_a_cap(text: str, tokens: int | None, micros: int | None) -> None:
    assert parse_cap(text) == (tokens, micros)


@pytest.mark.parametrize("text", ["2.50", "€2", "$", "-1", "$2.1234567", "lots", "9" * 20, "٣"])
def test_an_invalid_cap(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_cap(text)
