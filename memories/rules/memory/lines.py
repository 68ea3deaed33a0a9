"""Lines of a memory and what becomes of them: in an edit, a merge, a restore (docs/rules.md).

A line keeps who wrote it, since which version, its messages and its pin for as long as its words
stay. What a person wrote or pinned is *held*: no merge loses it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from typing import NamedTuple, TypeVar

from memories.rules.generate.summary import Kind
from memories.rules.redaction.shingles import MARK

AnyLine = TypeVar("AnyLine")

_BULLET = re.compile(r"^\s*(?:[-*•・]\s+|・)?")


class Origin(StrEnum):
    MODEL = "model"
    PERSON = "person"
    RESTORE = "restore"


@dataclass(frozen=True)
class Line:
    """``since`` is the number of the version it first stood in, None for the one being made.
    ``sources`` are keys of messages; a model's line without any shows a mark. ``pinned``: a person
    wants it word for word, whoever wrote it. ``kind`` is "" where nobody said; ``at_us`` is the time of
    the newest source, in microseconds, 0 where that is not known yet. ``unverified``: a number, a date
    or a link of it stands in no source."""

    text: str
    origin: Origin
    since: int | None = None
    sources: tuple[int, ...] = ()
    pinned: bool = False
    kind: str = ""
    at_us: int = 0
    unverified: bool = False

    @property
    def is_held(self) -> bool:
        """Kept word for word by every merge: a person wrote or pinned it."""
        return self.pinned or self.origin is Origin.PERSON


class MergeResult(NamedTuple):
    """What a merge came to. ``put_back`` and ``kept`` are the texts of held lines: those that the
    model had lost and code brought back, and those it left in by itself."""

    lines: list[Line]
    put_back: list[str]
    kept: list[str]


def words_of(text: str) -> str:
    """A line's words without its bullet and spare white space: what makes two lines the same."""
    return " ".join(_BULLET.sub("", text, count=1).split())


def split_history(
    lines: Sequence[AnyLine], facts: Callable[[AnyLine], tuple[str, int]]
) -> tuple[list[AnyLine], list[AnyLine]]:
    """What holds now, in its order, and what happened, oldest first. ``facts`` gives a line's kind
    and time."""
    kinds = [facts(line) for line in lines]
    history = [n for n, (kind, _) in enumerate(kinds) if kind == Kind.EVENT]
    history.sort(key=lambda n: kinds[n][1])
    now = [line for line, (kind, _) in zip(lines, kinds, strict=True) if kind != Kind.EVENT]
    return now, [lines[n] for n in history]


def redacted_line(text: str) -> str:
    """A line whose words are forgotten: a mark behind its bullet."""
    bullet = _BULLET.match(text)
    return f"{bullet[0] if bullet else ''}{MARK}"


def split_text(text: str) -> list[str]:
    """The lines of a text that say something."""
    return [line.rstrip() for line in text.splitlines() if words_of(line)]


def revise_lines(base: Sequence[Line], text: str) -> list[Line]:
    """The lines of a person's text: those they left alone or moved stay as they were, the rest is
    theirs.

    A line reworded in place still rests on the messages of the one that stood there, and keeps its
    pin; one that says something else rests on its author's word.
    """
    texts = split_text(text)
    matcher = SequenceMatcher(
        None, [words_of(line.text) for line in base], [words_of(t) for t in texts], autojunk=False
    )
    known = _known(base)
    lines: list[Line] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for offset, new in enumerate(texts[j1:j2]):
            same = known.get(words_of(new))
            if same is not None:
                old = base[i1 + offset] if tag == "equal" else same
                lines.append(replace(old, text=new, pinned=same.pinned))
                continue
            there = base[i1 + offset] if i1 + offset < i2 else None
            if there is not None and _are_alike(there.text, new):
                lines.append(Line(new, Origin.PERSON, None, there.sources, there.pinned))
            else:
                lines.append(Line(new, Origin.PERSON))
    return lines


def _are_alike(old: str, new: str) -> bool:
    """Whether at least half of the letters stand in both, in the same order."""
    return SequenceMatcher(None, words_of(old), words_of(new), autojunk=False).ratio() >= 0.5


def merge_lines(base: Sequence[Line], made: Sequence[Line]) -> MergeResult:
    """A merge's lines over those of its base.

    Words that stood in the base keep their origin; a held line keeps its whole text. One that the
    merge lost comes back behind the last line before it that is still there.
    """
    known = _known(base)
    lines: list[Line] = []
    for line in made:
        old = known.get(words_of(line.text))
        if old is None:
            lines.append(line)
        else:
            lines.append(old if old.is_held else replace(old, text=line.text))
    present = {words_of(line.text) for line in lines}
    put_back, kept = [], []
    for i, (words, line) in enumerate(known.items()):
        if not line.is_held:
            continue
        if words in present:
            kept.append(line.text)
            continue
        lines.insert(_place(lines, list(known)[:i]), line)
        present.add(words)
        put_back.append(line.text)
    return MergeResult(lines, put_back, kept)


def rests_only_on(line: Line, messages: frozenset[int]) -> bool:
    """Whether nothing else stands behind it: no other message, and no person's word."""
    return bool(line.sources) and not line.is_held and messages.issuperset(line.sources)


def restore_lines(current: Sequence[Line], old: Sequence[Line]) -> list[Line]:
    """The lines of an older version brought back: what stands now anyway stays as it is."""
    known = _known(current)
    return [
        replace(known[words], text=line.text)
        if (words := words_of(line.text)) in known
        else line
        if line.origin is Origin.PERSON
        else replace(line, origin=Origin.RESTORE, since=None)
        for line in old
    ]


def restore_text(current: Sequence[Line], old: Sequence[Line], text: str) -> list[Line] | None:
    """The lines of a text of which some stand now and the rest stood in an older version; None when
    one of them stood in neither."""
    known = {**_known(old), **_known(current)}
    texts = split_text(text)
    if not all(words_of(one) in known for one in texts):
        return None
    return restore_lines(current, [replace(known[words_of(one)], text=one) for one in texts])


def insert_position(lines: Sequence[Line], line: Line) -> int:
    """Where a line belongs that comes back: behind what holds, or as an event by its time."""
    events = [i for i, one in enumerate(lines) if one.kind == Kind.EVENT]
    if line.kind == Kind.EVENT:
        events = [i for i in events if lines[i].at_us > line.at_us]
    return min(events, default=len(lines))


def insert_line(text: str, lines: Sequence[Line], place: int) -> str:
    """A text of these lines but the one at ``place``, with that one in front of its follower."""
    rows = text.split("\n")
    follower = lines[place + 1].text if place + 1 < len(lines) else None
    at = next((i for i, row in enumerate(rows) if row.rstrip() == follower), len(rows))
    return "\n".join([*rows[:at], lines[place].text, *rows[at:]])


def _known(lines: Iterable[Line]) -> dict[str, Line]:
    """Lines by their words, in their order. Of equal ones the held one, pinned if any of them is."""
    known: dict[str, Line] = {}
    for line in lines:
        words = words_of(line.text)
        old = known.get(words, line)
        better = old if old.is_held or not line.is_held else line
        known[words] = replace(better, pinned=old.pinned or line.pinned)
    return known


def _place(lines: Sequence[Line], before: Sequence[str]) -> int:
    """Where a line belongs of which these words stood before: behind the last that is left."""
    wanted = set(before)
    found = (i + 1 for i in reversed(range(len(lines))) if words_of(lines[i].text) in wanted)
    return next(found, 0)
