"""When a cluster hangs. A heartbeat is a minute; moments are seconds before now."""

from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.liveness import is_hung

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


def ago(seconds: int | None) -> datetime | None:
    return None if seconds is None else NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("born", "sign", "asked", "hung"),
    [
        pytest.param(900, 50, None, False, id="answers"),
        pytest.param(900, 50, 1, False, id="just asked"),
        pytest.param(900, 10, 300, False, id="busy: no answer, but signs"),
        pytest.param(900, 89, 61, False, id="not one and a half heartbeats yet"),
        pytest.param(900, 91, 31, True, id="silent for so long, asked half a one ago"),
        pytest.param(900, 800, 30, False, id="silent, but asked only now: the machine slept"),
        pytest.param(900, 800, None, False, id="silent, and nobody asked"),
        pytest.param(100, None, 90, False, id="young, and no sign yet"),
        pytest.param(121, None, 90, True, id="never began"),
        pytest.param(100, 300, 290, False, id="the signs were of the one before"),
        pytest.param(121, 300, 290, True, id="the one before gave signs, this never did"),
    ],
)
def test_a_cluster_hangs(born: int, sign: int | None, asked: int | None, *, hung: bool) -> None:
    beat = timedelta(minutes=1)
    facts = {"last_sign": ago(sign), "asked_at": ago(asked)}
    assert is_hung(NOW, born=NOW - timedelta(seconds=born), heartbeat=beat, **facts) is hung


def test_a_quick_heartbeat_leaves_time_to_start() -> None:
    second = timedelta(seconds=1)
    facts = {"last_sign": None, "asked_at": ago(20), "heartbeat": second}
    assert not is_hung(NOW, born=NOW - timedelta(seconds=29), **facts)
    assert is_hung(NOW, born=NOW - timedelta(seconds=31), **facts)
