"""The numbers of waiting messages, and the parts of a coverage bar."""

import pytest

from memories.rules.generate.coverage import MessageCounts, Waiting, build_waiting
from memories.rules.generate.segments import Trigger, should_update_short_term_memory
from memories.rules.ingest.timestamps import SECOND
from memories.rules.settings import MemorySettings

NOW = 1_800_000_000 * SECOND


def waiting_after(new: int, quiet_seconds: int, **settings: int) -> Waiting | None:
    rules = MemorySettings(**settings)  # type: ignore[arg-type]
    latest = NOW - quiet_seconds * SECOND if new else None
    return build_waiting(
        should_update_short_term_memory(latest, new, NOW, rules, has_memory=True), rules
    )


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
def test_the_numbers_of_waiting_messages(
    new: int, quiet: int, settings: dict[str, int], numbers: tuple[int, ...]
) -> None:
    waiting = waiting_after(new, quiet, **settings)
    assert waiting is not None
    actual = (
        waiting.new,
        waiting.threshold,
        waiting.quiet,
        waiting.idle,
        waiting.in_seconds,
        waiting.is_due,
    )
    assert actual == numbers
    due_us = NOW + (waiting.idle * (1 if waiting.in_seconds else 60) - quiet) * SECOND
    assert waiting.recheck_us == (None if waiting.is_due else due_us)
    assert (waiting.reason is Trigger.WAITING) is not waiting.is_due


def test_nothing_waits_without_a_new_message() -> None:
    assert waiting_after(0, 0) is None


@pytest.mark.parametrize(
    ("share", "widths"),
    [
        (MessageCounts(), (0, 0, 0)),
        (MessageCounts(remembered=10), (120, 0, 0)),
        (MessageCounts(waiting=3), (0, 120, 0)),
        (MessageCounts(75, 25, 0), (90, 30, 0)),
        (MessageCounts(10_000, 1, 1), (116, 2, 2)),
    ],
    ids=str,
)
def test_the_widths_of_a_bar(share: MessageCounts, widths: tuple[int, int, int]) -> None:
    assert share.widths(120) == widths
