"""Merging by operations: a memory's lines stay as they are, but for what a reply changes (DESIGN 3).

A reply holds one operation a row: ``+ text [n]`` adds, ``~ L12 text [n]`` replaces (``~ L12,L15 text``
condenses), ``- L12 [n]`` removes what is settled. Lines are named by the number they are shown with,
never by their place. Code decides which operations are carried out.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from memories.rules.generate import salience
from memories.rules.generate.summariser import Kind, ParsedReply, ReplyLine, Request
from memories.rules.generate.tokens import estimate_tokens
from memories.rules.ingest.timestamps import HOUR
from memories.rules.memory.lines import split_history

ARCHIVE_HALF_LIFE = 30 * 24 * HOUR  # microseconds after which a line is worth half as much

_LINES = r"\[?L(?P<lines>\d{1,6}(?:\s*(?:,|、|and|&)\s*L?\d{1,6})*)\]?"
_REPLACE = re.compile(rf"\s*[-*•]?\s*[~〜～]\s*{_LINES}\s*[:：]?\s*(?P<text>\S.*)")
_REMOVE = re.compile(
    rf"\s*[-−–—*•]\s*{_LINES}\s*(?P<text>(?:[\[［][^\[\]［］]*[\]］]\s*)*)[.。]?\s*"
)
_ADD = re.compile(r"\s*[-*•]?\s*[+＋]\s*(?P<text>\S.*)")


class DropReason(StrEnum):
    """Why an operation is not carried out."""

    UNKNOWN_LINE = "unknown_line"  # no line has this number any more
    KEPT_LINE = "kept_line"  # a person wrote or pinned the line
    OLDER_NEWS = "older_news"  # nothing newer than the line says so
    KNOWN = "known"  # the memory says it already


@dataclass(frozen=True)
class Operation:
    """One change: ``text`` in place of the lines of these numbers, in addition without any numbers;
    "" or references alone remove them."""

    text: str
    targets: tuple[int, ...] = ()
    removes: bool = False


def parse_operations(text: str) -> list[Operation]:
    """The operations of a reply, a row each. A row without a sign adds what it says."""
    return [_read(row) for row in text.split("\n") if row.strip()]


def _read(row: str) -> Operation:
    if removed := _REMOVE.fullmatch(row):
        return Operation(removed["text"].strip(), _numbers(removed["lines"]), removes=True)
    if replaced := _REPLACE.fullmatch(row):
        return Operation(replaced["text"], _numbers(replaced["lines"]))
    added = _ADD.fullmatch(row)
    return Operation(f"- {added['text']}" if added else row)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(int, re.findall(r"\d+", text))))


@dataclass(frozen=True)
class Change:
    """An operation that was read: ``line`` is None where it removes. Its refs are of lines that are
    merged in, or of the memory's own."""

    line: ReplyLine | None
    targets: tuple[int, ...] = ()
    refs: tuple[int, ...] = ()


def apply_operations(
    request: Request, changes: Sequence[Change], says: Callable[[str, str], bool]
) -> ParsedReply:
    """The whole text after these changes, and what became of each line and of each operation.

    ``says(a, b)``: whether text ``a`` says all that ``b`` says. A line that replaces others stands in
    the place of the first of them; additions stand behind all. An operation may name a line that an
    earlier one made, by the number of what it rests on: so it does not matter whether both come in
    one merge or in two. Over the limit the least worth go to the archive. What a person wrote or
    pinned stays.
    """
    text = _Text(request)
    for change in changes:
        drop = text.drop(change)
        if drop is None and change.line is not None and not change.targets:
            known = any(says(line.text, change.line.text) for line in text.standing.values())
            drop = DropReason.KNOWN if known else None
        if drop is not None:
            text.dropped.append((change.line.text if change.line else text.shown(change), drop))
        elif change.line is not None:
            text.put(change.line, text.places(change))
        else:
            text.remove(text.places(change))
    return text.reading()


