"""Merges by operations: lines stay as they are except those that a reply changes (DESIGN 3).

`reply_operations` parses the operations of a reply. Code decides here which of them to apply.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from memories.rules import salience
from memories.rules.ingest.timestamps import HOUR
from memories.rules.memory.kinds import Kind
from memories.rules.memory.lines import split_history
from memories.rules.summariser import ParsedReply, ReplyLine, Request
from memories.rules.tokens import estimate_tokens

ARCHIVE_HALF_LIFE = 30 * 24 * HOUR  # microseconds after which a line has half its value


class DropReason(StrEnum):
    """The reason for not applying an operation."""

    UNKNOWN_LINE = "unknown_line"  # no line has this number
    KEPT_LINE = "kept_line"  # a person wrote or pinned the line
    OLDER_NEWS = "older_news"  # the line is newer than the sources of the operation
    DUPLICATE = "known"  # the memory already has this statement


@dataclass(frozen=True)
class Change:
    """An operation with its line; ``line`` is None if it removes its targets.

    ``refs`` are the numbers of its source lines, in the memory or in the texts to merge.
    """

    line: ReplyLine | None
    targets: tuple[int, ...] = ()
    refs: tuple[int, ...] = ()


def apply_operations(
    request: Request, changes: Sequence[Change], covers: Callable[[str, str], bool]
) -> ParsedReply:
    """Return the text after these changes, with the outcome of each line and operation.

    ``covers(a, b)`` returns whether text ``a`` states all of text ``b``. A line that replaces
    others takes the place of the first one; an added line is the last. An operation may name a line
    of an earlier operation by the number of its source. So one merge and two merges give the same
    text. Over the token limit, the lines of least value go to the archive. Lines of people stay.
    """
    text = _WorkingText(request)
    for change in changes:
        drop = text.find_drop_reason(change)
        if drop is None and change.line is not None and not change.targets:
            new_text = change.line.text
            is_known = any(covers(line.text, new_text) for line in text.lines.values())
            drop = DropReason.DUPLICATE if is_known else None
        if drop is not None:
            dropped_text = change.line.text if change.line else text.target_texts(change)
            text.dropped.append((dropped_text, drop))
        else:
            text.apply(change)
    return text.result()


class _WorkingText:
    """A memory's lines while operations change them.

    ``lines`` are the current lines by place. The place of an existing line is its number. New lines
    have larger places than all numbers in the request.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.existing = {line.ref: line for line in request.existing}
        self.at_us = {line.ref: line.at_us for line in request.memory_lines}
        self.newest_us = max(self.at_us.values(), default=0)
        self.lines = {
            ref: ReplyLine(line.text, (ref,), line.kind) for ref, line in self.existing.items()
        }
        self.place_by_source: dict[int, int] = {}  # of new lines, by the number of their source
        self.successors: dict[int, int | None] = {}  # of removed lines: the place of the new line
        self.dropped: list[tuple[str, str]] = []
        self._new_places = count(max(self.at_us, default=0) + 1)

    def find_drop_reason(self, change: Change) -> DropReason | None:
        places = self._places(change)
        is_replaced = any(ref in self.successors for ref in change.targets)
        if is_replaced or any(place not in self.lines for place in places):
            return DropReason.UNKNOWN_LINE
        if any(place in self.existing and self.existing[place].by_person for place in places):
            return DropReason.KEPT_LINE
        new_times = [self.at_us.get(ref, 0) for ref in change.refs if ref not in self.existing]
        if change.line is not None and len(places) > 1 and change.refs and not new_times:
            return None  # it makes one line of several and brings no news
        newest_us = max(new_times, default=0)
        if any(self._time(self.lines[place]) > newest_us for place in places):
            return DropReason.OLDER_NEWS
        return None

    def target_texts(self, change: Change) -> str:
        return " ".join(
            self.existing[ref].text if ref in self.existing else f"L{ref}" for ref in change.targets
        )

    def apply(self, change: Change) -> None:
        places = self._places(change)
        new_place = None
        if change.line is not None:
            # A line that changes between event and current statement moves to the end.
            is_in_place = places and _is_event(self.lines[places[0]]) is _is_event(change.line)
            new_place = places[0] if is_in_place else next(self._new_places)
        for place in places:
            del self.lines[place]
            self.successors |= {ref: new_place for ref, p in self.successors.items() if p == place}
            if place in self.existing:
                self.successors.setdefault(place, new_place)
        if change.line is not None and new_place is not None:
            self.lines[new_place] = change.line
            new_refs = (ref for ref in change.line.refs if ref not in self.existing)
            self.place_by_source |= dict.fromkeys(new_refs, new_place)

    def result(self) -> ParsedReply:
        kept, archived = self._fit_limit()
        return ParsedReply(
            lines=order_lines(kept, self._time),
            superseded={
                ref: self.lines[place].text
                for ref, place in self.successors.items()
                if place is not None
            },
            settled=tuple(ref for ref, place in self.successors.items() if place is None),
            archived=tuple(archived),
            dropped=tuple(self.dropped),
            uses_operations=True,
        )

    def _places(self, change: Change) -> list[int]:
        """Return the places of the targets. An unknown number is its own place."""
        return list(dict.fromkeys(self.place_by_source.get(ref, ref) for ref in change.targets))

    def _time(self, line: ReplyLine) -> int:
        """Return the time of the newest source.

        A line without sources is as new as the newest line.
        """
        return max((self.at_us.get(ref, 0) for ref in line.refs), default=self.newest_us)

    def _fit_limit(self) -> tuple[list[ReplyLine], list[ReplyLine]]:
        """Return the lines within the token limit, and the archived ones.

        New lines and lines of people are never archived.
        """
        lines = [self.lines[place] for place in sorted(self.lines)]
        old_lines = {
            id(self.lines[ref])
            for ref, line in self.existing.items()
            if ref in self.lines and ref not in self.successors and not line.by_person
        }
        size = sum(estimate_tokens(line.text) for line in lines)
        archived: set[int] = set()
        for n in self._by_value(lines):
            if size <= self.request.max_tokens:
                break
            if id(lines[n]) in old_lines:
                archived.add(n)
                size -= estimate_tokens(lines[n].text)
        return (
            [line for n, line in enumerate(lines) if n not in archived],
            [lines[n] for n in sorted(archived)],
        )

    def _by_value(self, lines: Sequence[ReplyLine]) -> list[int]:
        """Return the indexes of the lines, least value first.

        Events come first. Then the value is the salience for the length, halved each
        ARCHIVE_HALF_LIFE.
        """
        words = [salience.content_words(line.text) for line in lines]
        worths = salience.word_worth(words)

        def value(n: int) -> tuple[bool, float, int]:
            line, at_us = lines[n], self._time(lines[n])
            density = salience.worth_per_token(
                line.text, words[n], worths, estimate_tokens(line.text)
            )
            age = (self.newest_us - at_us) / ARCHIVE_HALF_LIFE
            return not _is_event(line), density * math.pow(0.5, age), at_us

        return sorted(range(len(lines)), key=value)


def order_lines(lines: Sequence[ReplyLine], time_of: Callable[[ReplyLine], int]) -> list[ReplyLine]:
    """Return the lines that hold now, then the events, oldest first."""
    now, history = split_history(lines, lambda line: (line.kind or "", time_of(line)))
    return [*now, *history]


def _is_event(line: ReplyLine) -> bool:
    return line.kind is Kind.EVENT
