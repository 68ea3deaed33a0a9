"""What a sync looks at again, and when."""

from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.sync import resync_schedule

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("mark_days_ago", "goes_back"),
    [
        pytest.param(None, None, id="never walked: to the beginning"),
        pytest.param(0, 30, id="through the hot window"),
        pytest.param(29, 30, id="still"),
        pytest.param(180, 180, id="or to the mark, where that is older"),
    ],
)
def test_how_far_down_a_walk_goes(mark_days_ago, goes_back):
    mark = "" if mark_days_ago is None else ts_from_micros(to_micros(NOW - mark_days_ago * DAY))
    end_us = resync_schedule.end_of_walk(mark, to_micros(NOW))
    assert end_us == (0 if goes_back is None else to_micros(NOW - goes_back * DAY))


@pytest.mark.parametrize(
    ("due", "limit"),
    [
        (resync_schedule.sweep_is_due, timedelta(days=7)),
        (resync_schedule.members_are_due, timedelta(hours=1)),
    ],
)
def test_what_is_due_after_a_time(due, limit):
    assert due(None, NOW)
    assert due(NOW - limit, NOW)
    assert not due(NOW - limit + timedelta(seconds=1), NOW)


@pytest.mark.parametrize(
    ("threads", "since", "share"),
    [
        pytest.param(0, DAY, 0, id="no threads"),
        pytest.param(2000, None, 0, id="the ring begins now"),
        pytest.param(2000, timedelta(seconds=30), 0, id="right after the last one"),
        pytest.param(2000, DAY, 74, id="a day's share"),
        pytest.param(2000, resync_schedule.PACE, 2000, id="a whole turn"),
        pytest.param(2000, 400 * DAY, 2000, id="never more than all"),
        pytest.param(2000, -DAY, 0, id="a clock that was put back"),
        pytest.param(3, 8 * DAY, 0, id="few threads: not every day"),
        pytest.param(3, 9 * DAY, 1, id="but in time"),
    ],
)
def test_the_share_of_the_ring(threads, since, share):
    turned_to = NOW - since if since is not None else None
    assert resync_schedule.turn_of_ring(threads, turned_to, NOW).threads == share


def test_a_turn_of_the_ring_by_small_steps_reads_each_thread_once():
    turned_to, read, now = NOW, 0, NOW
    while now - NOW < resync_schedule.PACE:
        now += resync_schedule.SYNC_EVERY
        turn = resync_schedule.turn_of_ring(700, turned_to, now)
        assert turn.threads <= 1
        read += turn.threads
        turned_to += turn.threads * turn.each
    assert read in (699, 700)


@pytest.mark.parametrize(
    ("seconds_ago", "fresh"), [(None, False), (0, True), (239, True), (240, False)]
)
def test_what_is_fresh(seconds_ago, fresh):
    at = None if seconds_ago is None else NOW - timedelta(seconds=seconds_ago)
    assert resync_schedule.is_fresh(at, NOW) is fresh
    assert resync_schedule.FRESH < resync_schedule.SYNC_EVERY


def test_a_turn_and_the_rest_fit_into_the_ring():
    assert resync_schedule.REST + resync_schedule.PACE < resync_schedule.RING


def test_what_is_old_and_what_is_new_take_turns():
    tossed = [resync_schedule.looks_back_first(NOW + timedelta(minutes=n)) for n in range(1000)]
    assert 400 < sum(tossed) < 600
    five = [
        resync_schedule.looks_back_first(NOW + n * resync_schedule.SYNC_EVERY) for n in range(1000)
    ]
    assert 400 < sum(five) < 600
