"""Decide whether texts can answer a question, whatever a model makes of them."""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from fractions import Fraction

from memories.rules import salience
from memories.rules.ask.answer import NumberedText
from memories.rules.memory.drift import find_name_words
from memories.rules.memory.sources import significant_words

# Measured on the questions of bench/ask.py.
_SHARE = Fraction(2, 3)  # of the question's words, in a text and its neighbours
_NEIGHBOURS = timedelta(hours=1)

_COUNTERS = "個件人分台社店回本枚名"
_DIGITS = r"\d一二三四五六七八九十百千万"
# Pairs of letters with an ending, a particle or a question word. But 何台 asks for a number.
_NO_CONTENT = re.compile(rf"[ぁ-ゖ誰]|何(?![{_COUNTERS}])")
_HOW_MANY = re.compile(r"\bhow many (\w+(?: \w+)?)", re.IGNORECASE)
_MANY = salience.stems("many")
# A number and the two words after it. An amount of money counts nothing, and "one" is an article.
_COUNTED = re.compile(
    r"(?<![\w¥$€£.,])(?:\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
    r"(?: of \d+)? (\w+(?: \w+)?)",
    re.IGNORECASE,
)


def can_answer(question: str, texts: Sequence[NumberedText]) -> bool:
    """Return whether a text and its neighbours have most words of a question, and all that it names.

    Neighbours are the texts of the same channel within an hour. What a question asks for is often in
    the message after the one with its words.
    """
    words = _words(question)
    needed = (words & _stems(find_name_words(question))) | _counters(words)
    covered = [_covered(question, words, text) for text in texts]
    for text in texts:
        shared = frozenset[str]().union(
            *(covered[i] for i, near in enumerate(texts) if _are_neighbours(text, near))
        )
        if needed <= shared and len(shared) >= _SHARE * len(words):
            return True
    return False


def _are_neighbours(text: NumberedText, near: NumberedText) -> bool:
    return text.channel == near.channel and abs(text.at - near.at) <= _NEIGHBOURS


def _words(question: str) -> frozenset[str]:
    """Return the stems of a question's content words, and Japanese pairs without hiragana."""
    stems = _stems(significant_words(question))
    return frozenset(stem for stem in stems if not _NO_CONTENT.search(stem)) or stems


def _stems(words: Iterable[str]) -> frozenset[str]:
    return salience.stems(" ".join(sorted(words)))


def _counters(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if word[0] == "何")


def _covered(question: str, words: frozenset[str], text: NumberedText) -> frozenset[str]:
    """Return the words that a text has. "How many shops" and 何台 need a number of them."""
    shared = words & salience.stems(f"{text.author} {text.text}")
    shared |= {
        word for word in _counters(words) if re.search(rf"[{_DIGITS}] ?{word[1]}", text.text)
    }
    match = _HOW_MANY.search(question)
    if match is None:
        return shared
    things = words & _stems([match[1]])
    if things & _stems(number[1] for number in _COUNTED.finditer(text.text)):
        return shared | _MANY
    return shared - things - _MANY
