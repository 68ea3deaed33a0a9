"""How a text is cut for searching, and what a search looks for in it.

Words are taken as they are, in one width and case; Chinese, Japanese and Korean, written without
spaces, as overlapping pairs of letters, and the last letter of a stretch once more by itself. A text
is stored as all these tokens with a space on either side: ``" api 移行 行 "``. What is looked for is a
piece of that, so every database finds the same; its index of tokens only says where to look.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memories.rules.redaction.shingles import as_written, folded

WIDE = "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
WIDE += "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
LONGEST_WORD = 60  # longer ones are cut: no index takes them whole
LONGEST_STORED = 240_000  # characters; of a longer text the beginning is found
# Of different tokens, each behind a key. PostgreSQL takes 1 MB for a text, which two keys may share.
MOST_BYTES = 500_000
FEW_TOKENS = 2_000  # they cannot be more than that
FEWEST_TO_BEGIN = 3  # letters of a word that is found by how it begins

_LETTER = rf"[^\W_{WIDE}]"
_PART = re.compile(rf"(?P<wide>[{WIDE}]+)|{_LETTER}{{1,{LONGEST_WORD}}}")
_GAP = r"[\W_]"
KEY_WIDTH = 8  # characters


@dataclass(frozen=True)
class Term:
    """What a text has to hold: ``needle`` in its stored form. ``words`` and ``beginnings`` are the
    tokens by which an index finds it; ``pattern`` finds it in the folded text."""

    needle: str
    words: tuple[str, ...]
    beginnings: tuple[str, ...]
    pattern: str
    excluded: bool = False

    @property
    def is_one_token(self) -> bool:
        """Whether an index that has it for a text needs no second look at the text."""
        return len(self.words) + len(self.beginnings) == 1

    @property
    def telling(self) -> tuple[str, ...]:
        """Of the words those that tell most: of pairs of letters, which come together, one. Kanji
        are rarer than kana, and come after them."""
        pairs = [word for word in self.words if _is_wide(word)]
        rarest = max(pairs, key=min, default="")
        return tuple(word for word in self.words if word not in pairs or word == rarest)


class Audience(StrEnum):
    """Who may read a text, as its key in the index says it."""

    WORKSPACE = "w"  # members of the workspace
    CHANNEL = "p"  # the same text of a public channel, for who reads only what they are in
    MEMBERS = "m"  # members of the channel


def audience_key(kind: str, audience: Audience, pk: int) -> str:
    """The letters before each token of a text in the index: its kind, its audience, and the row of
    the workspace or channel. All keys have KEY_WIDTH characters, so no other token begins so."""
    return f"{kind[0]}{audience}{pk:0{KEY_WIDTH - 2}x}"


def stored(text: str) -> str:
    """The tokens of a text, each between spaces, in order; "" when it has none."""
    tokens = [token for part in _parts(folded(text)[0]) for token in _tokens(part)]
    if not tokens:
        return ""
    if len(tokens) > FEW_TOKENS:
        tokens = tokens[: _count_within_bytes(tokens)]
    whole = f" {' '.join(tokens)} "
    if len(whole) > LONGEST_STORED:
        whole = whole[: whole.rindex(" ", 0, LONGEST_STORED) + 1]
    return whole


def term(
    text: str, *, exact: bool = False, begins: bool = False, excluded: bool = False
) -> Term | None:
    """What to look for, for one piece of a query: its parts side by side. None without a letter.

    The last word is found by its beginning, unless it is ``exact`` or shorter than three letters;
    ``begins`` says that it is one all the same.
    """
    parts = _parts(folded(text)[0])
    if not parts:
        return None
    words: list[str] = []
    for part in parts[:-1]:
        words += _tokens(part)
    last = parts[-1]
    beginnings: list[str] = []
    end = ""
    if _is_wide(last):
        if len(last) == 1:
            beginnings.append(last)
        tokens = _tokens(last)[:-1]  # what follows in the text may belong to the same stretch
        words += tokens
        needle = " " + " ".join([*words, *beginnings])
    else:
        is_whole = not begins and (exact or len(last) < FEWEST_TO_BEGIN)
        needle = " " + " ".join([*words, last]) + (" " if is_whole else "")
        (words if is_whole else beginnings).append(last)
        end = rf"(?!{_LETTER})" if is_whole else ""
    return Term(needle, tuple(words), tuple(beginnings), _pattern(parts, end), excluded)


def spans(text: str, terms: Sequence[Term]) -> list[tuple[int, int]]:
    """Where the terms stand in the text as it was written: in order, apart from each other."""
    flat, places = folded(text)
    matches = (m.span() for one in terms if not one.excluded for m in _finditer(one, flat))
    return as_written(matches, places)


def holds(tokens: str, terms: Iterable[Term]) -> bool:
    """Whether a stored text is found by these terms: what the databases are asked."""
    return all((one.needle in tokens) is not one.excluded for one in terms)


def score(tokens: str, terms: Iterable[Term]) -> float:
    """How much a stored text is about the terms: how often it says them, for its length."""
    length = 1 + len(tokens) / 400
    return sum(
        math.log1p(tokens.count(one.needle.rstrip())) / math.sqrt(length)
        for one in terms
        if not one.excluded
    )


def _parts(flat: str) -> list[str]:
    """Words, and stretches of wide letters, as they follow each other."""
    return [match[0] for match in _PART.finditer(flat)]


def _count_within_bytes(tokens: Sequence[str]) -> int:
    """How many of these, from the first on, an index takes."""
    different: set[str] = set()
    size = 0
    for count, token in enumerate(tokens):
        if token not in different:
            different.add(token)
            size += KEY_WIDTH + len(token.encode())
            if size > MOST_BYTES:
                return count
    return len(tokens)


def _is_wide(part: str) -> bool:
    return _PART.match(part)["wide"] is not None  # type: ignore[index]  # it was found by it


def _tokens(part: str) -> list[str]:
    if not _is_wide(part):
        return [part]
    return [*(part[i : i + 2] for i in range(len(part) - 1)), part[-1]]


def _finditer(one: Term, flat: str) -> Iterator[re.Match[str]]:
    return re.finditer(one.pattern, flat)


def _pattern(parts: Sequence[str], end: str) -> str:
    """The parts with nothing between them but what is in no word."""
    pattern = "" if _is_wide(parts[0]) else rf"(?<!{_LETTER})"
    for i, part in enumerate(parts):
        if i:
            before = parts[i - 1]
            touching = _is_wide(before) != _is_wide(part) or len(before) == LONGEST_WORD
            pattern += _GAP + ("*" if touching else "+")
        pattern += re.escape(part)
    return pattern + end
