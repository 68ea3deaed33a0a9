"""Which words of one text stand in another: runs of eight words, or of sixteen Japanese characters.

Texts are compared by their letters and digits alone: width, case, punctuation and line breaks make
no difference. Chinese, Japanese and Korean are written without spaces, so there each letter counts
by itself. Give `rules.ingest.markup.render_plain` of a message where Slack's markup may stand in it.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

MARK = "[…]"  # stands where words were taken out; it holds no letter, so it is never a quotation
WORDS = 8
CHARACTERS = 14  # sixteen that are quoted may begin and end with a mark that is no letter
FEWEST_WORDS = 3  # of a message that is shorter than a run
FEWEST_CHARACTERS = 6

_WIDE = "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WIDE += "\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_WIDE}]|[^\W_{_WIDE}]+")
_WIDE_LETTER = re.compile(rf"[{_WIDE}]")
_BREAK = re.compile(r"(\r\n|\r|\n)")
# Half-width marks of Japanese join the letter before them, as combining ones do.
_JOINING = "\uff9e\uff9f"


def runs(text: str) -> set[str]:
    """Every run of a text, each as its plain words with spaces between. Empty when it is shorter
    than one run."""
    words = _TOKEN.findall(folded(text)[0])
    return {" ".join(words[i:j]) for i, j in _windows(words)}


def whole(text: str) -> str:
    """A text shorter than a run as one: "" when it is longer, or says too little to be known by."""
    words = _TOKEN.findall(folded(text)[0])
    if next(_windows(words), None) is not None:
        return ""
    wide = sum(map(_is_wide, words))
    if wide < FEWEST_CHARACTERS and len(words) - wide < FEWEST_WORDS:
        return ""
    return " ".join(words)


def words(text: str) -> str:
    """All words of a text as they are compared: a name, say."""
    return " ".join(_TOKEN.findall(folded(text)[0]))


@dataclass(frozen=True)
class QuoteMatcher:
    """Runs to look for. ``short`` are whole messages that are shorter than a run (`whole`), or
    names; ``mentions`` names that count only right behind an @, being words of others as well."""

    runs: frozenset[str]
    short: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()

    @cached_property
    def _anchors(self) -> frozenset[str]:
        """A long word of each: a text without any of these words quotes nothing."""
        keys = self.runs | self.short | self.mentions
        return frozenset(max(key.split(" "), key=len) for key in keys)

    def in_text(self, text: str) -> set[str]:
        """Those of the runs, and of the short ones, that stand in this text."""
        words = _TOKEN.findall(folded(text)[0])
        if self._anchors.isdisjoint(words):
            return set()
        found = {" ".join(words[i:j]) for i, j in _windows(words)} & self.runs
        return found | {" ".join(words[i:j]) for i, j in _places(self.short, words)}

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the text quotes: (begin, end) each, in order, apart from each other."""
        flat, places = folded(text)
        matches = list(_TOKEN.finditer(flat))
        words = [match[0] for match in matches]
        if self._anchors.isdisjoint(words):
            return []
        mentions = [
            (i, j)
            for i, j in _places(self.mentions, words)
            if flat[: matches[i].start()].endswith("@")
        ]
        quoted = [*self._quotations(words), *_places(self.short, words), *mentions]
        return as_written(((matches[i].start(), matches[j - 1].end()) for i, j in quoted), places)

    def _quotations(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        for i, j in _windows(words):
            if " ".join(words[i:j]) in self.runs:
                yield i, j

    def masked(self, text: str) -> str:
        """The text with a mark in place of each quotation; the very same when there is none. Lines
        stay lines: a quotation over several of them leaves a mark in each."""
        while found := self.spans(text):
            for begin, end in reversed(found):
                parts = _BREAK.split(text[begin:end])
                parts[::2] = [MARK if part.strip() else part for part in parts[::2]]
                text = text[:begin] + "".join(parts) + text[end:]
        return text


def _places(keys: Iterable[str], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where these stand as a whole."""
    for key in keys:
        wanted = key.split(" ")
        for i in range(len(words) - len(wanted) + 1):
            if words[i : i + len(wanted)] == wanted:
                yield i, i + len(wanted)


def _is_wide(word: str) -> bool:
    return _WIDE_LETTER.match(word) is not None


def _windows(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """From each word on, the shortest stretch that makes a run: eight words or, with a wide letter
    among them, enough characters. A stretch that holds a run is one, so ends never move back."""
    letters, narrow = [0], [0]  # of all words before each
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
    """The text in one width and case, and for each of its characters the place it came from; None
    where each stands where it stood."""
    if text.isascii():
        return text.lower(), None
    flat = text.casefold()
    if len(flat) == len(text) and unicodedata.is_normalized("NFKC", flat):
        return flat, None
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    begin = 0
    while begin < len(text):
        end = begin + 1
        while end < len(text) and (unicodedata.combining(text[end]) or text[end] in _JOINING):
            end += 1
        part = unicodedata.normalize(
            "NFKC", unicodedata.normalize("NFKC", text[begin:end]).casefold()
        )
        parts.append(part)
        places += [(begin, end)] * len(part)
        begin = end
    return "".join(parts), places


def as_written(
    spans: Iterable[tuple[int, int]], places: Sequence[tuple[int, int]] | None
) -> list[tuple[int, int]]:
    """Spans of a folded text as those of the text that it came from: in order, apart from each
    other. ``places`` are those that `folded` told."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if places is not None:
            begin, end = places[begin][0], places[end - 1][1]
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
