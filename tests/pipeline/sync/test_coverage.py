"""Coverage of a channel."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils.functional import Promise

from memories.models import Channel, ChannelSync, Workspace
from memories.pipeline.sync.coverage import Gap, coverage_of
from memories.rules.health import sync_max_age
from tests.factories import ChannelFactory, set_sync, ts_at

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def channel(of_channel=None, **of_sync) -> Channel:
    """A followed channel that is read completely, except for these values."""
    workspace = Workspace()
    workspace.sync_max_age = sync_max_age(1)
    given = {"workspace": workspace, "is_followed": True, "bot_is_in": True}
    row = Channel(**given | (of_channel or {}))
    row.sync = ChannelSync(**{"synced_at": ago(0), "synced_ts": ts_at(ago(1))} | of_sync)
    return row


def test_a_channel_read_to_the_end_is_complete():
    coverage = coverage_of(channel(synced_at=NOW - timedelta(minutes=3)), NOW)
    assert (coverage.begin, coverage.end, coverage.gaps) == (None, ago(1), ())
    assert (coverage.behind, coverage.code, coverage.is_complete) == (180, "", True)


def test_a_first_read_in_progress_has_a_gap_at_the_beginning():
    values = {"synced_ts": "", "synced_at": None}
    places = {"history_newest_ts": ts_at(ago(1)), "history_reached_ts": ts_at(ago(9))}
    coverage = coverage_of(channel(**values, **places), NOW)
    assert (coverage.begin, coverage.end, coverage.behind) == (ago(9), ago(1), None)
    assert coverage.gaps == (Gap(None, ago(9)),)
    assert coverage.code == "reading_history"


def test_a_later_read_in_progress_has_a_gap_above_synced_ts():
    places = {"history_newest_ts": ts_at(ago(1)), "history_reached_ts": ts_at(ago(9))}
    coverage = coverage_of(channel(synced_ts=ts_at(ago(20)), synced_at=ago(20), **places), NOW)
    assert (coverage.begin, coverage.end) == (None, ago(1))
    assert coverage.gaps == (Gap(ago(20), ago(9)),)


def test_a_read_below_synced_ts_has_no_gap():
    """Only what is known already is looked at once more."""
    places = {"history_newest_ts": ts_at(ago(1)), "history_reached_ts": ts_at(ago(25))}
    coverage = coverage_of(channel(synced_ts=ts_at(ago(2)), **places), NOW)
    assert (coverage.gaps, coverage.code) == ((), "")


def test_the_text_of_an_error_is_in_the_language_of_the_reader():
    for code in ("internal_error", "failed", "never_heard_of"):
        coverage = coverage_of(channel(error_code=code, error_text="what Slack said"), NOW)
        assert isinstance(coverage.why, Promise), "translated when it is read"
        assert str(coverage.why) and "what Slack said" not in str(coverage.why)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"of_channel": {"is_followed": False, "bot_is_in": False}}, "not_followed"),
        ({"of_channel": {"is_followed": False, "forgotten_at": NOW}}, "forgotten"),
        ({"of_channel": {"bot_is_in": False}, "error_code": "ratelimited"}, "not_in_channel"),
        ({"error_code": "ratelimited"}, "ratelimited"),
        ({"error_code": "internal_error", "error_text": "what Slack said"}, "internal_error"),
        ({"synced_at": None, "synced_ts": ""}, "new"),
        ({"history_started_at": NOW}, "threads"),
        ({"synced_at": ago(1)}, "late"),
    ],
)
def test_reason_why_a_channel_is_incomplete(values, code):
    coverage = coverage_of(channel(**values), NOW)
    assert coverage.code == code
    assert str(coverage.why)
    assert not coverage.is_complete


def test_as_json():
    places = {"history_newest_ts": ts_at(ago(1)), "history_reached_ts": ts_at(ago(9))}
    coverage = coverage_of(channel(synced_ts="", synced_at=None, **places), NOW).as_json()
    assert coverage == {
        "from": "2026-02-21T12:00:00+00:00",
        "to": "2026-03-01T12:00:00+00:00",
        "gaps": [{"from": None, "to": "2026-02-21T12:00:00+00:00"}],
        "behind": None,
        "code": "reading_history",
        "why": "Older messages are being read.",
    }


@pytest.mark.django_db
def test_a_channel_without_sync_state_is_not_failing():
    row = ChannelFactory(is_followed=True, bot_is_in=True)
    assert not Channel.objects.failing({""}).exists()
    assert Channel.objects.past_first_sync().get() == row
    set_sync(row, error_code="internal_error", history_newest_ts="1.000000")
    assert Channel.objects.failing({""}).get() == row
    assert not Channel.objects.past_first_sync().exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "waits"),
    [
        ({}, True),
        ({"bot_is_in": False}, False),
        ({"bot_is_in": False, "is_archived": True}, False),
        ({"is_followed": False}, False),
        ({"is_followed": False, "forgotten_at": NOW}, False),
    ],
    ids=["readable", "without the bot", "archived", "unfollowed", "forgotten"],
)
def test_threads_that_no_sync_can_read_are_not_waited_for(change: dict[str, Any], waits: bool):
    row = ChannelFactory(is_followed=True, bot_is_in=True)
    set_sync(row, synced_ts="1.000000", synced_at=None, history_started_at=NOW)
    row.update_fields(change)
    assert Channel.objects.past_first_sync().exists() is not waits
