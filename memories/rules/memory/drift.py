"""What one text says and another lacks: dates, numbers, links, names and pinned lines.

Shown beside the comparison of a rebuilt memory with its current text. Names are those of people that
are known, words with a title (``田中さん``, ``@ana``, ``#ops``), and words with a capital letter inside
a sentence.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memories.rules.generate.tokens import WIDE_CHARACTER
from memories.rules.memory.figures import Figures, Piece, pieces
from memories.rules.memory.lines import words_of

_MARKED = re.compile(r"[@#][\w.-]*\w")
_TITLED = re.compile(r"([\u3400-\u9fff々]{1,4}|[\u30a1-\u30ffー]{2,12})(?=さん|氏|様|くん|君|社)")
# A word with a capital letter behind one without: at the start of a sentence every word has one.
_CAPITAL = re.compile(r"(?<=[\w,;)] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
_CALENDAR = re.compile(
    r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)[a-z]*\b",
    re.IGNORECASE,
)
_SHORTEST = 3  # letters of a Latin name; "Al" is part of too many words
_SHORTEST_WIDE = 2


class DriftKind(StrEnum):
    PINNED = "pinned"
    DATE = "date"
    NUMBER = "number"
    NAME = "name"
    LINK = "link"


@dataclass(frozen=True)
class Drift:
    """What only the older text has (``lost``), and only the newer one (``gained``), as written."""

    kind: DriftKind
    lost: tuple[str, ...]
    gained: tuple[str, ...]


def find_drift(
    old: Sequence[str],
    new: Sequence[str],
    *,
    people: Iterable[str] = (),
    pinned: Collection[str] = (),
) -> list[Drift]:
    """The differences between the lines of two texts, by kind; without kinds that do not differ.

    ``people`` are display names, ``pinned`` the texts of pinned lines.
    """
    older, newer = "\n".join(old), "\n".join(new)
    names = _names(older, newer, people)
    found = [
        Drift(DriftKind.PINNED, _pinned_only(old, new, pinned), _pinned_only(new, old, pinned)),
        *(
            Drift(kind, _pieces_only(older, newer, kind), _pieces_only(newer, older, kind))
            for kind in (DriftKind.DATE, DriftKind.NUMBER)
        ),
        Drift(DriftKind.NAME, _names_only(older, newer, names), _names_only(newer, older, names)),
        Drift(
            DriftKind.LINK,
            _pieces_only(older, newer, DriftKind.LINK),
            _pieces_only(newer, older, DriftKind.LINK),
        ),
    ]
    return [drift for drift in found if drift.lost or drift.gained]


def _pinned_only(
    lines: Sequence[str], others: Sequence[str], pinned: Collection[str]
) -> tuple[str, ...]:
    wanted, present = set(map(words_of, pinned)), set(map(words_of, others))
    words = dict.fromkeys(map(words_of, lines))
    return tuple(line for line in words if line in wanted and line not in present)


def _pieces_only(text: str, other: str, kind: DriftKind) -> tuple[str, ...]:
    """A number is looked for among numbers: the 18 of 18 November is not the 18 of 18 seats."""
    known, figures = {piece.key for piece in _of_kind(other, kind)}, Figures(other)
    missing = (
        piece.shown
        for piece in _of_kind(text, kind)
        if piece.key not in known and (kind is DriftKind.NUMBER or not figures.holds(piece))
    )
    return tuple(dict.fromkeys(missing))


def _of_kind(text: str, kind: DriftKind) -> Iterator[Piece]:
    """Times of day count as numbers."""
    kinds = ("number", "time") if kind is DriftKind.NUMBER else (kind.value,)
    return (piece for piece in pieces(text) if piece.kind in kinds)


def _names(older: str, newer: str, people: Iterable[str]) -> list[str]:
    """Every name that stands in one of the texts; of a person each part of the name too."""
    known = {part for name in people for part in (name, *name.split())}
    both = f"{older}\n{newer}"
    known.update(match[0] for match in _MARKED.finditer(both))
    known.update(match[1] for match in _TITLED.finditer(both))
    known.update(match[0] for match in _CAPITAL.finditer(both) if not _CALENDAR.match(match[0]))
    return sorted(name for name in known if _is_long_enough(name))


def _is_long_enough(name: str) -> bool:
    return len(name) >= (_SHORTEST_WIDE if WIDE_CHARACTER.search(name) else _SHORTEST)


def _names_only(text: str, other: str, names: Iterable[str]) -> tuple[str, ...]:
    """Of names that hold one another only the longest."""
    missing = [name for name in names if _stands(name, text) and not _stands(name, other)]
    return tuple(
        name for name in missing if not any(name != longer and name in longer for longer in missing)
    )


def _stands(name: str, text: str) -> bool:
    if WIDE_CHARACTER.search(name):
        return name in text
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
