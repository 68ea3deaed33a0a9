"""The opening of a briefing, and the order of channels."""

import pytest

from memories.rules.memory.briefing import NewsLine, choose_opening, count_kinds

DECISION = "The team decided to launch Kazoe 3 on 26 November."
TASK = "Mika will write the release notes by Friday, 20 November."
CHAT = "Somebody mentioned the weather near the office."


def line(text: str, kind: str = "event", at_us: int = 1, channel: int = 1) -> NewsLine:
    return NewsLine(text, kind, at_us, channel)


def test_the_best_kinds_open_in_the_order_of_time() -> None:
    lines = [line(CHAT, at_us=1), line(TASK, "task", 3), line(DECISION, "decision", 2)]
    assert choose_opening(lines, most=2) == [2, 1]


def test_the_same_news_opens_once() -> None:
    lines = [line(DECISION, "decision", 1, channel=1), line(DECISION, "decision", 2, channel=2)]
    assert choose_opening(lines) == [1]


def test_no_channel_fills_the_opening_alone() -> None:
    loud = [
        line(f"Team {n} decided to use tool number {n}.", "decision", n, channel=1)
        for n in range(6)
    ]
    quiet = line("The office moves to Osaka in March.", "status", 9, channel=2)
    assert 6 in choose_opening([*loud, quiet], most=5)


def test_a_long_line_stays_in_its_channel() -> None:
    assert choose_opening([line("word " * 100, "decision")]) == []


def test_it_has_at_most_eight_lines_and_may_be_empty() -> None:
    lines = [line(f"Service {n} moved to host {n}{n}.", channel=n) for n in range(20)]
    assert len(choose_opening(lines)) == 8
    assert choose_opening([]) == []


@pytest.mark.parametrize(
    ("kinds", "counts"),
    [
        ([], []),
        (["event", "decision", "event"], [("decision", 1), ("event", 2)]),
        (["", "question", "task"], [("task", 1), ("question", 1), ("status", 1)]),
    ],
)
def test_lines_are_counted_by_kind(kinds: list[str], counts: list[tuple[str, int]]) -> None:
    assert count_kinds(line(CHAT, kind) for kind in kinds) == counts
