"""The speaker of a line: the author whom it names as the person who says or does something."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from memories.rules.memory.drift import has_name
from memories.rules.tokens import WIDE_CHARACTER

_MIN_LENGTH = 3  # letters of a part of a name
_MIN_LENGTH_WIDE = 2
# A date or a short clause may stand in front of the name.
_START = r"\W*(?:[^,、，]{1,30}[,、，]\s*)?"
# "Ann's server" and 佐藤さんのサーバー name no speaker, and two names before one verb are not checked.
_VERB = r"(?=\s*[:：]|\s+(?!and\b|or\b|&)\w)"
_PARTICLE = r"(?=(?:さん|ちゃん|さま|様|氏|君|くん|先生)?\s*(?:[はがも:：]|によ))"


@dataclass(frozen=True)
class Speaker:
    """``name`` is the name in the line, ``authors`` have it, and ``claim`` follows it.

    The claim ends before the name of another author.
    """

    name: str
    authors: frozenset[str]
    claim: str


def find_speaker(text: str, authors: Iterable[str]) -> Speaker | None:
    """Return the speaker whom a line names at its beginning, or None.

    A line may use a part of an author's name.
    """
    authors_by_name: dict[str, set[str]] = {}
    for author in authors:
        for name in _names_of(author):
            authors_by_name.setdefault(name, set()).add(author)
    for name in sorted(authors_by_name, key=lambda name: (-len(name), name)):
        capitalized = name[:1].upper() + name[1:]  # a name in small letters may begin a sentence
        if name not in text and capitalized not in text:
            continue
        either = f"{re.escape(name)}|{re.escape(capitalized)}"
        if match := re.match(rf"{_START}(?<!\w)({either})(?:{_PARTICLE}|{_VERB})", text):
            named = frozenset(authors_by_name[name])
            others = authors_by_name.keys() - {n for author in named for n in _names_of(author)}
            return Speaker(match[1], named, _before_names(text[match.end() :], others))
    return None


def _names_of(author: str) -> set[str]:
    """Return the name of an author and its parts that are long enough."""
    parts = {
        part
        for part in author.split()
        if len(part) >= (_MIN_LENGTH_WIDE if WIDE_CHARACTER.search(part) else _MIN_LENGTH)
    }
    return {author, *parts}


def _before_names(text: str, names: Iterable[str]) -> str:
    return text[: min((text.find(name) for name in names if has_name(text, name)), default=None)]
