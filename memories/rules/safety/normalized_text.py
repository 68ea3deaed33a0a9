"""Texts and words in the form in which safety rules compare them."""

import re
import unicodedata
from collections.abc import Iterable

from memories.rules.ingest.characters import LINE_BREAK
from memories.rules.ingest.invisible import strip_invisible

# What a browser reads as two slashes, and as a dot.
_SLASHES = re.compile(
    r"(?<![a-z0-9_])(https?:|ftp:|wss?:)(?:[/\\]{1,9}|(?=[\w-]{1,60}\.[\w-]))|(?<![\w:/\\])[/\\]{2,9}(?=[\w-]{1,60}\.)"
)
_WIDE_DOT = re.compile(
    r"(?<=\w)。(?=(?:[a-z0-9-]{1,63}[.。]){0,3}(?:com|net|org|jp|cn|ru|xyz)(?:/|:\d))"
)
_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
WIDE = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


def normalize(text: str) -> str:
    """Return a text with one form of each character and link, in lower case, with single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", strip_invisible(LINE_BREAK.sub("\n", text)))
    text = re.sub(r"[^\S\n]+", " ", text.replace(" ⏎ ", "\n")).casefold()
    return _SLASHES.sub(lambda match: f"{match[1] or ''}//", _WIDE_DOT.sub(".", text))


def split_words(normalized: str) -> list[str]:
    """Return the words of a normalized text. Scripts without spaces give pairs of characters."""
    words: list[str] = []
    for match in _WORD.finditer(normalized):
        word = match[0]
        if WIDE.search(word):
            words += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
        else:
            words.append(word)
    return words


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, to compare its content in any order."""
    return frozenset(split_words(normalize(text)))


def repeats(text: str, messages: Iterable[frozenset[str]]) -> bool:
    """Return whether six in ten of the text's words are among the words of one of the messages."""
    words = word_set(text)
    return bool(words) and any(len(words & message) >= 0.6 * len(words) for message in messages)


class LineMatcher:
    """Finds the texts that contain all words of one of these lines in order, or repeat it."""

    def __init__(self, lines: Iterable[str]) -> None:
        words = [split for line in lines if (split := split_words(normalize(line)))]
        self._phrases = {f" {' '.join(split)} " for split in words}
        self._word_sets = set(map(frozenset, words))

    def matches(self, text: str) -> bool:
        words = f" {' '.join(split_words(normalize(text)))} "
        contains = any(phrase in words for phrase in self._phrases)
        return contains or repeats(text, self._word_sets)
