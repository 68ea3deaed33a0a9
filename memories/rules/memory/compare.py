"""What differs between two texts, in words; right for Japanese, which has no spaces between them.

Lines are aligned first, so that a new line never blurs into its neighbours. Inside a line that
changed, words are compared: a word of a spaced script, or one character of kana, kanji and hangul.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from memories.rules.memory.lines import split_text, words_of
from memories.rules.redaction.shingles import MARK

_WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+|\s+|[^\w\s]", re.UNICODE)
_ALIKE = 0.4  # two lines that share less are one removed and one added
_MOST_WORD_PAIRS = 1_000_000
_MOST_PAIRS = 10_000  # of lines that are held against each other; a rewritten book is not


class Kind(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True)
class Piece:
    """A stretch of a line: ``SAME``, ``ADDED`` (only in the newer) or ``REMOVED``."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Row:
    """One line of the comparison. ``old`` and ``new`` are its place in either text, from 0."""

    kind: Kind
    pieces: tuple[Piece, ...]
    old: int | None = None
    new: int | None = None

    @property
    def before(self) -> str:
        return "".join(p.text for p in self.pieces if p.kind is not Kind.ADDED)

    @property
    def after(self) -> str:
        return "".join(p.text for p in self.pieces if p.kind is not Kind.REMOVED)


@dataclass(frozen=True)
class Hunk:
    """A paragraph of a conflict: the lines of the base and what both sides made of them.

    ``differs``: yours and theirs are not the same here, so somebody has to choose.
    """

    base: tuple[str, ...]
    yours: tuple[str, ...]
    theirs: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return _same(self.yours) != _same(self.theirs)

    @property
    def suggestion(self) -> str:
        """Whoever changed it is right; when both did, both stay. What was forgotten meanwhile comes
        back on somebody's word alone."""
        if MARK in "".join(self.theirs) and MARK not in "".join(self.yours):
            return "theirs"
        if _same(self.theirs) == _same(self.base):
            return "yours"
        return "theirs" if _same(self.yours) == _same(self.base) else "both"

    def chosen(self, choice: str) -> tuple[str, ...]:
        if not self.differs:  # but for bullets and spaces: whoever changed these is right
            return self.theirs if self.yours == self.base else self.yours
        if choice == "theirs":
            return self.theirs
        return self.yours if choice == "yours" else self.yours + self.theirs


def words(text: str) -> list[str]:
    """The words that are compared; joined, they are the text."""
    return _WORD.findall(text)


def compare(old: str, new: str) -> list[Row]:
    """The lines of both texts in reading order, without bullets, each with what became of it."""
    before, after = _same(split_text(old)), _same(split_text(new))
    rows: list[Row] = []
    for i1, i2, j1, j2, equal in _runs(before, after):
        if equal:
            rows += [
                Row(Kind.SAME, (Piece(Kind.SAME, after[j]),), i, j)
                for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
            ]
        else:
            rows += _changed(before, after, range(i1, i2), range(j1, j2))
    return rows


def changes(rows: Sequence[Row]) -> list[Row]:
    """The rows in which something differs."""
    return [row for row in rows if row.kind is not Kind.SAME]


def tally(rows: Sequence[Row]) -> dict[str, int]:
    """How many lines differ, in which way."""
    found = Counter(row.kind for row in rows)
    return {
        "added": found[Kind.ADDED],
        "removed": found[Kind.REMOVED],
        "rewritten": found[Kind.CHANGED],
    }


