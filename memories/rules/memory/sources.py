"""Which messages say a line: found by code, whatever a model cites.

A source's score is the weight of the words it shares with the line, over the weight of the line's
words. Words that few messages hold weigh most. Words are those of the search, so Japanese works; the
author's name is among them.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from memories.rules.generate.summary import MOST_SOURCES, MemoryLine, MessageLine, ReadLine, Request
from memories.rules.generate.tokens import WIDE
from memories.rules.memory.figures import Figures, pieces, unverified
from memories.rules.search import tokenizer

ENOUGH = 0.25  # of a line's weight: below it nothing in the request says the line
QUOTED = 0.97  # the line only copies a message
_MORE = 0.15  # of a line's weight that a further source must add
_TWICE = 2.0  # a source that says so much more than the cited ones is added to them
_LITTLE = 0.2  # share of the weight of a word that says little

_LITTLE_WORDS = frozenset(
    "a an and are as at be been but by can could did do does for from had has have he her him his how i if in into is it "
    "its me my no not of on or our she should so that the their them then there these they this to up us was we were what "
    "when which who will with would you your also about after all any because just more now only out over some than too "
    "one said says".split()
)
_HIRAGANA = re.compile("[\u3041-\u309f]+")


@dataclass(frozen=True)
class Source:
    """A message, or a line of a memory, that a reply may rest on."""

    ref: int
    words: frozenset[str]
    figures: Figures
    is_message: bool
    is_wide: bool  # written in Japanese, Chinese or Korean

    @classmethod
    def of_message(cls, message: MessageLine) -> "Source":
        text = f"{message.author} {message.text}"
        figures = Figures(text, message.at)
        return cls(message.ref, frozenset(words_of(text)), figures, True, _is_wide(message.text))

    @classmethod
    def of_line(cls, line: MemoryLine, at: datetime | None) -> "Source":
        """A line of a memory; ``at`` is the time of its newest message."""
        words, figures = frozenset(words_of(line.text)), Figures(line.text, at)
        return cls(line.ref, words, figures, False, _is_wide(line.text))


def _is_wide(text: str) -> bool:
    return WIDE.search(text) is not None


def words_of(text: str) -> list[str]:
    """The words of a text as the search has them. One letter that ends a Japanese word is none."""
    words = tokenizer.stored(text).split()
    return [word for word in words if len(word) > 1 or not WIDE.match(word)] or words


def significant_words(text: str) -> frozenset[str]:
    """The words of a text that say something."""
    return frozenset(word for word in words_of(text) if not _says_little(word))


@dataclass(frozen=True)
class SourceFinder:
    """Finds the sources of lines among the texts of one request."""

    sources: Sequence[Source]

    @classmethod
    def of(cls, request: Request) -> "SourceFinder":
        lines = request.memory_lines
        return cls(
            [
                *(Source.of_line(line, request.local_time(line.at_us)) for line in lines),
                *map(Source.of_message, request.messages),
            ]
        )

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(word for source in self.sources for word in source.words)

    @cached_property
    def _by_ref(self) -> dict[int, Source]:
        return {source.ref: source for source in self.sources}

    def weight(self, word: str) -> float:
        """How much a word says: more, the fewer messages hold it."""
        count = self._counts[word]
        weight = math.log(1 + len(self.sources) / (1 + count))
        # A figure that nobody wrote may be a date that was resolved: `figures` checks it.
        says_little = _says_little(word) or (not count and word.isdecimal())
        return weight * _LITTLE if says_little else weight

    def trace(self, line: ReadLine) -> ReadLine:
        """The line with the sources that hold it, its quotes and its unverified figures marked."""
        weights = {word: self.weight(word) for word in words_of(line.text)}
        total = sum(weights.values())
        if not total or not self.sources:
            return ReadLine(line.text, (), line.kind)
        scores = {s.ref: _shared(weights, s.words) / total for s in self.sources}
        refs = self._cited(line, weights)
        best = max(scores, key=lambda ref: (scores[ref], -ref))
        most_cited = max((scores[ref] for ref in refs), default=0.0)
        if scores[best] >= ENOUGH and scores[best] >= _TWICE * most_cited:
            refs = [best, *refs] if refs else self._covering(weights, scores)
        refs = self._with_figures(line.text, refs[:MOST_SOURCES], scores)
        held = [self._by_ref[ref].figures for ref in refs]
        return ReadLine(
            line.text,
            tuple(refs),
            line.kind,
            is_quote=any(
                source.is_message and scores[source.ref] >= QUOTED for source in self.sources
            ),
            unverified=unverified(line.text, held) if held else (),
        )

    def score(self, text: str, ref: int) -> float:
        """How much of a text the source with this number says, from 0 to 1."""
        weights = {word: self.weight(word) for word in words_of(text)}
        total = sum(weights.values())
        source = self._by_ref.get(ref)
        return _shared(weights, source.words) / total if source and total else 0.0

    def best(self, text: str) -> float:
        """The score of the message that says most of a text; 0 when none says anything of it."""
        weights = {word: self.weight(word) for word in words_of(text)}
        total = sum(weights.values())
        shares = (_shared(weights, source.words) for source in self.sources)
        return max(shares, default=0.0) / total if total else 0.0

    def _cited(self, line: ReadLine, weights: dict[str, float]) -> list[int]:
        """The cited ones that share a word with the line which says something. A line in another
        script than its source shares none: there the model's word stands."""
        is_wide = _is_wide(line.text)
        telling = {word for word in weights if not _says_little(word)} or set(weights)
        cited = (self._by_ref[ref] for ref in line.refs if ref in self._by_ref)
        return [s.ref for s in cited if s.words & telling or s.is_wide is not is_wide]

    def _covering(self, weights: dict[str, float], scores: dict[int, float]) -> list[int]:
        """The best source, and further ones that say enough and add words of the line."""
        total = sum(weights.values())
        left, chosen = dict(weights), list[int]()
        while len(chosen) < MOST_SOURCES:
            gains = {
                ref: _shared(left, self._by_ref[ref].words) / total
                for ref, score in scores.items()
                if score >= ENOUGH and ref not in chosen
            }
            best = max(gains, key=lambda ref: (gains[ref], -ref), default=0)
            if not gains or (chosen and gains[best] < _MORE):
                break
            chosen.append(best)
            left = {w: value for w, value in left.items() if w not in self._by_ref[best].words}
        return chosen

    def _with_figures(self, text: str, refs: Sequence[int], scores: dict[int, float]) -> list[int]:
        """The sources, and one more for each figure that only another related message holds."""
        chosen = list(refs)
        if not chosen:
            return chosen
        related = sorted(scores, key=lambda ref: (-scores[ref], ref))
        for piece in pieces(text):
            if any(self._by_ref[ref].figures.holds(piece) for ref in chosen):
                continue
            holding = (r for r in related if scores[r] and self._by_ref[r].figures.holds(piece))
            chosen += [ref for ref in [next(holding, None)] if ref is not None]
        return list(dict.fromkeys(chosen))[:MOST_SOURCES]


def _shared(weights: dict[str, float], words: Iterable[str]) -> float:
    return sum(weights[word] for word in weights.keys() & words)


def _says_little(word: str) -> bool:
    return word in _LITTLE_WORDS or _HIRAGANA.fullmatch(word) is not None