class _Text:
    """A memory's text while operations change it. ``standing`` are its lines by place: the number of
    an existing line, and numbers beyond all others for lines that were added."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.existing = {line.ref: line for line in request.existing}
        merged_in = {line.ref: line.at_us for added in request.additions for line in added.lines}
        self.at_us = {ref: line.at_us for ref, line in self.existing.items()} | merged_in
        self.newest = max(self.at_us.values(), default=0)
        self.standing = {
            ref: ReplyLine(line.text, (ref,), line.kind) for ref, line in self.existing.items()
        }
        self.places_of_new: dict[int, int] = {}  # by the number of a line that is merged in
        self.gone: dict[int, int | None] = {}  # existing lines: the place of what replaces them
        self.dropped: list[tuple[str, str]] = []
        self._next = count(max(self.at_us, default=0) + 1)

    def places(self, change: Change) -> list[int]:
        """Where the lines stand that a change names; of a number that is unknown that number."""
        return list(dict.fromkeys(self.places_of_new.get(ref, ref) for ref in change.targets))

    def drop(self, change: Change) -> DropReason | None:
        """Why a change of lines is not carried out."""
        if any(ref in self.gone for ref in change.targets):
            return DropReason.UNKNOWN_LINE  # an operation before this one replaced it
        places = self.places(change)
        if any(place not in self.standing for place in places):
            return DropReason.UNKNOWN_LINE
        if any(place in self.existing and self.existing[place].by_person for place in places):
            return DropReason.KEPT_LINE
        new = (self.at_us.get(ref, 0) for ref in change.refs if ref not in self.existing)
        newest = max(new, default=0)
        if any(self.time_of(self.standing[place]) > newest for place in places):
            return DropReason.OLDER_NEWS
        return None

    def time_of(self, line: ReplyLine) -> int:
        """That of the newest line it rests on; without any it is of now."""
        return max((self.at_us.get(ref, 0) for ref in line.refs), default=self.newest)

    def shown(self, change: Change) -> str:
        """The lines that a change names, in words."""
        return " ".join(
            self.existing[ref].text if ref in self.existing else f"L{ref}" for ref in change.targets
        )

    def put(self, line: ReplyLine, replaced: Sequence[int]) -> None:
        """A line in the place of others, or behind all: there too where what holds now takes the
        place of an event."""
        moves = not replaced or _is_event(self.standing[replaced[0]]) is not _is_event(line)
        place = next(self._next) if moves else replaced[0]
        for other in replaced:
            del self.standing[other]
            self._leave(other, place)
        self.standing[place] = line
        self.places_of_new |= {ref: place for ref in line.refs if ref not in self.existing}

    def remove(self, places: Sequence[int]) -> None:
        for place in places:
            del self.standing[place]
            self._leave(place, None)

    def _leave(self, place: int, successor: int | None) -> None:
        self.gone |= {ref: successor for ref, by in self.gone.items() if by == place}
        if place in self.existing and place not in self.gone:
            self.gone[place] = successor

    def reading(self) -> ParsedReply:
        kept, archived = self._within()
        return ParsedReply(
            lines=order_lines(kept, self.time_of),
            superseded={
                ref: self.standing[place].text
                for ref, place in self.gone.items()
                if place is not None
            },
            settled=tuple(ref for ref, place in self.gone.items() if place is None),
            archived=tuple(archived),
            dropped=tuple(self.dropped),
            uses_operations=True,
        )

    def _within(self) -> tuple[list[ReplyLine], list[ReplyLine]]:
        """What stays within the limit, and what goes to the archive. New lines stay, and what a
        person wrote or pinned."""
        lines = [self.standing[place] for place in sorted(self.standing)]
        is_old = {
            id(self.standing[ref])
            for ref, line in self.existing.items()
            if ref in self.standing and ref not in self.gone and not line.by_person
        }
        size = sum(estimate_tokens(line.text) for line in lines)
        archived: set[int] = set()
        for n in self._least_first(lines):
            if size <= self.request.max_tokens:
                break
            if id(lines[n]) in is_old:
                archived.add(n)
                size -= estimate_tokens(lines[n].text)
        return (
            [line for n, line in enumerate(lines) if n not in archived],
            [lines[n] for n in sorted(archived)],
        )

    def _least_first(self, lines: Sequence[ReplyLine]) -> list[int]:
        """Events come first, for they are no longer in force; then what says least for its length.
        What is older by ARCHIVE_HALF_LIFE is worth half as much."""
        words = [salience.content_words(line.text) for line in lines]
        worths = salience.word_worth(words)

        def value(n: int) -> tuple[bool, float, int]:
            line, at_us = lines[n], self.time_of(lines[n])
            worth = salience.worth_per_token(
                line.text, words[n], worths, estimate_tokens(line.text)
            )
            age = (self.newest - at_us) / ARCHIVE_HALF_LIFE
            return not _is_event(line), worth * math.pow(0.5, age), at_us

        return sorted(range(len(lines)), key=value)


def order_lines(lines: Sequence[ReplyLine], time_of: Callable[[ReplyLine], int]) -> list[ReplyLine]:
    """What holds now, then what happened, oldest first. Lines of a person without a kind stay with
    what holds."""
    now, history = split_history(lines, lambda line: (line.kind or "", time_of(line)))
    return [*now, *history]


def _is_event(line: ReplyLine) -> bool:
    return line.kind is Kind.EVENT
