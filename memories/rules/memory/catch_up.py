"""For somebody who was away: since when, which lines are new to them, and what deserves a look."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from memories.rules.costs import orders
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.compare import ChangeKind, DiffRow, changed_rows, compare_lines
from memories.rules.memory.lines import split_text, words_of

SEEN = "seen"
PERIODS = {"24h": timedelta(hours=24), "7d": timedelta(days=7)}
QUIET_AFTER = timedelta(days=14)
MOST_LOST = 30  # percent of the lines of a text
OPEN_FOR = timedelta(days=7)  # so long a question may wait for its answer


@dataclass(frozen=True)
class Since:
    """``choice`` as it stands in an address: ``seen``, ``24h``, ``7d`` or a day. ``us`` is its
    moment; None where each text is held against the one that was last seen of it."""

    choice: str = SEEN
    us: int | None = None

    @property
    def is_seen(self) -> bool:
        return self.us is None


def read_since(choice: str, now: datetime, zone: tzinfo) -> Since:
    """Nothing means ``seen``; a day begins in ``zone``. Raises orders.Unreadable, for a day that is
    yet to come as well."""
    choice = choice.strip()
    if choice in ("", SEEN):
        return Since()
    if choice in PERIODS:
        return Since(choice, to_micros(now - PERIODS[choice]))
    if "-" not in choice:  # an order of a backfill may be a number of days
        raise orders.Unreadable(choice)
    us = orders.read_since(choice, now, zone)
    if us > to_micros(now):
        raise orders.Unreadable(choice)
    return Since(choice, us)


def news(old: str, new: str) -> list[DiffRow]:
    """What differs, in reading order. A line that stands in both texts is no news, wherever it moved
    to. ``old`` and ``new`` of a row count the lines of the whole texts."""
    before, after = split_text(old), split_text(new)
    both = Counter(map(words_of, before)) & Counter(map(words_of, after))
    olds, others = _others(before, both), _others(after, both)
    rows = compare_lines("\n".join(before[i] for i in olds), "\n".join(after[j] for j in others))
    return [
        replace(
            row,
            old=None if row.old is None else olds[row.old],
            new=None if row.new is None else others[row.new],
        )
        for row in changed_rows(rows)
    ]


def _others(lines: Sequence[str], both: Counter[str]) -> list[int]:
    """The places of the lines that are not among these."""
    left = both.copy()
    places = []
    for i, line in enumerate(lines):
        if left[words_of(line)]:
            left[words_of(line)] -= 1
        else:
            places.append(i)
    return places


def loses_much(old: str, rows: Sequence[DiffRow]) -> bool:
    """Whether of more than 30 % of the old lines nothing alike is left."""
    gone = sum(row.kind is ChangeKind.REMOVED for row in rows)
    return 100 * gone > MOST_LOST * len(split_text(old))


def is_quiet(new: int, latest_us: int, now: datetime) -> bool:
    """A channel that may be folded away: nothing is new, and nothing was remembered lately."""
    return not new and latest_us < to_micros(now - QUIET_AFTER)


def write_cursor(key: tuple[int, int]) -> str:
    """Where a list goes on: behind this key, so that what is marked meanwhile moves nothing."""
    return "-".join(map(str, key))


def read_cursor(text: str) -> tuple[int, int] | None:
    """None for anything that `write_cursor` did not write."""
    first, _, second = text.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) < 18 for part in (first, second)):
        return None
    return int(first), int(second)
