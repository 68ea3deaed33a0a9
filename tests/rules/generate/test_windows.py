"""Where waiting messages are cut: before, within and after what was cut already."""

import pytest

from memories.rules.generate.segments import Due, Trigger
from memories.rules.generate.windows import windows
from memories.rules.ingest.timestamps import HOUR
from memories.rules.settings import MemorySettings

SETTINGS = MemorySettings(message_threshold=3)
DUE = Due(due=True, reason=Trigger.IDLE, new_count=1, quiet_us=0)
NOT_DUE = Due(due=False, reason=Trigger.WAITING, new_count=1, quiet_us=0)


@pytest.mark.parametrize(
    ("hours", "cut_from", "frontier", "due", "found"),
    [
        pytest.param([], None, None, DUE, [], id="nothing"),
        pytest.param([1, 1, 1, 1], None, None, DUE, [(0, 3), (3, 4)], id="from the beginning"),
        pytest.param([1, 99], None, None, DUE, [(0, 1)], id="the last one is open"),
        pytest.param([1, 2, 9], 10, 20, DUE, [(0, 2), (2, 3)], id="before what was cut"),
        pytest.param([12, 13], 10, 20, DUE, [(0, 2)], id="late, and quiet for long enough"),
        pytest.param([12, 13], 10, 20, NOT_DUE, [], id="late, and not due"),
        pytest.param([12, 50, 60], 10, 20, DUE, [(0, 2), (2, 3)], id="late ones go with the next"),
        pytest.param([12, 99], 10, 20, DUE, [], id="late ones wait for the open one"),
        pytest.param([1, 12, 50], 10, 20, DUE, [(0, 1), (1, 3)], id="all three"),
    ],
)
def test_windows(
    hours: list[int],
    cut_from: int | None,
    frontier: int | None,
    due: Due,
    found: list[tuple[int, int]],
) -> None:
    def us(hour: int | None) -> int | None:
        return None if hour is None else hour * HOUR

    times = [hour * HOUR for hour in hours]
    cuts = windows(times, us(cut_from), us(frontier), due, 100 * HOUR, SETTINGS)
    assert [(cut.begin, cut.end) for cut in cuts] == found


def test_without_history_all_that_waits_is_one() -> None:
    settings = MemorySettings(history_enabled=False)
    [cut] = windows([HOUR, 90 * HOUR], None, None, DUE, 100 * HOUR, settings)
    assert (cut.begin, cut.end, cut.reason) == (0, 2, Trigger.HISTORY_OFF)


@pytest.mark.parametrize(
    ("hours", "cut_from", "frontier", "found"),
    [
        ([], None, None, []),
        ([99], None, None, [(0, 1, Trigger.ASKED)]),
        ([1, 99], None, None, [(0, 1, Trigger.IDLE), (1, 2, Trigger.ASKED)]),
        ([12, 99], 10, 20, [(0, 2, Trigger.ASKED)]),
        ([12], 10, 20, [(0, 1, Trigger.ASKED)]),
        (
            [1, 12, 50, 99],
            10,
            20,
            [(0, 1, Trigger.IDLE), (1, 3, Trigger.IDLE), (3, 4, Trigger.ASKED)],
        ),
    ],
    ids=str,
)
def test_asked_for_nothing_stays_open(
    hours: list[int],
    cut_from: int | None,
    frontier: int | None,
    found: list[tuple[int, int, Trigger]],
) -> None:
    def us(hour: int | None) -> int | None:
        return None if hour is None else hour * HOUR

    times = [hour * HOUR for hour in hours]
    cuts = windows(times, us(cut_from), us(frontier), NOT_DUE, 100 * HOUR, SETTINGS, asked=True)
    assert [(cut.begin, cut.end, cut.reason) for cut in cuts] == found
