"""Detect whether a text is clearly Japanese or clearly English.

Code, names, addresses and numbers do not count.
"""

import re
from collections.abc import Iterable
from typing import Literal

_MIN_WORDS = 20  # shorter texts have no clear language
_JAPANESE_PER_WORD = 2  # characters that are worth an English word
_MIN_HIRAGANA = 10  # of a Japanese text: Chinese has none, and an English text may contain a name
_MIN_JAPANESE = 0.85  # share of a Japanese text
_MAX_JAPANESE = 0.08  # share of an English text
_MIN_FUNCTION_WORDS = 0.12  # share of an English text: a list of commands has fewer

_NO_LANGUAGE = re.compile(
    r"```.*?```|`[^`\n]*`|\w+://\S+|\S+@\S+\.\w+|[@#]\S+|<[^>\n]*>|"
    r"[\w.~-]*[/\\][\w./\\~-]*[\w/\\]|\b\w+(?:[._-]\w+)+\b|\b\w*[\d_]\w*\b|\b\w*[A-Z]\w*\b",
    re.DOTALL | re.ASCII,
)
_HIRAGANA = re.compile("[\u3041-\u3096]")
_JAPANESE = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u9fff]")
_KANA = re.compile("[\u3041-\u30ff]")
_LATIN = re.compile("[A-Za-z]")
_WORD = re.compile(r"(?<![\w'’])[a-z]+(?:['’][a-z]+)?(?![\w])", re.ASCII)
_FUNCTION_WORDS = frozenset(
    "the a an is are was were be been to of and in for on at by with from as or but not that this "
    "it its he she they we you i his her their our your who what when how will would can could "
    "should has have had do does did if so than then there about after before until which no".split()
)


def detect_language(texts: Iterable[str]) -> Literal["ja", "en"] | None:
    """Return the language of texts, or None for short, mixed and other texts."""
    text = _NO_LANGUAGE.sub(" ", "\n".join(texts))
    words = _WORD.findall(text)
    japanese = len(_JAPANESE.findall(text)) / _JAPANESE_PER_WORD
    size = len(words) + japanese
    if size < _MIN_WORDS:
        return None
    if japanese >= _MIN_JAPANESE * size and len(_HIRAGANA.findall(text)) >= _MIN_HIRAGANA:
        return "ja"
    function_words = sum(word in _FUNCTION_WORDS for word in words)
    if japanese <= _MAX_JAPANESE * size and function_words >= _MIN_FUNCTION_WORDS * len(words):
        return "en"
    return None


def is_mostly_japanese(text: str) -> bool:
    """Return whether a text, even a short one, has more Japanese than Latin content."""
    # A Japanese character counts as two Latin letters.
    japanese = len(_JAPANESE.findall(text)) * _JAPANESE_PER_WORD
    return japanese > len(_LATIN.findall(text)) and _KANA.search(text) is not None
