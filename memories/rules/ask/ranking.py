"""Rank the lines, notes and messages that may answer a question."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from memories.rules import salience
from memories.rules.language import is_mostly_japanese

MAX_PASSAGES = 8  # of an answer
BEST = 3  # passages that an answer without a model begins with

# Measured on the questions of the demo (tests/demo/test_highlights.py).
_LINE_FACTOR = 1.25  # a line stands alone, and was checked against its sources
_LANGUAGE_FACTOR = 2.0  # a text in the language of the question
_ANSWER_FACTOR = 1.3  # a text with a person, a date or a number, as the question wants it
_HALF_LIFE = timedelta(days=5) // timedelta(microseconds=1)
_OLD = 0.5  # the factor of a text that is much older than that

_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*|\n")
_PERSON = re.compile(r"@\w|さん|\bI'll\b|\bowners?\b|担当", re.IGNORECASE)
# The words of a question, and whether a text can answer it.
_ANSWERS: tuple[tuple[re.Pattern[str], Callable[[str], object]], ...] = (
    (re.compile(r"\b(?:who|whom|whose|owns?)\b|誰|だれ|担当|窓口", re.IGNORECASE), _PERSON.search),
    (
        re.compile(
            r"\b(?:when|how long|deadline|wh(?:at|ich) da(?:te|y))\b|いつ|期限|何[時日曜]",
            re.IGNORECASE,
        ),
        salience.has_date,
    ),
    (
        re.compile(
            r"\bhow (?:many|much|long|often|big)\b|いくつ|いくら|どのくらい|どれくらい|何[個件人分台社店円％%]",
            re.IGNORECASE,
        ),
        salience.has_number,
    ),
)


@dataclass(frozen=True)
class Candidate:
    """A text that may answer a question."""

    text: str
    at_us: int
    is_line: bool = False


def choose(
    question: str, candidates: Sequence[Candidate], now_us: int, most: int = MAX_PASSAGES
) -> list[int]:
    """Return the indexes of the best candidates, best first, without near-duplicates.

    The score is BM25 of the stems, times factors for what a text states, its language and its age.
    """
    words = [salience.stems(candidate.text) for candidate in candidates]
    rarity = salience.word_rarity(words)
    scores = salience.bm25_scores(salience.stems(question), words, rarity)
    values = [
        score * _factor(question, candidate, now_us) if score else 0.0
        for score, candidate in zip(scores, candidates, strict=True)
    ]
    ranked = sorted(range(len(candidates)), key=lambda i: (-values[i], -candidates[i].at_us))
    chosen: list[int] = []
    covered = salience.ChosenTexts()
    for i in ranked:
        if len(chosen) == most or values[i] <= 0:
            break
        if not covered.has_duplicate_of(words[i], candidates[i].at_us):
            covered.add(words[i], candidates[i].at_us)
            chosen.append(i)
    return chosen


def _factor(question: str, candidate: Candidate, now_us: int) -> float:
    age = max(0, now_us - candidate.at_us) / _HALF_LIFE
    factor = _statement_factor(candidate.text) * (_OLD + (1 - _OLD) * math.pow(0.5, age))
    for asks, can_answer in _ANSWERS:
        if asks.search(question) and can_answer(candidate.text):
            factor *= _ANSWER_FACTOR
    if is_mostly_japanese(question) == is_mostly_japanese(candidate.text):
        factor *= _LANGUAGE_FACTOR
    if candidate.is_line:
        factor *= _LINE_FACTOR
    return factor


@lru_cache(maxsize=5_000)
def _statement_factor(text: str) -> float:
    """Return the factor of a text's statements, or of the question if it only asks."""
    sentences = _SENTENCE_END.split(text)
    statements = [sentence for sentence in sentences if not salience.has_question(sentence)]
    return salience.score(" ".join(statements).strip() or text)
