"""Facts that only one of two texts has: dates, numbers, links, names and pinned lines.

The page of a rebuilt memory shows them. Names are those of
people in the workspace, words with a title (``田中さん``, ``@ana``, ``#ops``), and capitalized
words inside a sentence.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memories.rules.memory.figures import Figure, SourceFigures, find_figures
from memories.rules.memory.lines import strip_bullet
from memories.rules.tokens import WIDE_CHARACTER

_MARKED = re.compile(r"[@#][\w.-]*\w")
_TITLED = re.compile(r"([\u3400-\u9fff々]{1,4}|[\u30a1-\u30ffー]{2,12})(?=さん|氏|様|くん|君|社)")
# Not at the start of a sentence, where every word has a capital letter.
_CAPITAL = re.compile(r"(?<=[\w,;)] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
_GENITIVE = re.compile("['’]s?$")
_CALENDAR = re.compile(
    r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)[a-z]*\b",
    re.IGNORECASE,
)
_MIN_LENGTH = 3  # letters of a Latin name; "Al" is part of too many words
_MIN_LENGTH_WIDE = 2


class DriftKind(StrEnum):
    PINNED = "pinned"
    DATE = "date"
    NUMBER = "number"
    NAME = "name"
    LINK = "link"


@dataclass(frozen=True)
class Drift:
    """Facts that only the old text has (``lost``), and only the new one (``gained``)."""

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
    """Return the differences between the lines of two texts, one for each kind that differs.

    ``people`` are display names. ``pinned`` are the texts of pinned lines.
    """
    old_text, new_text = "\n".join(old), "\n".join(new)
    names = _find_names(old_text, new_text, people)
    drifts = []
    for kind in DriftKind:
        if kind is DriftKind.PINNED:
            lost, gained = _pinned_only(old, new, pinned), _pinned_only(new, old, pinned)
        elif kind is DriftKind.NAME:
            lost, gained = (
                _names_only(old_text, new_text, names),
                _names_only(new_text, old_text, names),
            )
        else:
            lost, gained = (
                _figures_only(old_text, new_text, kind),
                _figures_only(new_text, old_text, kind),
            )
        if lost or gained:
            drifts.append(Drift(kind, lost, gained))
    return drifts


def _pinned_only(
    lines: Sequence[str], other_lines: Sequence[str], pinned: Collection[str]
) -> tuple[str, ...]:
    missing = set(map(strip_bullet, pinned)) - set(map(strip_bullet, other_lines))
    return tuple(line for line in dict.fromkeys(map(strip_bullet, lines)) if line in missing)


def _figures_only(text: str, other_text: str, kind: DriftKind) -> tuple[str, ...]:
    """Compare numbers with numbers only: the 18 of 18 November is not the 18 of 18 seats."""
    keys = {figure.key for figure in _of_kind(other_text, kind)}
    source = SourceFigures(other_text)
    missing = (
        figure.text
        for figure in _of_kind(text, kind)
        if figure.key not in keys and (kind is DriftKind.NUMBER or not source.has(figure))
    )
    return tuple(dict.fromkeys(missing))


def _of_kind(text: str, kind: DriftKind) -> Iterator[Figure]:
    """Yield the figures of a kind. Times of day count as numbers."""
    kinds = ("number", "time") if kind is DriftKind.NUMBER else (kind.value,)
    return (figure for figure in find_figures(text) if figure.kind in kinds)


def _find_names(old: str, new: str, people: Iterable[str]) -> list[str]:
    """Return the names that may be in one of the texts, with each part of a person's name."""
    names = {part for name in people for part in (name, *name.split())}
    both = f"{old}\n{new}"
    names.update(match[0] for match in _MARKED.finditer(both))
    names.update(match[1] for match in _TITLED.finditer(both))
    names.update(match[0] for match in _CAPITAL.finditer(both) if not _CALENDAR.match(match[0]))
    return sorted(
        name
        for name in names
        if len(name) >= (_MIN_LENGTH_WIDE if WIDE_CHARACTER.search(name) else _MIN_LENGTH)
    )


def _names_only(text: str, other_text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in ``text`` alone. Of names inside one another only the longest counts."""
    missing = [name for name in names if has_name(text, name) and not has_name(other_text, name)]
    return tuple(
        name for name in missing if not any(name != longer and name in longer for longer in missing)
    )


def has_new_names(text: str, other_text: str) -> bool:
    """Return whether a text has a name with a word that the other text lacks, in any case."""
    return not all(has_name(other_text.casefold(), word) for word in find_name_words(text))


def find_name_words(text: str) -> set[str]:
    """Return the words of the names in a text, in small letters and without a genitive."""
    names = _find_names(text, "", ())
    return {_GENITIVE.sub("", word) for name in names for word in name.casefold().split()}


def has_name(text: str, name: str) -> bool:
    """Return whether a text has a name as a whole word. In Japanese, words have no spaces."""
    if WIDE_CHARACTER.search(name):
        return name in text
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
