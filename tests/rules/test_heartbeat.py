"""When a worker hangs. A heartbeat is a minute; moments are seconds before now."""

from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.heartbeat import hangs

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


def ago(seconds: int) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("started", "beat", "watched", "is_hung"),
    [
        pytest.param(900, 50, 900, False, id="a recent heartbeat"),
        pytest.param(900, 89, 900, False, id="not yet one and a half heartbeats"),
        pytest.param(900, 91, 900, True, id="more than one and a half heartbeats"),
        pytest.param(
            900, 800, 30, False, id="watched again since half a minute: the machine slept"
        ),
        pytest.param(900, 800, 91, True, id="silent all the time since the machine woke"),
        pytest.param(119, None, 900, False, id="new, and no heartbeat yet"),
        pytest.param(121, None, 900, True, id="no heartbeat since its start"),
        pytest.param(900, None, 90, False, id="no heartbeat, and watched only now"),
        pytest.param(119, 300, 900, False, id="new: the heartbeat is of the one before"),
        pytest.param(121, 300, 900, True, id="no heartbeat except of the one before"),
    ],
)
def test_a_worker_hangs(started: int, beat: int | None, watched: int, *, is_hung: bool) -> None:
    assert is_hung is hangs(
        NOW,
        started_at=ago(started),
        last_beat=None if beat is None else ago(beat),
        watched_since=ago(watched),
        heartbeat=timedelta(minutes=1),
    )


@pytest.mark.parametrize(("started", "is_hung"), [(29, False), (31, True)])
def test_a_short_heartbeat_leaves_time_to_start(started: int, *, is_hung: bool) -> None:
    second = timedelta(seconds=1)
    facts = {"last_beat": None, "watched_since": ago(900), "heartbeat": second}
    assert hangs(NOW, started_at=ago(started), **facts) is is_hung
