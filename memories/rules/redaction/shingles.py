"""Shingles: quotations of one text in another, as runs of 8 words or 16 Japanese characters.

Texts are compared by their letters and digits. Width, case, punctuation and line breaks make no
difference. Chinese, Japanese and Korean have no spaces, so each of their letters counts as a word.
Render Slack's markup first (`rules.ingest.markup.render_plain`).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

MARK = "[…]"  # replaces removed words; without a letter, so it is never a quotation
WORDS = 8
CHARACTERS = 14  # a quotation of 16 may begin and end with a mark that is no letter
FEWEST_WORDS = 3  # in a message that is shorter than a run
FEWEST_CHARACTERS = 6

_WIDE = "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WIDE += "\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_WIDE}]|[^\W_{_WIDE}]+")
_WIDE_LETTER = re.compile(rf"[{_WIDE}]")
_LINE_BREAK = re.compile(r"(\r\n|\r|\n)")
_JOINING = "\uff9e\uff9f"  # half-width voicing marks


def runs(text: str) -> set[str]:
    """Return each run of a text as words with spaces between them."""
    words = _TOKEN.findall(folded(text)[0])
    return {" ".join(words[i:j]) for i, j in _windows(words)}


def short_text(text: str) -> str:
    """Return the words of a text that is shorter than a run, or "" if it is longer or too short."""
    words = _TOKEN.findall(folded(text)[0])
    if next(_windows(words), None) is not None:
        return ""
    wide = sum(map(_is_wide, words))
    if wide < FEWEST_CHARACTERS and len(words) - wide < FEWEST_WORDS:
        return ""
    return " ".join(words)


def normalize(text: str) -> str:
    """Return all words of a text in the form in which texts are compared."""
    return " ".join(_TOKEN.findall(folded(text)[0]))


@dataclass(frozen=True)
class QuoteMatcher:
    """Runs to search for.

    ``short`` holds whole texts that are shorter than a run (`short_text`), and names. A name in
    ``mentions`` counts only right behind an @, because it is also an ordinary word.
    """

    runs: frozenset[str]
    short: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()

    @cached_property
    def _anchors(self) -> frozenset[str]:
        """The longest word of each key. A text without any of these words quotes nothing."""
        keys = self.runs | self.short | self.mentions
        return frozenset(max(key.split(" "), key=len) for key in keys)

    def find_in(self, text: str) -> set[str]:
        """Return the runs and short texts that the text quotes."""
        words = _TOKEN.findall(folded(text)[0])
        if self._anchors.isdisjoint(words):
            return set()
        quoted = {" ".join(words[i:j]) for i, j in _windows(words)} & self.runs
        return quoted | {" ".join(words[i:j]) for i, j in _positions(self.short, words)}

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the (begin, end) of each quotation, in order and without overlaps."""
        flat, origins = folded(text)
        tokens = list(_TOKEN.finditer(flat))
        words = [token[0] for token in tokens]
        if self._anchors.isdisjoint(words):
            return []
        quoted = [(i, j) for i, j in _windows(words) if " ".join(words[i:j]) in self.runs]
        quoted += _positions(self.short, words)
        quoted += (
            (i, j)
            for i, j in _positions(self.mentions, words)
            if flat[: tokens[i].start()].endswith("@")
        )
        return as_written(((tokens[i].start(), tokens[j - 1].end()) for i, j in quoted), origins)

    def redact(self, text: str) -> str:
        """Return the text with a mark in place of each quotation.

        The number of lines stays. A quotation over several lines leaves a mark in each of them.
        """
        while spans := self.spans(text):
            for begin, end in reversed(spans):
                parts = _LINE_BREAK.split(text[begin:end])
                parts[::2] = [MARK if part.strip() else part for part in parts[::2]]
                text = text[:begin] + "".join(parts) + text[end:]
        return text


def _positions(keys: Iterable[str], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where the keys stand as a whole."""
    for key in keys:
        key_words = key.split(" ")
        for i in range(len(words) - len(key_words) + 1):
            if words[i : i + len(key_words)] == key_words:
                yield i, i + len(key_words)


def _is_wide(word: str) -> bool:
    return _WIDE_LETTER.match(word) is not None


def _windows(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield, from each word on, the shortest range that makes a run.

    That is 8 words or, with a wide letter among them, enough characters. A range that contains a
    run is a run, so the ends never move back.
    """
    letters, narrow = [0], [0]  # in all words before each word
    for word in words:
        letters.append(letters[-1] + len(word))
        narrow.append(narrow[-1] + (not _is_wide(word)))
    j = 0
    for i in range(len(words)):
        while narrow[j] - narrow[i] < WORDS and (
            narrow[j] - narrow[i] == j - i or letters[j] - letters[i] < CHARACTERS
        ):
            j += 1
            if j > len(words):
                return
        yield i, j


def folded(text: str) -> tuple[str, list[tuple[int, int]] | None]:
    """Return the text in one width and case, and the origin of each of its characters.

    The origins are None if every character kept its position.
    """
    if text.isascii():
        return text.lower(), None
    flat = text.casefold()
    if len(flat) == len(text) and unicodedata.is_normalized("NFKC", flat):
        return flat, None
    parts: list[str] = []
    origins: list[tuple[int, int]] = []
    begin = 0
    while begin < len(text):
        end = begin + 1
        while end < len(text) and (unicodedata.combining(text[end]) or text[end] in _JOINING):
            end += 1
        part = unicodedata.normalize(
            "NFKC", unicodedata.normalize("NFKC", text[begin:end]).casefold()
        )
        parts.append(part)
        origins += [(begin, end)] * len(part)
        begin = end
    return "".join(parts), origins


def as_written(
    spans: Iterable[tuple[int, int]], origins: Sequence[tuple[int, int]] | None
) -> list[tuple[int, int]]:
    """Return spans of a folded text as spans of the original, in order and without overlaps."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if origins is not None:
            begin, end = origins[begin][0], origins[end - 1][1]
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
