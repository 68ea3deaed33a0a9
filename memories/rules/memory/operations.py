"""Merges by operations: lines stay as they are except those that a reply changes.

`reply_operations` parses the operations of a reply. Code decides here which of them to apply
(docs/rules.md, Merges by operations).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count

from memories.rules import salience
from memories.rules.ingest.timestamps import HOUR
from memories.rules.memory.kinds import Kind
from memories.rules.memory.lines import split_history
from memories.rules.memory.superseding import find_superseded
from memories.rules.summariser import MemoryLine, ParsedReply, ReplyLine, Request
from memories.rules.tokens import estimate_tokens

ARCHIVE_HALF_LIFE = 30 * 24 * HOUR  # microseconds after which a line has half its value


class DropReason(StrEnum):
    """The reason for not applying an operation."""

    UNKNOWN_LINE = "unknown_line"  # no line has this number
    KEPT_LINE = "kept_line"  # a person wrote or pinned the line
    OLDER_NEWS = "older_news"  # the line is newer than the sources of the operation
    DUPLICATE = "known"  # the memory already has this statement


def operation_text(dropped: str) -> str:
    """Return the text of an operation that was not applied, stored as ``reason: text``."""
    return dropped.partition(": ")[2]


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
    text = _WorkingText(request, covers)
    for change in changes:
        text.carry_out(change)
    return text.result()


def apply_additions(
    request: Request, lines: Iterable[ReplyLine], covers: Callable[[str, str], bool]
) -> ParsedReply:
    """Return the text after these lines are added, the line with the oldest source first.

    Each line replaces the lines that it supersedes, also lines of the same reply.
    """
    text = _WorkingText(request, covers)
    for line in sorted(lines, key=text.time_of):
        text.add(line)
    return text.result()


class _WorkingText:
    """A memory's lines while operations change them.

    ``lines`` are the current lines by number. New lines have larger numbers than all lines of the
    request.
    """

    def __init__(self, request: Request, covers: Callable[[str, str], bool]) -> None:
        self.request = request
        self.covers = covers
        self.existing = {line.ref: line for line in request.existing}
        self.texts = {line.ref: line.text for line in request.memory_lines}
        self.at_us = {line.ref: line.at_us for line in request.memory_lines}
        self.newest_us = max(self.at_us.values(), default=0)
        self.lines = {
            ref: ReplyLine(line.text, (ref,), line.kind) for ref, line in self.existing.items()
        }
        self.number_by_source: dict[int, int] = {}  # of new lines, by the number of their source
        self.successors: dict[int, int | None] = {}  # of removed lines: the number of the new line
        self.dropped: list[tuple[str, str]] = []
        self._new_numbers = count(max(self.at_us, default=0) + 1)

    def carry_out(self, change: Change) -> None:
        """Apply an operation, or drop it with the reason."""
        numbers = self._numbers(change)
        if reason := self._find_drop_reason(change, numbers):
            text = change.line.text if change.line else self._target_texts(change)
            self.dropped.append((text, reason))
        else:
            self._replace(numbers, change.line)

    def add(self, line: ReplyLine) -> None:
        """Add a line in the place of the lines that it supersedes, or drop it if it is known."""
        numbers = self._find_superseded(line)
        if not numbers and self._is_known(line):
            self.dropped.append((line.text, DropReason.DUPLICATE))
        else:
            self._replace(numbers, line)

    def _find_superseded(self, new: ReplyLine) -> list[int]:
        """Return the numbers of superseded lines, none if one of them already states the new line.

        A line of the same reply is superseded only if it is older.
        """
        newest_us = max(self._news_times(new.refs), default=0)
        lines = [
            MemoryLine(number, line.text, kind=line.kind, at_us=self.time_of(line))
            for number, line in self.lines.items()
            if not (number in self.existing and self.existing[number].by_person)
            and (self._is_unchanged(number) or self.time_of(line) < newest_us)
        ]
        numbers = find_superseded(new.text, newest_us, lines)
        is_known = any(self.covers(self.lines[number].text, new.text) for number in numbers)
        return [] if is_known else numbers

    def _find_drop_reason(self, change: Change, numbers: Sequence[int]) -> DropReason | None:
        is_replaced = any(ref in self.existing and ref in self.successors for ref in change.targets)
        if is_replaced or any(number not in self.lines for number in numbers):
            return DropReason.UNKNOWN_LINE
        if any(number in self.existing and self.existing[number].by_person for number in numbers):
            return DropReason.KEPT_LINE
        if change.line is not None and not numbers:
            return DropReason.DUPLICATE if self._is_known(change.line) else None
        news_times = self._news_times(change.refs)
        rests_on_targets = bool(change.refs) and set(change.refs) <= set(change.targets)
        if change.line is not None and len(numbers) > 1 and rests_on_targets and not news_times:
            return None  # it makes one line of several and brings no news
        newest_us = max(news_times, default=0)
        if any(self.time_of(self.lines[number]) > newest_us for number in numbers):
            return DropReason.OLDER_NEWS
        return None

    def _is_unchanged(self, number: int) -> bool:
        return number in self.existing and number not in self.successors

    def _is_known(self, new: ReplyLine) -> bool:
        return any(self.covers(line.text, new.text) for line in self.lines.values())

    def _news_times(self, refs: Sequence[int]) -> list[int]:
        """Return the times of those of these lines that the merge adds."""
        return [self.at_us.get(ref, 0) for ref in refs if ref not in self.existing]

    def _target_texts(self, change: Change) -> str:
        return " ".join(
            self.existing[ref].text if ref in self.existing else f"L{ref}" for ref in change.targets
        )

    def _replace(self, numbers: Sequence[int], line: ReplyLine | None) -> None:
        """Give a line the first of these numbers, else a new one at the end. None removes them."""
        new_number = None
        if line is not None:
            # A line that changes between event and current statement moves to the end.
            is_in_place = numbers and _is_event(self.lines[numbers[0]]) is _is_event(line)
            new_number = numbers[0] if is_in_place else next(self._new_numbers)
            if len(numbers) > 1:
                refs = (*line.refs, *(ref for number in numbers for ref in self.lines[number].refs))
                line = replace(line, refs=tuple(dict.fromkeys(refs)))
        for number in numbers:
            removed = self.lines.pop(number)
            self.successors |= {
                ref: new_number for ref, n in self.successors.items() if n == number
            }
            for ref in removed.refs:
                if self.texts.get(ref) == removed.text:
                    self.successors.setdefault(ref, new_number)
        if line is not None and new_number is not None:
            self.lines[new_number] = line
            new_refs = (ref for ref in line.refs if ref not in self.existing)
            self.number_by_source |= dict.fromkeys(new_refs, new_number)

    def result(self) -> ParsedReply:
        kept, archived = self._fit_limit()
        return ParsedReply(
            lines=order_lines(kept, self.time_of),
            superseded={
                ref: self.lines[number].text
                for ref, number in self.successors.items()
                if number is not None
            },
            settled=tuple(ref for ref, number in self.successors.items() if number is None),
            archived=tuple(archived),
            dropped=tuple(self.dropped),
            uses_operations=True,
        )

    def _numbers(self, change: Change) -> list[int]:
        """Return the current numbers of the targets."""
        return list(dict.fromkeys(self.number_by_source.get(ref, ref) for ref in change.targets))

    def time_of(self, line: ReplyLine) -> int:
        """Return the time of the newest source.

        A line without sources is as new as the newest line.
        """
        return max((self.at_us.get(ref, 0) for ref in line.refs), default=self.newest_us)

    def _fit_limit(self) -> tuple[list[ReplyLine], list[ReplyLine]]:
        """Return the lines within the token limit, and the archived ones.

        New lines and lines of people are never archived.
        """
        lines = [self.lines[number] for number in sorted(self.lines)]
        old_lines = {
            id(self.lines[ref])
            for ref, line in self.existing.items()
            if ref in self.lines and self._is_unchanged(ref) and not line.by_person
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
            line, at_us = lines[n], self.time_of(lines[n])
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
