"""Whether a text is clearly Japanese or clearly English: an answer only where nobody would doubt.

Code, names, addresses and numbers say nothing about the language of those who use them.
"""

import re
from collections.abc import Iterable
from typing import Literal

_ENOUGH = 20  # words; shorter texts are in no clear language
_JAPANESE_PER_WORD = 2  # characters that say as much as an English word
_HIRAGANA = 10  # of them at least: Chinese has none, and an English text may quote a name
_MOSTLY = 0.85  # of all words
_HARDLY = 0.08
_LITTLE_WORDS = 0.12  # of the English words at least: a list of commands has none

_NO_LANGUAGE = re.compile(
    r"```.*?```|`[^`\n]*`|\w+://\S+|\S+@\S+\.\w+|[@#]\S+|<[^>\n]*>|"
    r"[\w.~-]*[/\\][\w./\\~-]*[\w/\\]|\b\w+(?:[._-]\w+)+\b|\b\w*[\d_]\w*\b|\b\w*[A-Z]\w*\b",
    re.DOTALL | re.ASCII,
)
_HIRA = re.compile("[\u3041-\u3096]")
_JAPANESE = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u9fff]")
_KANA = re.compile("[\u3041-\u30ff]")
_LATIN = re.compile("[A-Za-z]")
_WORD = re.compile(r"(?<![\w'’])[a-z]+(?:['’][a-z]+)?(?![\w])", re.ASCII)
_LITTLE = frozenset(
    "the a an is are was were be been to of and in for on at by with from as or but not that this "
    "it its he she they we you i his her their our your who what when how will would can could "
    "should has have had do does did if so than then there about after before until which no".split()
)


def detect_language(texts: Iterable[str]) -> Literal["ja", "en"] | None:
    """None for short, mixed and other texts."""
    text = _NO_LANGUAGE.sub(" ", "\n".join(texts))
    words = _WORD.findall(text)
    japanese = len(_JAPANESE.findall(text)) / _JAPANESE_PER_WORD
    size = len(words) + japanese
    if size < _ENOUGH:
        return None
    if japanese >= _MOSTLY * size and len(_HIRA.findall(text)) >= _HIRAGANA:
        return "ja"
    little = sum(word in _LITTLE for word in words)
    if japanese <= _HARDLY * size and little >= _LITTLE_WORDS * len(words):
        return "en"
    return None


def is_mostly_japanese(text: str) -> bool:
    """Whether a text says more in Japanese than in Latin letters; a short one, too."""
    # A Japanese character says about as much as two or three Latin letters.
    japanese = len(_JAPANESE.findall(text)) * _JAPANESE_PER_WORD
    return japanese > len(_LATIN.findall(text)) and _KANA.search(text) is not None
