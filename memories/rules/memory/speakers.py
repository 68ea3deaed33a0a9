"""The speaker of a line: the author whom it names as the person who says or does something.

And names of authors that a line misspells.
"""

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from memories.rules.memory.drift import has_name
from memories.rules.tokens import WIDE_CHARACTER

_MIN_LENGTH = 3  # letters of the first part of a name
_MIN_LENGTH_WIDE = 2
_MIN_MISSPELT_LENGTH = 5  # letters of a name; shorter ones are like other words
_ALIKE = 0.8  # of the letters: a name is a misspelt form of another
_CAPITALIZED = re.compile(r"(?<!\w)[A-Z][a-z]+(?!\w)")
_ASKS = re.compile(
    r"\s*:?\s*(?:asks?|asked|is asking|wonders?|wondered|wants? to know|wanted to know)\b"
    r"|[^。]*(?:尋ね|質問し|問い合わせ)"
)
_SIGNS = "_-^`|[]{}()"  # around the nicknames of chats
# A date or a short clause may stand in front of the name.
_START = r"\W*(?:[^,、，]{1,30}[,、，]\s*)?"
# "Ann's server" and 佐藤さんのサーバー name no speaker, and two names before one verb are not checked.
_VERB = r"(?=\s*[:：]|\s+(?!and\b|or\b|&)\w)"
_PARTICLE = r"(?=(?:さん|ちゃん|さま|様|氏|君|くん|先生)?\s*(?:[はがも:：]|によ))"


@dataclass(frozen=True)
class Speaker:
    """``name`` is the name in the line, ``authors`` have it, and ``claim`` follows it.

    The claim ends before the name of another author. ``asks``: the speaker asks a question.
    """

    name: str
    authors: frozenset[str]
    claim: str
    asks: bool


def find_speaker(text: str, authors: Iterable[str]) -> Speaker | None:
    """Return the speaker whom a line names at its beginning, or None.

    A line may use only the first part of an author's name.
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
            claim = _before_names(text[match.end() :], others)
            asks = _ASKS.match(text, match.end()) is not None
            return Speaker(match[1], named, claim, asks)
    return None


def find_misspelt_names(text: str, authors: Iterable[str], words: Container[str]) -> Iterator[str]:
    """Yield the capitalized words that are almost a name of an author. No source has them.

    ``words`` are those of all sources.
    """
    names = {name.lower() for author in authors for name in _names_of(author)}
    names = {name for name in names if len(name) >= _MIN_MISSPELT_LENGTH}
    for word in dict.fromkeys(_CAPITALIZED.findall(text)):
        lower = word.lower()
        if len(word) < _MIN_MISSPELT_LENGTH or lower in names or lower in words:
            continue
        if any(SequenceMatcher(None, lower, name).ratio() >= _ALIKE for name in sorted(names)):
            yield word


def _names_of(author: str) -> set[str]:
    """Return the name of an author, and its first part without signs (``rodrigo_``) if it is long enough."""
    first = author.split()[0].strip(_SIGNS) if author.strip() else ""
    least = _MIN_LENGTH_WIDE if WIDE_CHARACTER.search(first) else _MIN_LENGTH
    return {author, first} if len(first) >= least else {author}


def _before_names(text: str, names: Iterable[str]) -> str:
    return text[: min((text.find(name) for name in names if has_name(text, name)), default=None)]