def taken_back(old: str, new: str, number: int, current: str) -> str | None:
    """The current text without one of the changes that led from ``old`` to ``new`` (its place among
    `changes`). None when its line, or the one before a line that was removed, is another by now.

    Raises IndexError when there is no such change.
    """
    rows = compare(old, new)
    row = changes(rows)[number]
    before, lines = split_text(old), current.splitlines()
    said = [i for i, line in enumerate(lines) if words_of(line)]
    there = _matches(split_text(new), [lines[i] for i in said])
    if row.new is not None:
        if row.new not in there:
            return None
        at = said[there[row.new]]
        lines[at : at + 1] = [] if row.old is None else [before[row.old]]
        return "\n".join(lines)
    assert row.old is not None
    if row.before in _same(lines):  # somebody brought it back
        return None
    above = [other.new for other in rows[: rows.index(row)] if other.new is not None]
    if above and above[-1] not in there:
        return None
    lines.insert(said[there[above[-1]]] + 1 if above else 0, before[row.old])
    return "\n".join(lines)


def kept(old: str, new: str) -> tuple[int, int]:
    """How many lines of the old text stand in the new one as they were, and how many do not."""
    before, after = Counter(_same(split_text(old))), Counter(_same(split_text(new)))
    same = (before & after).total()
    return same, before.total() - same


def survives(base: str, edit: str, later: str) -> bool:
    """Whether what an edit did to its base still holds in a later text: what it wrote is there, word
    for word, and what it took out is not."""
    was, wrote, now = (set(_same(split_text(text))) for text in (base, edit, later))
    return wrote - was <= now and now.isdisjoint(was - wrote)


def compare_words(old: str, new: str) -> list[Piece]:
    """One changed line, word by word."""
    return [Piece(kind, "".join(tokens)) for kind, tokens in _token_diff(words(old), words(new))]


def hunks(
    base: str, yours: str, theirs: str, split: Callable[[str], list[str]] = split_text
) -> list[Hunk]:
    """Three texts, cut where all of them agree: what either side changed, and the rest between."""
    origin, mine, other = split(base), split(yours), split(theirs)
    to_mine, to_other = _matches(origin, mine), _matches(origin, other)
    found: list[Hunk] = []
    i = m = o = 0
    for anchor in [*(k for k in range(len(origin)) if k in to_mine and k in to_other), None]:
        next_i = len(origin) if anchor is None else anchor
        next_m = len(mine) if anchor is None else to_mine[anchor]
        next_o = len(other) if anchor is None else to_other[anchor]
        if (i, m, o) != (next_i, next_m, next_o):
            found += _paragraphs(origin[i:next_i], mine[m:next_m], other[o:next_o])
        if anchor is not None:
            found.append(Hunk((origin[anchor],), (mine[next_m],), (other[next_o],)))
            i, m, o = next_i + 1, next_m + 1, next_o + 1
    return found


def _paragraphs(base: list[str], yours: list[str], theirs: list[str]) -> list[Hunk]:
    """One hunk, or one a line where both sides only changed lines in place."""
    if len(base) == len(yours) == len(theirs):
        return [Hunk((b,), (y,), (t,)) for b, y, t in zip(base, yours, theirs, strict=True)]
    return [Hunk(tuple(base), tuple(yours), tuple(theirs))]


def shared(yours: str, theirs: str) -> str:
    """The lines of both: what they are held against where the text that both began from is gone."""
    lines = split_text(yours)
    return "\n".join(lines[i] for i in _matches(lines, split_text(theirs)))


def put_together(found: Sequence[Hunk], choices: Sequence[str]) -> str:
    """The text that the choices make; one choice a hunk, "yours", "theirs" or "both"."""
    return "\n".join(
        line for hunk, choice in zip(found, choices, strict=True) for line in hunk.chosen(choice)
    )


def agree(found: Sequence[Hunk]) -> bool:
    """Whether yours says nothing but what theirs says: then nothing is to be chosen, nor saved."""
    return all(not hunk.differs and hunk.chosen("") == hunk.theirs for hunk in found)


def choices_in(form: Mapping[str, str], found: Sequence[Hunk], name: str = "choice") -> list[str]:
    """What a form says of each hunk; where it says nothing, what is suggested."""
    return [form.get(f"{name}-{i}", hunk.suggestion) for i, hunk in enumerate(found)]


