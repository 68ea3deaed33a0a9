"""Triggers (S1) and cut points (rules 1 and 2)."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.generate.segments import (
    Trigger,
    cut,
    cut_backlog,
    should_update_short_term_memory,
)
from memories.rules.ingest.timestamps import SECOND
from memories.rules.settings import MemorySettings

HOUR = 3600 * SECOND
DEFAULT = MemorySettings()
OFF = MemorySettings(history_enabled=False)


@pytest.mark.parametrize(
    ("settings", "has_memory", "new", "quiet_h", "due", "reason"),
    [
        pytest.param(OFF, True, 1, 0, True, Trigger.HISTORY_OFF, id="履歴機能無効"),
        pytest.param(DEFAULT, False, 1, 0, True, Trigger.FIRST, id="既存記憶なし"),
        pytest.param(DEFAULT, True, 1, 2, True, Trigger.IDLE, id="idle 時間経過"),
        pytest.param(DEFAULT, True, 50, 0, True, Trigger.FULL, id="メッセージ数超過"),
        pytest.param(DEFAULT, True, 30, 1, False, Trigger.WAITING, id="両条件未満"),
        pytest.param(DEFAULT, True, 60, 2, True, Trigger.FULL, id="idle + メッセージ"),
        # Rule 2 fills S1's hole: without a new message nothing is ever due.
        pytest.param(DEFAULT, True, 0, 99, False, Trigger.NOTHING_NEW, id="idle, nothing new"),
        pytest.param(OFF, True, 0, 99, False, Trigger.NOTHING_NEW, id="disabled, nothing new"),
        pytest.param(DEFAULT, False, 0, 99, False, Trigger.NOTHING_NEW, id="first, nothing new"),
    ],
)
def test_should_update_short_term_memory(settings, has_memory, new, quiet_h, due, reason):
    """S1, table _should_update_short_term_memory."""
    latest_us = 1_700_000_000 * SECOND
    answer = should_update_short_term_memory(
        latest_us, new, latest_us + quiet_h * HOUR, settings, has_memory=has_memory
    )
    assert (answer.due, answer.reason) == (due, reason)


@pytest.mark.parametrize(("short_by_us", "due"), [(0, True), (1, False)])
def test_idle_limit_is_inclusive(short_by_us, due):
    answer = should_update_short_term_memory(0, 1, 2 * HOUR - short_by_us, DEFAULT, has_memory=True)
    assert answer.due is due


@pytest.mark.parametrize(("new", "due"), [(49, False), (50, True)])
def test_message_limit_is_inclusive(new, due):
    assert should_update_short_term_memory(0, new, 0, DEFAULT, has_memory=True).due is due


def test_answer_tells_the_numbers_and_when_to_look_again():
    answer = should_update_short_term_memory(5 * HOUR, 12, 6 * HOUR, DEFAULT, has_memory=True)
    assert (answer.new_count, answer.quiet_us, answer.look_again_us) == (12, HOUR, 7 * HOUR)


@pytest.mark.parametrize(
    ("minutes", "now", "cuts"),
    [
        pytest.param([], 999, [], id="nothing"),
        pytest.param([0, 10], 20, [], id="still open"),
        pytest.param([0, 10], 130, [(0, 2, "idle", 130)], id="quiet until now"),
        pytest.param([0, 10, 140], 150, [(0, 2, "idle", 130)], id="next message closes"),
        pytest.param([0, 119, 238], 239, [], id="never quiet for two hours"),
        pytest.param(
            list(range(120)),
            125,
            [(0, 50, "full", 49), (50, 100, "full", 99)],
            id="by fifties",
        ),
        pytest.param(
            [*range(50), 400], 401, [(0, 50, "full", 49)], id="full before the pause, then open"
        ),
    ],
)
def test_cut(minutes, now, cuts):
    minute = 60 * SECOND
    found = cut([m * minute for m in minutes], now * minute, DEFAULT)
    assert [(c.begin, c.end, c.reason.value, c.closed_us // minute) for c in found] == cuts


def test_backlog_ends_where_remembered_messages_begin():
    minute = 60 * SECOND
    found = cut_backlog([0, minute, 200 * minute], 210 * minute, DEFAULT)
    assert [(c.begin, c.end, c.reason) for c in found] == [
        (0, 2, Trigger.IDLE),
        (2, 3, Trigger.BACKFILL),
    ]


GAPS = st.lists(st.integers(min_value=1, max_value=4 * HOUR), min_size=1, max_size=160)
SETTINGS = st.builds(
    MemorySettings,
    conversation_idle_seconds=st.integers(1, 9000),
    message_threshold=st.integers(1, 60),
)


def as_seen_at(times, moments, settings):
    """The segments that passes at these moments cut, each going on where the last one ended."""
    begin, segments = 0, []
    for now_us in moments:
        known = [t for t in times if t <= now_us][begin:]
        for found in cut(known, now_us, settings):
            segments.append((*known[found.begin : found.end], found.reason, found.closed_us))
        begin = sum(len(s) - 2 for s in segments)
    return segments


@given(gaps=GAPS, settings=SETTINGS, step=st.integers(60 * SECOND, 6 * HOUR))
def test_segments_do_not_depend_on_the_schedule(gaps, settings, step):
    times = list(accumulate(gaps))
    end = times[-1] + 3 * HOUR
    once = as_seen_at(times, [end], settings)
    often = as_seen_at(times, [*range(times[0], end, step), end], settings)
    assert often == once


@given(gaps=GAPS, settings=SETTINGS)
def test_every_message_is_in_one_segment_or_waits_behind_them(gaps, settings):
    times = list(accumulate(gaps))
    cuts = cut(times, times[-1], settings)
    ends = [0, *(c.end for c in cuts)]
    assert [c.begin for c in cuts] == ends[:-1]
    assert all(0 < c.end - c.begin <= settings.message_threshold for c in cuts)
    assert len(times) - ends[-1] < settings.message_threshold
