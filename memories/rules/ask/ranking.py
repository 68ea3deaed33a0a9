"""Rank the lines, notes and messages that may answer a question."""

from collections.abc import Sequence
from dataclasses import dataclass

from memories.rules import salience

MOST = 8  # passages of an answer
BEST = 3  # passages that an answer without a model begins with

# Measured on the questions of the demo (tests/pipeline/ask/test_asking.py).
_LINE_FACTOR = 1.15  # a line stands alone, and was checked against its sources
_KIND_EXPONENT = 1.5  # of the factor for decisions, tasks and questions


@dataclass(frozen=True)
class Candidate:
    """A text that may answer a question."""

    text: str
    at_us: int
    is_line: bool = False


def choose(question: str, candidates: Sequence[Candidate], most: int = MOST) -> list[int]:
    """Return the indexes of the best candidates, best first, without near-duplicates.

    The score is BM25, times a factor for the kind of the text. Of equal texts the newer one is
    better.
    """
    words = [salience.content_words(candidate.text) for candidate in candidates]
    rarity = salience.word_rarity(words)
    scores = salience.bm25_scores(salience.content_words(question), words, rarity)
    values = [
        score * _factor(candidate) for score, candidate in zip(scores, candidates, strict=True)
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


def _factor(candidate: Candidate) -> float:
    factor: float = salience.score(candidate.text) ** _KIND_EXPONENT
    return factor * (_LINE_FACTOR if candidate.is_line else 1.0)
