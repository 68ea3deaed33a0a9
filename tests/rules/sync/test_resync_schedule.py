"""Which messages a sync reads again, and when."""

from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.sync import resync_schedule

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("synced_days_ago", "goes_back"),
    [
        pytest.param(None, None, id="never synced: to the beginning"),
        pytest.param(0, 30, id="through the hot window"),
        pytest.param(29, 30, id="still"),
        pytest.param(180, 180, id="to synced_ts if it is older"),
    ],
)
def test_end_of_a_read_of_the_history(synced_days_ago, goes_back):
    synced_ts = (
        "" if synced_days_ago is None else ts_from_micros(to_micros(NOW - synced_days_ago * DAY))
    )
    end_us = resync_schedule.history_end(synced_ts, to_micros(NOW))
    assert end_us == (0 if goes_back is None else to_micros(NOW - goes_back * DAY))


@pytest.mark.parametrize(
    ("due", "limit"),
    [
        (resync_schedule.is_resync_due, timedelta(days=7)),
        (resync_schedule.are_members_due, timedelta(hours=1)),
    ],
)
def test_a_resync_and_members_are_due_after_their_time(due, limit):
    assert due(None, NOW)
    assert due(NOW - limit, NOW)
    assert not due(NOW - limit + timedelta(seconds=1), NOW)


@pytest.mark.parametrize(
    ("threads", "since", "count"),
    [
        pytest.param(0, DAY, 0, id="no threads"),
        pytest.param(2000, None, 0, id="the first sync"),
        pytest.param(2000, timedelta(seconds=30), 0, id="right after the last sync"),
        pytest.param(2000, DAY, 74, id="a day's share"),
        pytest.param(2000, resync_schedule.THREAD_PERIOD, 2000, id="a whole period"),
        pytest.param(2000, 400 * DAY, 2000, id="never more than all"),
        pytest.param(2000, -DAY, 0, id="a clock that was set back"),
        pytest.param(3, 8 * DAY, 0, id="few threads: not every day"),
        pytest.param(3, 9 * DAY, 1, id="but in time"),
    ],
)
def test_number_of_due_threads(threads, since, count):
    resynced_to = NOW - since if since is not None else None
    due_count, _ = resync_schedule.due_threads(threads, resynced_to, NOW)
    assert due_count == count


def test_frequent_syncs_read_each_thread_once_a_period():
    resynced_to, read, now = NOW, 0, NOW
    while now - NOW < resync_schedule.THREAD_PERIOD:
        now += resync_schedule.SYNC_INTERVAL
        due_count, interval = resync_schedule.due_threads(700, resynced_to, now)
        assert due_count <= 1
        read += due_count
        resynced_to += due_count * interval
    assert read in (699, 700)


@pytest.mark.parametrize(
    ("seconds_ago", "fresh"), [(None, False), (0, True), (239, True), (240, False)]
)
def test_fresh_for_four_minutes(seconds_ago, fresh):
    at = None if seconds_ago is None else NOW - timedelta(seconds=seconds_ago)
    assert resync_schedule.is_fresh(at, NOW) is fresh
    assert resync_schedule.FRESH_FOR < resync_schedule.SYNC_INTERVAL


def test_thread_rest_and_period_are_shorter_than_the_maximal_age():
    assert (
        resync_schedule.THREAD_REST + resync_schedule.THREAD_PERIOD < resync_schedule.THREAD_MAX_AGE
    )


def test_old_and_new_messages_come_first_in_turn():
    choices = [resync_schedule.starts_with_resync(NOW + timedelta(minutes=n)) for n in range(1000)]
    assert 400 < sum(choices) < 600
    choices = [
        resync_schedule.starts_with_resync(NOW + n * resync_schedule.SYNC_INTERVAL)
        for n in range(1000)
    ]
    assert 400 < sum(choices) < 600