def meant(
    form: Mapping[str, str],
    found: Sequence[Hunk],
    typed: str,
    split: Callable[[str], list[str]] = split_text,
) -> str:
    """The result of a conflict: what was typed, or else what the choices make by now."""
    is_typed = by_hand(form, found, typed, split)
    return typed if is_typed else put_together(found, choices_in(form, found))


def by_hand(
    form: Mapping[str, str],
    found: Sequence[Hunk],
    typed: str,
    split: Callable[[str], list[str]] = split_text,
) -> bool:
    """Whether a result was changed after ``made``, the choices that it was put together from."""
    return split(typed) != split(put_together(found, choices_in(form, found, "made")))


def _same(lines: Sequence[str]) -> list[str]:
    return [words_of(line) for line in lines]


def _matches(base: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    return {
        i: j
        for i1, i2, j1, j2, equal in _runs(_same(base), _same(other))
        if equal
        for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
    }


def _changed(before: list[str], after: list[str], olds: range, news: range) -> list[Row]:
    """A run of lines that were replaced: those that are alike are one line that changed."""
    rows: list[Row] = []
    pairs = _alike([before[i] for i in olds], [after[j] for j in news])
    i, j = olds.start, news.start
    for a, b in [*pairs, (len(olds), len(news))]:
        while i < olds.start + a:
            rows.append(Row(Kind.REMOVED, (Piece(Kind.REMOVED, before[i]),), old=i))
            i += 1
        while j < news.start + b:
            rows.append(Row(Kind.ADDED, (Piece(Kind.ADDED, after[j]),), new=j))
            j += 1
        if i < olds.stop and j < news.stop:
            rows.append(Row(Kind.CHANGED, tuple(compare_words(before[i], after[j])), i, j))
            i, j = i + 1, j + 1
    return rows


def _alike(before: list[str], after: list[str]) -> list[tuple[int, int]]:
    """Pairs of lines, in order, whose likeness adds up to the most."""
    if not 0 < len(before) * len(after) <= _MOST_PAIRS:
        return []
    old, new = [_counted(line) for line in before], [_counted(line) for line in after]
    likeness = [[_likeness(b, a) for a in new] for b in old]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            paired = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] >= _ALIKE else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs = []
    i = j = 0
    while i < len(before) and j < len(after):
        if likeness[i][j] >= _ALIKE and best[i][j] == likeness[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _likeness(old: Counter[str], new: Counter[str]) -> float:
    """The share of their words that two lines have in common, 0 to 1."""
    return 2 * (old & new).total() / max(1, old.total() + new.total())


def _counted(line: str) -> Counter[str]:
    return Counter(word.casefold() for word in words(line) if not word.isspace())


def _token_diff(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Kind, Sequence[str]]]:
    """Runs of tokens, each in both texts or in one.

    A run that both texts share between two changes that are as long becomes part of one change.
    """
    runs: list[tuple[int, int, int, int, bool]] = []
    # With so many pairs of words, frequent ones are no places to align at: it takes seconds.
    is_long = len(old) * len(new) > _MOST_WORD_PAIRS
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=is_long).get_opcodes():
        while tag != "equal" and len(runs) > 1 and runs[-1][4]:
            (k1, k2, l1, l2, _), (m1, m2, _, _, _) = runs[-2:]
            if m2 - m1 > min(max(k2 - k1, l2 - l1), max(i2 - i1, j2 - j1)):
                break
            i1, j1 = k1, l1
            del runs[-2:]
        runs.append((i1, i2, j1, j2, tag == "equal"))
    for i1, i2, j1, j2, is_same in runs:
        if is_same:
            yield Kind.SAME, old[i1:i2]
            continue
        if i1 < i2:
            yield Kind.REMOVED, old[i1:i2]
        if j1 < j2:
            yield Kind.ADDED, new[j1:j2]


def _runs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int, bool]]:
    """``(i1, i2, j1, j2, equal)`` over two lists of lines, neighbouring differences as one run."""
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(i1, i2, j1, j2, tag == "equal") for tag, i1, i2, j1, j2 in codes]
