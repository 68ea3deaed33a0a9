"""Triggers (S1), cut points (rules 1 and 2), and waiting messages around earlier segments."""

from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memories.rules.generate.segments import (
    Trigger,
    UpdateDecision,
    cut_segments,
    cut_waiting_messages,
    find_waiting_decision,
    should_update_short_term_memory,
)
from memories.rules.ingest.timestamps import HOUR, SECOND
from memories.rules.settings import MemorySettings

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
    decision = should_update_short_term_memory(
        latest_us, new, latest_us + quiet_h * HOUR, settings, has_memory=has_memory
    )
    assert (decision.is_due, decision.reason) == (due, reason)


@pytest.mark.parametrize(("short_by_us", "due"), [(0, True), (1, False)])
def test_the_idle_limit_is_inclusive(short_by_us, due):
    decision = should_update_short_term_memory(
        0, 1, 2 * HOUR - short_by_us, DEFAULT, has_memory=True
    )
    assert decision.is_due is due


@pytest.mark.parametrize(("new", "due"), [(49, False), (50, True)])
def test_the_message_limit_is_inclusive(new, due):
    assert should_update_short_term_memory(0, new, 0, DEFAULT, has_memory=True).is_due is due


def test_a_decision_includes_its_numbers_and_the_next_check():
    decision = should_update_short_term_memory(5 * HOUR, 12, 6 * HOUR, DEFAULT, has_memory=True)
    assert (decision.new_count, decision.quiet_us, decision.recheck_us) == (12, HOUR, 7 * HOUR)


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
def test_cut_segments(minutes, now, cuts):
    minute = 60 * SECOND
    ranges = cut_segments([m * minute for m in minutes], now * minute, DEFAULT)
    assert [(c.begin, c.end, c.reason.value, c.closed_us // minute) for c in ranges] == cuts


GAPS = st.lists(st.integers(min_value=1, max_value=4 * HOUR), min_size=1, max_size=160)
SETTINGS = st.builds(
    MemorySettings,
    conversation_idle_seconds=st.integers(1, 9000),
    message_threshold=st.integers(1, 60),
)


def segments_of_passes(times, moments, settings):
    """The segments that passes at these moments cut. Each pass continues after the last segment."""
    begin, segments = 0, []
    for now_us in moments:
        waiting = [t for t in times if t <= now_us][begin:]
        for closed in cut_segments(waiting, now_us, settings):
            messages = waiting[closed.begin : closed.end]
            segments.append((*messages, closed.reason, closed.closed_us))
        begin = sum(len(s) - 2 for s in segments)
    return segments


@given(gaps=GAPS, settings=SETTINGS, step=st.integers(60 * SECOND, 6 * HOUR))
def test_segments_do_not_depend_on_the_schedule(gaps, settings, step):
    times = list(accumulate(gaps))
    end = times[-1] + 3 * HOUR
    once = segments_of_passes(times, [end], settings)
    often = segments_of_passes(times, [*range(times[0], end, step), end], settings)
    assert often == once


@given(gaps=GAPS, settings=SETTINGS)
def test_every_message_is_in_one_segment_or_still_open(gaps, settings):
    times = list(accumulate(gaps))
    ranges = cut_segments(times, times[-1], settings)
    ends = [0, *(c.end for c in ranges)]
    assert [c.begin for c in ranges] == ends[:-1]
    assert all(0 < c.end - c.begin <= settings.message_threshold for c in ranges)
    assert len(times) - ends[-1] < settings.message_threshold


@given(
    gaps=GAPS,
    settings=SETTINGS,
    wait_us=st.integers(0, 3 * HOUR),
    earlier=st.none() | st.integers(-1, 100),
)
def test_messages_that_have_to_wait_are_not_cut(gaps, settings, wait_us, earlier):
    """``earlier``: after how many of them the last segment ended, None without a segment."""
    times = list(accumulate(gaps))
    now_us = times[-1] + wait_us
    assume(find_waiting_decision(times[0], times[-1], len(times), now_us, settings) is not None)
    segments_until_us = None if earlier is None else times[min(earlier, len(times) - 1)] + 1
    latest_us = max(times[-1], segments_until_us or 0)
    decision = should_update_short_term_memory(
        latest_us, len(times), now_us, settings, has_memory=True
    )
    assert (
        cut_waiting_messages(times, times[0], segments_until_us, decision, now_us, settings) == []
    )


@pytest.mark.parametrize(
    ("first_us", "new", "is_waiting"), [(1, 49, True), (0, 49, False), (1, 50, False)]
)
def test_few_young_messages_wait(first_us, new, is_waiting):
    wait = find_waiting_decision(first_us, 2 * HOUR, new, 2 * HOUR, DEFAULT)
    assert (wait is not None) is is_waiting


BY_THREES = MemorySettings(message_threshold=3)
DUE = UpdateDecision(is_due=True, reason=Trigger.IDLE, new_count=1, quiet_us=0)
NOT_DUE = UpdateDecision(is_due=False, reason=Trigger.WAITING, new_count=1, quiet_us=0)
NOW_HOUR = 100


def cut_hours(hours, earlier, decision, **options):
    """The ranges of messages at these hours. ``earlier``: first and last hour of earlier segments."""
    first, last = (None, None) if earlier is None else (hour * HOUR for hour in earlier)
    times = [hour * HOUR for hour in hours]
    return cut_waiting_messages(times, first, last, decision, NOW_HOUR * HOUR, BY_THREES, **options)


FULL, IDLE, BACKFILL, REQUESTED = (
    Trigger.FULL,
    Trigger.IDLE,
    Trigger.BACKFILL,
    Trigger.REQUESTED,
)


@pytest.mark.parametrize(
    ("hours", "earlier", "decision", "ranges"),
    [
        pytest.param([], None, DUE, [], id="nothing"),
        pytest.param(
            [1, 1, 1, 1], None, DUE, [(0, 3, FULL), (3, 4, IDLE)], id="no earlier segment"
        ),
        pytest.param([1, 99], None, DUE, [(0, 1, IDLE)], id="the last one is open"),
        pytest.param([1, 2, 9], (10, 20), DUE, [(0, 2, IDLE), (2, 3, BACKFILL)], id="before"),
        pytest.param([12, 13], (10, 20), DUE, [(0, 2, IDLE)], id="late, and due"),
        pytest.param([12, 13], (10, 20), NOT_DUE, [], id="late, and not due"),
        pytest.param(
            [12, 50, 60], (10, 20), DUE, [(0, 2, IDLE), (2, 3, IDLE)], id="late ones join the next"
        ),
        pytest.param([12, 99], (10, 20), DUE, [], id="late ones wait for the open one"),
        pytest.param([1, 12, 50], (10, 20), DUE, [(0, 1, IDLE), (1, 3, IDLE)], id="all three"),
    ],
)
def test_waiting_messages_around_earlier_segments(hours, earlier, decision, ranges):
    cut = cut_hours(hours, earlier, decision)
    assert [(c.begin, c.end, c.reason) for c in cut] == ranges


def test_without_history_all_waiting_messages_are_one_segment():
    [whole] = cut_waiting_messages([HOUR, 90 * HOUR], None, None, DUE, 100 * HOUR, OFF)
    assert (whole.begin, whole.end, whole.reason) == (0, 2, Trigger.HISTORY_OFF)


@pytest.mark.parametrize(
    ("hours", "earlier", "ranges"),
    [
        ([], None, []),
        ([99], None, [(0, 1, REQUESTED)]),
        ([1, 99], None, [(0, 1, IDLE), (1, 2, REQUESTED)]),
        ([12, 99], (10, 20), [(0, 2, REQUESTED)]),
        ([12], (10, 20), [(0, 1, REQUESTED)]),
        ([1, 12, 50, 99], (10, 20), [(0, 1, IDLE), (1, 3, IDLE), (3, 4, REQUESTED)]),
    ],
    ids=str,
)
def test_a_request_leaves_no_message_open(hours, earlier, ranges):
    cut = cut_hours(hours, earlier, NOT_DUE, is_requested=True)
    assert [(c.begin, c.end, c.reason) for c in cut] == ranges
