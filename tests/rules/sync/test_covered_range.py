"""The range of time that a page covers, and deletions that need confirmation."""

from datetime import UTC, datetime

import pytest

from memories.rules.ingest.timestamps import to_micros
from memories.rules.sync.covered_range import (
    MAX_UNCONFIRMED,
    CoveredRange,
    history_range,
    message_ts,
    needs_confirmation,
    page_times,
    thread_range,
)

NOW_US = to_micros(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))
S = 1_000_000
T = 1_700_000_000


def at(*seconds):
    return [{"ts": f"{T + second}.000000"} for second in seconds]


def us(second):
    return (T + second) * S


@pytest.mark.parametrize(
    ("page", "before", "is_last", "is_limited", "expected"),
    [
        pytest.param(at(9, 7), None, False, False, (us(7), None), id="the first page"),
        pytest.param(at(5, 3), us(7), False, False, (us(3), us(7)), id="one between"),
        pytest.param(at(5, 3), us(7), True, False, (us(0), us(7)), id="the last: to the end"),
        pytest.param([], us(7), True, False, (us(0), us(7)), id="nothing is left"),
        pytest.param(at(5, 3), us(7), True, True, (us(3), us(7)), id="a plan hides what is below"),
        pytest.param([], us(7), True, True, None, id="and perhaps all of it"),
        pytest.param([], us(7), False, False, None, id="nothing, and more to come"),
        pytest.param([*at(5), {"ts": None}], us(7), True, False, None, id="an odd object"),
        pytest.param([*at(5), "what?"], us(7), True, False, None, id="no object"),
        pytest.param(at(8, 5), us(7), False, False, None, id="above what was asked for"),
        pytest.param(at(5, -1), us(7), True, False, None, id="below it"),
    ],
)
def test_range_of_a_history_page(page, before, is_last, is_limited, expected):
    covered = history_range(
        page_times(page, NOW_US),
        before_us=before,
        end_us=us(0),
        is_last=is_last,
        is_limited=is_limited,
    )
    assert covered == (None if expected is None else CoveredRange(*expected))


@pytest.mark.parametrize(
    ("page", "is_last", "expected"),
    [
        pytest.param(at(3, 5), False, (us(0), us(5)), id="up to its newest"),
        pytest.param(at(3, 5), True, (us(0), None), id="the last: all above"),
        pytest.param([], True, (us(0), None), id="none left"),
        pytest.param([], False, None, id="nothing, and more to come"),
        pytest.param(at(3, -5), True, None, id="below what was asked for"),
        pytest.param([*at(3), {}], True, None, id="an odd object"),
    ],
)
def test_range_of_a_thread_page(page, is_last, expected):
    covered = thread_range(page_times(page, NOW_US), after_us=us(0), is_last=is_last)
    assert covered == (None if expected is None else CoveredRange(*expected))


@pytest.mark.parametrize(
    ("missing", "shown", "expected"),
    [
        pytest.param(0, 0, False, id="nothing stored, nothing missing"),
        pytest.param(1, 0, True, id="all stored messages"),
        pytest.param(1, 1, False, id="one of two"),
        pytest.param(3, 2, True, id="more than shown"),
        pytest.param(MAX_UNCONFIRMED, 999, False, id="a few of a whole page"),
        pytest.param(MAX_UNCONFIRMED + 1, 999, True, id="more than that"),
    ],
)
def test_many_missing_messages_need_confirmation(missing, shown, expected):
    assert needs_confirmation(missing, shown) is expected


@pytest.mark.parametrize(
    ("raw", "ts"),
    [
        ({"ts": "1700000000.1"}, "1700000000.100000"),
        ({"ts": 1700000000.1}, ""),
        ({"ts": "9999999999.000000"}, ""),
        ({}, ""),
        ([], ""),
    ],
)
def test_ts_of_a_raw_message(raw, ts):
    assert message_ts(raw, NOW_US) == ts
