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

REDACTED = "[…]"  # replaces removed words; without a letter, so it is never a quotation
RUN_WORDS = 8
RUN_LETTERS = 14  # of 16 Japanese characters, the first and the last may be punctuation
# Fewest words and Japanese letters of a whole text that is shorter than a run (`short_text`).
SHORT_TEXT_WORDS = 3
SHORT_TEXT_LETTERS = 6

_WIDE = "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WIDE += "\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_WIDE}]|[^\W_{_WIDE}]+")
_WIDE_LETTER = re.compile(rf"[{_WIDE}]")
_LINE_BREAK = re.compile(r"(\r\n|\r|\n)")
_JOINING = "\uff9e\uff9f"  # half-width voicing marks


def runs(text: str) -> set[str]:
    """Return the runs of a text, each as words with spaces between them."""
    words = _words(text)
    return {" ".join(words[i:j]) for i, j in _find_runs(words)}


def short_text(text: str) -> str:
    """Return the words of a text that is shorter than a run.

    Return "" for a longer text, and for one of too few words to search for.
    """
    words = _words(text)
    wide = sum(map(_is_wide, words))
    is_too_short = wide < SHORT_TEXT_LETTERS and len(words) - wide < SHORT_TEXT_WORDS
    return "" if is_too_short or any(_find_runs(words)) else " ".join(words)


def normalize(text: str) -> str:
    """Return all words of a text in the form in which texts are compared."""
    return " ".join(_words(text))


@dataclass(frozen=True)
class QuoteMatcher:
    """Finds runs, short texts and names in a text.

    ``short`` contains short texts (`short_text`) and names. A name in ``mentions`` is also an
    ordinary word, so it counts only directly after an @.
    """

    runs: frozenset[str]
    short: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()

    @cached_property
    def _anchors(self) -> frozenset[str]:
        """The longest word of each quotation. A text without any of these words quotes nothing."""
        quotations = self.runs | self.short | self.mentions
        return frozenset(max(quotation.split(" "), key=len) for quotation in quotations)

    def find_in(self, text: str) -> set[str]:
        """Return the runs and short texts that the text quotes."""
        words = _words(text)
        if self._anchors.isdisjoint(words):
            return set()
        quoted = {" ".join(words[i:j]) for i, j in _find_runs(words)} & self.runs
        return quoted | {" ".join(words[i:j]) for i, j in _positions(self.short, words)}

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the (begin, end) of each quotation, in order and without overlaps."""
        flat, origins = fold(text)
        tokens = list(_TOKEN.finditer(flat))
        words = [token[0] for token in tokens]
        if self._anchors.isdisjoint(words):
            return []
        quoted = [(i, j) for i, j in _find_runs(words) if " ".join(words[i:j]) in self.runs]
        quoted += _positions(self.short, words)
        quoted += (
            (i, j)
            for i, j in _positions(self.mentions, words)
            if flat[: tokens[i].start()].endswith("@")
        )
        return spans_in_original(
            ((tokens[i].start(), tokens[j - 1].end()) for i, j in quoted), origins
        )

    def redact(self, text: str) -> str:
        """Return the text with a mark in place of each quotation.

        A quotation over several lines leaves a mark in each of them, so the number of lines stays.
        """
        while spans := self.spans(text):
            for begin, end in reversed(spans):
                parts = _LINE_BREAK.split(text[begin:end])
                parts[::2] = [REDACTED if part.strip() else part for part in parts[::2]]
                text = text[:begin] + "".join(parts) + text[end:]
        return text


def _words(text: str) -> list[str]:
    return _TOKEN.findall(fold(text)[0])


def _positions(phrases: Iterable[str], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the (begin, end) of each phrase among the words, as indexes."""
    for phrase in phrases:
        phrase_words = phrase.split(" ")
        for i in range(len(words) - len(phrase_words) + 1):
            if words[i : i + len(phrase_words)] == phrase_words:
                yield i, i + len(phrase_words)


def _is_wide(word: str) -> bool:
    return _WIDE_LETTER.match(word) is not None


def _find_runs(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the (begin, end) of the shortest run that begins with each word, as indexes.

    A run has RUN_WORDS words that are not wide, or a wide letter and RUN_LETTERS letters in all. A
    range that contains a run is a run itself, so ``j`` never decreases.
    """
    # Letters, and words that are not wide, before each word.
    letters, narrow = [0], [0]
    for word in words:
        letters.append(letters[-1] + len(word))
        narrow.append(narrow[-1] + (not _is_wide(word)))
    j = 0
    for i in range(len(words)):
        while narrow[j] - narrow[i] < RUN_WORDS and (
            narrow[j] - narrow[i] == j - i or letters[j] - letters[i] < RUN_LETTERS
        ):
            j += 1
            if j > len(words):
                return
        yield i, j


def fold(text: str) -> tuple[str, list[tuple[int, int]] | None]:
    """Return the text in one width and case, and where each of its characters was in the original.

    These (begin, end) are None if every character kept its position.
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


def spans_in_original(
    spans: Iterable[tuple[int, int]], origins: Sequence[tuple[int, int]] | None
) -> list[tuple[int, int]]:
    """Return the spans in the original of spans in a folded text, in order and without overlaps."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if origins is not None:
            begin, end = origins[begin][0], origins[end - 1][1]
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
