"""Differences between two texts, by line and by word.

Lines are aligned first, so a new line is never mixed with its neighbours. Inside a changed line,
words are compared. A word is a run of letters in a spaced script, or one character of kana, kanji
or hangul.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from memories.rules.memory.lines import split_text, strip_bullet

_WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+|\s+|[^\w\s]", re.UNICODE)
_MIN_SIMILARITY = 0.4  # two lines that share fewer words are one removed and one added
_MAX_WORD_PAIRS = 1_000_000  # above it SequenceMatcher takes seconds without its junk heuristic
_MAX_LINE_PAIRS = 10_000  # above it no removed line is paired with an added one

# Of difflib: the tag and the ranges [i1, i2) of the old and [j1, j2) of the new sequence.
Opcode = tuple[str, int, int, int, int]


class ChangeKind(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True)
class DiffPiece:
    """A part of a line: ``SAME``, ``ADDED`` (only in the new text) or ``REMOVED``."""

    kind: ChangeKind
    text: str


@dataclass(frozen=True)
class DiffRow:
    """One line of a comparison. ``old`` and ``new`` are its indexes in the two texts, from 0."""

    kind: ChangeKind
    pieces: tuple[DiffPiece, ...]
    old: int | None = None
    new: int | None = None

    @property
    def before(self) -> str:
        return "".join(p.text for p in self.pieces if p.kind is not ChangeKind.ADDED)

    @property
    def after(self) -> str:
        return "".join(p.text for p in self.pieces if p.kind is not ChangeKind.REMOVED)


def compare_lines(old: str, new: str) -> list[DiffRow]:
    """Return the lines of both texts in reading order, without bullets."""
    before, after = _bare(split_text(old)), _bare(split_text(new))
    rows: list[DiffRow] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += [
                DiffRow(ChangeKind.SAME, (DiffPiece(ChangeKind.SAME, after[j]),), i, j)
                for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
            ]
        else:
            rows += _replaced_rows(before, after, range(i1, i2), range(j1, j2))
    return rows


def changed_rows(rows: Sequence[DiffRow]) -> list[DiffRow]:
    return [row for row in rows if row.kind is not ChangeKind.SAME]


def count_changes(rows: Sequence[DiffRow]) -> dict[str, int]:
    counts = Counter(row.kind for row in rows)
    return {
        "added": counts[ChangeKind.ADDED],
        "removed": counts[ChangeKind.REMOVED],
        "rewritten": counts[ChangeKind.CHANGED],
    }


def revert_change(old: str, new: str, number: int, current: str) -> str | None:
    """Return ``current`` without one change between ``old`` and ``new``.

    ``number`` is the index of the change among `changed_rows`. Return None if its line was changed
    again, or if the line before a removed line was. Raise IndexError if there is no such change.
    """
    rows = compare_lines(old, new)
    row = changed_rows(rows)[number]
    before, lines = split_text(old), current.splitlines()
    positions = [i for i, line in enumerate(lines) if strip_bullet(line)]
    matches = match_lines(split_text(new), [lines[i] for i in positions])
    if row.new is not None:
        if row.new not in matches:
            return None
        position = positions[matches[row.new]]
        lines[position : position + 1] = [] if row.old is None else [before[row.old]]
        return "\n".join(lines)
    assert row.old is not None
    if row.before in _bare(lines):  # somebody restored it already
        return None
    preceding = [r.new for r in rows[: rows.index(row)] if r.new is not None]
    if preceding and preceding[-1] not in matches:
        return None
    lines.insert(positions[matches[preceding[-1]]] + 1 if preceding else 0, before[row.old])
    return "\n".join(lines)


def count_kept(old: str, new: str) -> tuple[int, int]:
    """Return how many lines of ``old`` are in ``new``, and how many are not."""
    before, after = Counter(_bare(split_text(old))), Counter(_bare(split_text(new)))
    same = (before & after).total()
    return same, before.total() - same


def is_edit_kept(base: str, edit: str, later: str) -> bool:
    """Return whether ``later`` has every line that the edit added and none that it removed."""
    base_lines, edited, current = (set(_bare(split_text(text))) for text in (base, edit, later))
    return edited - base_lines <= current and current.isdisjoint(base_lines - edited)


def compare_words(old: str, new: str) -> list[DiffPiece]:
    """Compare two wordings of one line."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    pieces: list[DiffPiece] = []
    for tag, i1, i2, j1, j2 in _word_opcodes(before, after):
        if tag == "equal":
            pieces.append(DiffPiece(ChangeKind.SAME, "".join(before[i1:i2])))
            continue
        if i1 < i2:
            pieces.append(DiffPiece(ChangeKind.REMOVED, "".join(before[i1:i2])))
        if j1 < j2:
            pieces.append(DiffPiece(ChangeKind.ADDED, "".join(after[j1:j2])))
    return pieces


