"""What a page tells of what it does not hold."""

from datetime import UTC, datetime

import pytest

from memories.rules.ingest.timestamps import to_micros
from memories.rules.sync.covered_range import (
    HANDFUL,
    CoveredRange,
    going_down,
    going_up,
    key_of,
    see,
    takes_much,
)

NOW_US = to_micros(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))
S = 1_000_000
T = 1_700_000_000


def at(*seconds):
    return [{"ts": f"{T + second}.000000"} for second in seconds]


def us(second):
    return (T + second) * S


@pytest.mark.parametrize(
    ("page", "before", "is_last", "is_limited", "told"),
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
def test_a_page_of_history(page, before, is_last, is_limited, told):
    found = going_down(
        see(page, NOW_US), before_us=before, end_us=us(0), is_last=is_last, is_limited=is_limited
    )
    assert found == (None if told is None else CoveredRange(*told))


@pytest.mark.parametrize(
    ("page", "is_last", "told"),
    [
        pytest.param(at(3, 5), False, (us(0), us(5)), id="up to its newest"),
        pytest.param(at(3, 5), True, (us(0), None), id="the last: all above"),
        pytest.param([], True, (us(0), None), id="none left"),
        pytest.param([], False, None, id="nothing, and more to come"),
        pytest.param(at(3, -5), True, None, id="below what was asked for"),
        pytest.param([*at(3), {}], True, None, id="an odd object"),
    ],
)
def test_a_page_of_a_thread(page, is_last, told):
    found = going_up(see(page, NOW_US), after_us=us(0), is_last=is_last)
    assert found == (None if told is None else CoveredRange(*told))


@pytest.mark.parametrize(
    ("gone", "shown", "is_much"),
    [
        pytest.param(0, 0, False, id="nothing there, nothing gone"),
        pytest.param(1, 0, True, id="all there was"),
        pytest.param(1, 1, False, id="one of two"),
        pytest.param(3, 2, True, id="more than is left"),
        pytest.param(HANDFUL, 999, False, id="a handful of a whole page"),
        pytest.param(HANDFUL + 1, 999, True, id="more than that"),
    ],
)
def test_what_a_page_is_not_believed_alone(gone, shown, is_much):
    assert takes_much(gone, shown) is is_much


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"ts": "1700000000.1"}, "1700000000.100000"),
        ({"ts": 1700000000.1}, ""),
        ({"ts": "9999999999.000000"}, ""),
        ({}, ""),
        ([], ""),
    ],
)
def test_the_key_of_a_message(raw, key):
    assert key_of(raw, NOW_US) == key
