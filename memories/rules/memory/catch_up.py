"""Rules of the page "Catch up": the start of the news, the new lines, and what needs attention."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from memories.rules import backfill_input
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.compare import ChangeKind, DiffRow, changed_rows, compare_lines
from memories.rules.memory.lines import split_text, strip_bullet

SEEN = "seen"
PERIODS = {"24h": timedelta(hours=24), "7d": timedelta(days=7)}
MAX_LOST_PERCENT = 30  # of the lines of a text
UNANSWERED_AFTER = timedelta(days=7)


class NewsKey(NamedTuple):
    """The place of a memory in the list, the highest first. ``value`` is that of its new lines."""

    is_followed: int
    value: int
    at_us: int
    memory: int


@dataclass(frozen=True)
class Since:
    """The start of the news.

    ``choice`` is its value in a URL: ``seen``, ``24h``, ``7d`` or a day. ``us`` is the moment in
    microseconds. It is None for ``seen``: each text is then compared with the version that the
    reader saw last. ``late_us`` is set for a digest: a message after it is news too, if no text had
    it at ``us``.
    """

    choice: str = SEEN
    us: int | None = None
    late_us: int | None = None

    @property
    def is_seen(self) -> bool:
        return self.us is None

    def start_of_news(self, known_until_us: int) -> int | None:
        """Return the time after which lines of a memory are news, None for ``seen``.

        ``known_until_us`` is the end of the period of its text at ``us``, 0 if that is not known.
        """
        if self.us is None or self.late_us is None or not known_until_us:
            return self.us
        return max(self.late_us, min(self.us, known_until_us))


def parse_since(choice: str, now: datetime, zone: tzinfo) -> Since:
    """Parse the value of a URL. An empty one means ``seen``; a day begins in ``zone``.

    Raise backfill_input.InvalidInput for anything else, and for a day in the future.
    """
    choice = choice.strip()
    if choice in ("", SEEN):
        return Since()
    if choice in PERIODS:
        return Since(choice, to_micros(now - PERIODS[choice]))
    if "-" not in choice:  # backfill_input.parse_since also accepts a number of days
        raise backfill_input.InvalidInput(choice)
    us = backfill_input.parse_since(choice, now, zone)
    if us > to_micros(now):
        raise backfill_input.InvalidInput(choice)
    return Since(choice, us)


def compare_unmoved(old: str, new: str) -> list[DiffRow]:
    """Return the changed lines in reading order.

    A line that is in both texts is no change if it moved.
    """
    before, after = split_text(old), split_text(new)
    in_both = Counter(map(strip_bullet, before)) & Counter(map(strip_bullet, after))
    old_positions = _positions_without(before, in_both)
    new_positions = _positions_without(after, in_both)
    rows = compare_lines(
        "\n".join(before[i] for i in old_positions), "\n".join(after[j] for j in new_positions)
    )
    return [
        replace(
            row,
            old=None if row.old is None else old_positions[row.old],
            new=None if row.new is None else new_positions[row.new],
        )
        for row in changed_rows(rows)
    ]


def _positions_without(lines: Sequence[str], excluded: Counter[str]) -> list[int]:
    remaining = excluded.copy()
    positions = []
    for i, line in enumerate(lines):
        if remaining[strip_bullet(line)]:
            remaining[strip_bullet(line)] -= 1
        else:
            positions.append(i)
    return positions


def loses_many_lines(old: str, rows: Sequence[DiffRow]) -> bool:
    """Return whether more than 30 % of the old lines were removed."""
    removed = sum(row.kind is ChangeKind.REMOVED for row in rows)
    return 100 * removed > MAX_LOST_PERCENT * len(split_text(old))


def format_cursor(key: NewsKey) -> str:
    """Return the cursor behind this key.

    A key, unlike a page number, stays valid when other memories come or go.
    """
    return "-".join(map(str, key))


def parse_cursor(text: str) -> NewsKey | None:
    """Parse the result of `format_cursor`. Return None for any other text."""
    parts = text.split("-")
    if not all(part.isascii() and part.isdigit() and len(part) < 18 for part in parts):
        return None
    return NewsKey(*map(int, parts)) if len(parts) == len(NewsKey._fields) else None
