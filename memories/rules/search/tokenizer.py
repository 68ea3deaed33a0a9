"""Tokenize texts for the search index, and queries for the search.

Words are folded to one width and case. Chinese, Japanese and Korean text has no spaces: it becomes
overlapping pairs of letters, and the last letter once more. The stored form of a text is all its
tokens between spaces: ``" api 移行 行 "``. Behind them are the stems of English words. A term matches
a substring of it, so both databases give the same hits. The index of tokens only narrows the search.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from snowballstemmer.english_stemmer import EnglishStemmer

from memories.rules.redaction.shingles import fold, spans_in_original

WIDE = "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
WIDE += "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
MAX_WORD_LENGTH = 60  # longer words are split, since indexes limit the length
MAX_STORED_LENGTH = 240_000  # characters; only the beginning of a longer text is searched
# Of different tokens with their key. PostgreSQL limits a text to 1 MB, and a text has two keys.
MAX_BYTES = 500_000
FEW_TOKENS = 2_000  # so many tokens never exceed MAX_BYTES
FEWEST_TO_BEGIN = 3  # letters of a word that matches by its beginning
STEM = "§"  # begins a stem among the tokens; no word has it

_LETTER = rf"[^\W_{WIDE}]"
_PART = re.compile(rf"(?P<wide>[{WIDE}]+)|{_LETTER}{{1,{MAX_WORD_LENGTH}}}")
_GAP = r"[\W_]"
_ENGLISH = re.compile(rf"[a-z]{{{FEWEST_TO_BEGIN},}}")
KEY_WIDTH = 8  # characters


@dataclass(frozen=True)
class Term:
    """A condition on a text: its stored form contains one of ``needles``.

    ``words`` and ``beginnings`` are its tokens for the index. ``pattern`` matches the folded text.
    ``stem`` is that of a single English word: other forms of the word match, too.
    """

    needle: str
    words: tuple[str, ...]
    beginnings: tuple[str, ...]
    pattern: str
    excluded: bool = False
    stem: str = ""

    @property
    def needles(self) -> tuple[str, ...]:
        return (self.needle, *(f" {word} " for word in self.stem_words))

    @property
    def stem_words(self) -> tuple[str, ...]:
        """The tokens of texts with other forms of the word."""
        return (self.stem, f"{STEM}{self.stem}") if self.stem else ()

    @property
    def is_one_token(self) -> bool:
        """Whether the index alone decides if a text matches."""
        return len(self.words) + len(self.beginnings) == 1

    @property
    def selective_words(self) -> tuple[str, ...]:
        """The words, but of pairs of letters only the rarest. Kanji are rarer than kana."""
        pairs = [word for word in self.words if _is_wide(word)]
        rarest = max(pairs, key=min, default="")
        return tuple(word for word in self.words if word not in pairs or word == rarest)


class Audience(StrEnum):
    """The readers of a text, as a part of its keys in the index."""

    WORKSPACE = "w"  # members of the workspace
    CHANNEL = "p"  # readers of a public channel who do not read the workspace
    MEMBERS = "m"  # members of the channel


def audience_key(kind: str, audience: Audience, pk: int) -> str:
    """Return the prefix of each token of a text in the index.

    It has the kind, the audience, and the primary key of the workspace or channel. Its length is
    always KEY_WIDTH.
    """
    return f"{kind[0]}{audience}{pk:0{KEY_WIDTH - 2}x}"


def tokenize(text: str) -> str:
    """Return the tokens of a text in order, each between spaces; "" without tokens."""
    return _stored([token for part in _parts(fold(text)[0]) for token in _tokens(part)])


def tokenize_with_stems(text: str) -> str:
    """Return the tokens of a text, and behind them the stems that are no words of it, each once."""
    tokens = tokenize(text).split()
    words = dict.fromkeys(tokens)
    stems = dict.fromkeys(f"{STEM}{stem}" for word in words if (stem := stem_of(word)) not in words)
    return _stored([*tokens, *stems])


def without_stems(tokens: str) -> list[str]:
    """Return the words of a stored text."""
    return tokens.partition(f" {STEM}")[0].split()


@lru_cache(maxsize=20_000)
def stem_of(word: str) -> str:
    """Return the stem of a folded English word. Other words are their own stems."""
    return str(EnglishStemmer().stemWord(word)) if _ENGLISH.fullmatch(word) else word


def index_words(words: Iterable[str]) -> list[str]:
    """Return these words, and then the tokens of texts with other forms of them."""
    words = sorted(words)
    stems = dict.fromkeys(stem_of(word) for word in words if _ENGLISH.fullmatch(word))
    return list(dict.fromkeys([*words, *(f"{STEM}{stem}" for stem in stems), *stems]))


def _stored(tokens: list[str]) -> str:
    """Return the first tokens, as many as an index takes, each between spaces."""
    if not tokens:
        return ""
    if len(tokens) > FEW_TOKENS:
        tokens = tokens[: _count_within_bytes(tokens)]
    whole = f" {' '.join(tokens)} "
    if len(whole) > MAX_STORED_LENGTH:
        whole = whole[: whole.rindex(" ", 0, MAX_STORED_LENGTH) + 1]
    return whole


def parse_term(
    text: str, *, exact: bool = False, begins: bool = False, excluded: bool = False
) -> Term | None:
    """Return the term for a word or phrase of a query, None without a letter.

    The last word matches by its beginning, unless it is ``exact`` or shorter than three letters.
    With ``begins`` it always does.
    """
    parts = _parts(fold(text)[0])
    if not parts:
        return None
    words: list[str] = []
    for part in parts[:-1]:
        words += _tokens(part)
    last = parts[-1]
    beginnings: list[str] = []
    end = stem = ""
    if _is_wide(last):
        if len(last) == 1:
            beginnings.append(last)
        tokens = _tokens(last)[:-1]  # in the text more letters may follow
        words += tokens
        needle = " " + " ".join([*words, *beginnings])
    else:
        is_whole = not begins and (exact or len(last) < FEWEST_TO_BEGIN)
        needle = " " + " ".join([*words, last]) + (" " if is_whole else "")
        (words if is_whole else beginnings).append(last)
        end = rf"(?!{_LETTER})" if is_whole else ""
        if not (is_whole or begins or excluded) and parts == [last] and _ENGLISH.fullmatch(last):
            stem = stem_of(last)
    return Term(needle, tuple(words), tuple(beginnings), _pattern(parts, end), excluded, stem)


def spans(text: str, terms: Sequence[Term]) -> list[tuple[int, int]]:
    """Return where the terms are in the original text, in order and without overlaps."""
    flat, offsets = fold(text)
    included = [term for term in terms if not term.excluded]
    matches = [match.span() for term in included for match in re.finditer(term.pattern, flat)]
    if stems := {term.stem for term in included if term.stem}:
        words = _PART.finditer(flat)
        matches += [
            word.span() for word in words if not stems.isdisjoint({word[0], stem_of(word[0])})
        ]
    return spans_in_original(matches, offsets)


def matches_terms(tokens: str, terms: Iterable[Term]) -> bool:
    """Return whether a stored text matches all terms, as the databases decide it."""
    return all(any(n in tokens for n in term.needles) is not term.excluded for term in terms)


def score(tokens: str, terms: Iterable[Term]) -> float:
    """Return the relevance of a stored text: how often it has the terms, for its length.

    A whole word counts more than the beginning of one.
    """
    length = 1 + len(tokens) / 400
    return sum(
        math.log1p(tokens.count(term.needle.rstrip()) + sum(map(tokens.count, term.needles[1:])))
        / math.sqrt(length)
        for term in terms
        if not term.excluded
    )


def _parts(flat: str) -> list[str]:
    """Return the words and the runs of wide letters in order."""
    return [match[0] for match in _PART.finditer(flat)]


def _count_within_bytes(tokens: Sequence[str]) -> int:
    """Return how many of the first tokens fit into MAX_BYTES."""
    different: set[str] = set()
    size = 0
    for count, token in enumerate(tokens):
        if token not in different:
            different.add(token)
            size += KEY_WIDTH + len(token.encode())
            if size > MAX_BYTES:
                return count
    return len(tokens)


def _is_wide(part: str) -> bool:
    return _PART.match(part)["wide"] is not None  # type: ignore[index]  # _parts used this pattern


def _tokens(part: str) -> list[str]:
    if not _is_wide(part):
        return [part]
    return [*(part[i : i + 2] for i in range(len(part) - 1)), part[-1]]


def _pattern(parts: Sequence[str], end: str) -> str:
    """Return a pattern for the parts with only non-letters between them."""
    pattern = "" if _is_wide(parts[0]) else rf"(?<!{_LETTER})"
    for i, part in enumerate(parts):
        if i:
            before = parts[i - 1]
            touching = _is_wide(before) != _is_wide(part) or len(before) == MAX_WORD_LENGTH
            pattern += _GAP + ("*" if touching else "+")
        pattern += re.escape(part)
    return pattern + end