def match_lines(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return the indexes of the lines in both texts: of the old text to the new one, ascending."""
    matcher = SequenceMatcher(None, _bare(old), _bare(new), autojunk=False)
    return {i + k: j + k for i, j, size in matcher.get_matching_blocks() for k in range(size)}


def _bare(lines: Sequence[str]) -> list[str]:
    return [strip_bullet(line) for line in lines]


def _replaced_rows(before: list[str], after: list[str], old: range, new: range) -> list[DiffRow]:
    """Return the rows of a run of replaced lines. Two similar lines are one changed line."""
    rows: list[DiffRow] = []
    i, j = old.start, new.start
    for next_i, next_j in [*_similar_pairs(before, after, old, new), (old.stop, new.stop)]:
        rows += [
            DiffRow(ChangeKind.REMOVED, (DiffPiece(ChangeKind.REMOVED, before[k]),), old=k)
            for k in range(i, next_i)
        ]
        rows += [
            DiffRow(ChangeKind.ADDED, (DiffPiece(ChangeKind.ADDED, after[k]),), new=k)
            for k in range(j, next_j)
        ]
        if next_i < old.stop and next_j < new.stop:
            pieces = tuple(compare_words(before[next_i], after[next_j]))
            rows.append(DiffRow(ChangeKind.CHANGED, pieces, next_i, next_j))
        i, j = next_i + 1, next_j + 1
    return rows


def _similar_pairs(
    before: list[str], after: list[str], old: range, new: range
) -> list[tuple[int, int]]:
    """Return the index pairs of similar lines, in order. More similar pairs are chosen first."""
    if len(old) * len(new) > _MAX_LINE_PAIRS:
        return []
    old_words = {i: _count_words(before[i]) for i in old}
    new_words = {j: _count_words(after[j]) for j in new}
    candidates = sorted(
        (-similarity, i, j)
        for i in old
        for j in new
        if (similarity := _similarity(old_words[i], new_words[j])) >= _MIN_SIMILARITY
    )
    pairs: list[tuple[int, int]] = []
    for _, i, j in candidates:
        if all((a - i) * (b - j) > 0 for a, b in pairs):  # it crosses no better pair
            pairs.append((i, j))
    return sorted(pairs)


def _count_words(line: str) -> Counter[str]:
    return Counter(word.casefold() for word in _WORD.findall(line) if not word.isspace())


def _similarity(old: Counter[str], new: Counter[str]) -> float:
    """Return the share of words that two lines have in common, from 0 to 1."""
    return 2 * (old & new).total() / max(1, old.total() + new.total())


def _word_opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """Return difflib's opcodes. A match shorter than both changes around it joins them into one."""
    is_long = len(old) * len(new) > _MAX_WORD_PAIRS
    opcodes: list[Opcode] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=is_long).get_opcodes():
        while tag != "equal" and len(opcodes) > 1 and opcodes[-1][0] == "equal":
            (_, k1, k2, l1, l2), (_, m1, m2, _, _) = opcodes[-2:]
            if m2 - m1 > min(max(k2 - k1, l2 - l1), max(i2 - i1, j2 - j1)):
                break
            i1, j1 = k1, l1
            del opcodes[-2:]
        opcodes.append((tag, i1, i2, j1, j2))
    return opcodes
