"""The numbers of what waits, and the parts of a coverage bar."""

import pytest

from memories.rules.generate.coverage import Share, Waiting, waiting
from memories.rules.generate.segments import Trigger, should_update_short_term_memory
from memories.rules.ingest.timestamps import SECOND
from memories.rules.settings import MemorySettings

NOW = 1_800_000_000 * SECOND


def ask(new: int, quiet_seconds: int, **settings: int) -> Waiting | None:
    rules = MemorySettings(**settings)  # type: ignore[arg-type]
    latest = NOW - quiet_seconds * SECOND if new else None
    return waiting(should_update_short_term_memory(latest, new, NOW, rules, has_memory=True), rules)


@pytest.mark.parametrize(
    ("new", "quiet", "settings", "numbers"),
    [
        pytest.param(12, 43 * 60, {}, (12, 50, 43, 120, False, False), id="waits"),
        pytest.param(12, 43 * 60 + 59, {}, (12, 50, 43, 120, False, False), id="rounded down"),
        pytest.param(50, 0, {}, (50, 50, 0, 120, False, True), id="full"),
        pytest.param(1, 9000, {}, (1, 50, 120, 120, False, True), id="idle, not beyond 120"),
        pytest.param(
            3,
            40,
            {"conversation_idle_seconds": 90},
            (3, 50, 40, 90, True, False),
            id="in seconds below two minutes",
        ),
    ],
)
def test_waiting(new: int, quiet: int, settings: dict[str, int], numbers: tuple[int, ...]) -> None:
    answer = ask(new, quiet, **settings)
    assert answer is not None
    told = (answer.new, answer.threshold, answer.quiet, answer.idle, answer.in_seconds, answer.due)
    assert told == numbers
    wanted = NOW + (answer.idle * (1 if answer.in_seconds else 60) - quiet) * SECOND
    assert answer.look_again_us == (None if answer.due else wanted)
    assert (answer.reason is Trigger.WAITING) is not answer.due


def test_nothing_new_waits_for_nothing() -> None:
    assert ask(0, 0) is None


@pytest.mark.parametrize(
    ("share", "widths"),
    [
        (Share(), (0, 0, 0)),
        (Share(remembered=10), (120, 0, 0)),
        (Share(waiting=3), (0, 120, 0)),
        (Share(75, 25, 0), (90, 30, 0)),
        (Share(10_000, 1, 1), (116, 2, 2)),
    ],
    ids=str,
)
def test_bar(share: Share, widths: tuple[int, int, int]) -> None:
    assert share.widths(120) == widths
