"""Sources of a line: the messages that state it.

The score of a source is the weight of the words that it shares with the line, divided by the weight
of all words of the line. A word in few messages has a large weight. Words are tokens of the search,
because Japanese has no spaces. The name of the author is one of the words of a message.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from memories.rules.memory.drift import has_name
from memories.rules.memory.figures import SourceFigures, find_figures, find_unverified
from memories.rules.memory.kinds import Kind, kind_of
from memories.rules.memory.speakers import Speaker, find_misspelt_names, find_speaker
from memories.rules.salience import has_question
from memories.rules.search import tokenizer
from memories.rules.summariser import (
    MAX_SOURCES,
    MemoryLine,
    MessageLine,
    ReplyLine,
    Request,
)
from memories.rules.tokens import WIDE_CHARACTER

MIN_SCORE = 0.25  # the lowest score of a source
QUOTE_SCORE = 0.97  # the lowest score of a message that the line only copies
_MIN_GAIN = 0.15  # the score that a further source must add
_CITATION_FACTOR = 2.0  # a source with this many times the score of the cited ones is added
_STOP_WORD_FACTOR = 0.2  # a stop word has this share of its weight
_SPEAKER_FACTOR = 0.8  # a source with this share of the best score may confirm the speaker

_STOP_WORDS = frozenset(
    "a an and are as at be been but by can could did do does for from had has have he her him his how i if in into is it "
    "its me my no not of on or our she should so that the their them then there these they this to up us was we were what "
    "when which who will with would you your also about after all any because just more now only out over some than too "
    "one said says".split()
)
_HIRAGANA = re.compile("[\u3041-\u309f]+")
_ENDS_AS_QUESTION = re.compile(r"[?？]\W*$|か[。.]?$")
_ONLY_QUESTION = re.compile(
    r"[^.!?。！？]*(?:[?？]|(?:です|ます|でしょう|ません|ました)か[。.]?)\s*"
)
# Words of a line that asks, suggests or requests something. Its sources may all be questions.
_MAY_REST_ON_QUESTION = re.compile(
    r"[?？]|\b(?:if|whether|who|what|which|when|where|why|how)\b"
    r"|\b(?:ask|wonder|question|suggest|propos|want|need|would|request|looking|inquir|seek|search|unclear|consider|"
    r"invit|offer|rais|hop|curious|interest|topic|discuss)\w*"
    r"|か[。.]?$|か(?:どうか|について)|質問|疑問|尋|聞|問|提案|希望|確認|相談|依頼|求|検討|たい",
    re.IGNORECASE,
)
_REPORTS_QUESTION = frozenset("ask asks asked asking wonders wondered wants wanted".split())
# Questions in chats often have no question mark.
_ANY_QUESTION = re.compile(
    r"[?？]|か(?:\W|$)|かどうか|質問|疑問|\b(?:whether|questions?|wonder\w*)\b|(?:^|[^\w\s'’-]\s*)(?:so |and |but |or )?(?:who|what|which|when|where|why|how|is|are|was|were|"
    r"do|does|did|has|have|can|could|should|would|will|any|anyone|anybody)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Source:
    """A message, or a line of a memory, that may be the source of a line."""

    ref: int
    words: frozenset[str]
    figures: SourceFigures
    is_message: bool
    is_wide: bool  # written in Japanese, Chinese or Korean
    has_question: bool
    is_only_question: bool = False
    author: str = ""
    unverified: bool = False

    @classmethod
    def of_message(cls, message: MessageLine) -> "Source":
        text = f"{message.author} {message.text}"
        figures = SourceFigures(text, message.at)
        return cls(
            message.ref,
            frozenset(search_words(text)),
            figures,
            is_message=True,
            is_wide=_is_wide(message.text),
            has_question=_asks_anything(message.text),
            is_only_question=_ONLY_QUESTION.fullmatch(message.text) is not None,
            author=message.author,
        )

    @classmethod
    def of_line(cls, line: MemoryLine, at: datetime | None) -> "Source":
        """Return a line of a memory as a source. ``at`` is the time of its newest message."""
        return cls(
            line.ref,
            frozenset(search_words(line.text)),
            SourceFigures(line.text, at),
            is_message=False,
            is_wide=_is_wide(line.text),
            has_question=_asks_anything(line.text),
            unverified=line.unverified,
        )

    def confirms(self, speaker: Speaker) -> bool:
        """Return whether the speaker wrote the message, or its text has the name.

        If the speaker asks something, the message must ask something, too. A name in a question is of
        the person whom it asks, unless the message reports the question.
        """
        if speaker.asks and not self.has_question:
            return False
        if self.author in speaker.authors:
            return True
        needs_report = speaker.asks and self.is_message and not self.is_wide
        if needs_report and _REPORTS_QUESTION.isdisjoint(self.words):
            return False
        return frozenset(search_words(speaker.name)) <= self.words


def _is_wide(text: str) -> bool:
    return WIDE_CHARACTER.search(text) is not None


def _asks_anything(text: str) -> bool:
    is_question = has_question(text) or kind_of(text) is Kind.QUESTION
    return is_question or _ANY_QUESTION.search(text) is not None


def search_words(text: str) -> list[str]:
    """Return the search tokens of a text, without single letters that end a Japanese word."""
    words = tokenizer.tokenize(text).split()
    return [word for word in words if len(word) > 1 or not WIDE_CHARACTER.match(word)] or words


def significant_words(text: str) -> frozenset[str]:
    return frozenset(word for word in search_words(text) if not _is_stop_word(word))


@dataclass(frozen=True)
class SourceFinder:
    """Finds the sources of lines among the texts of one request."""

    sources: Sequence[Source]
    authors: frozenset[str] = frozenset()  # of the messages

    @classmethod
    def of(cls, request: Request) -> "SourceFinder":
        lines = (
            Source.of_line(line, request.local_time(line.at_us)) for line in request.memory_lines
        )
        authors = frozenset(message.author for message in request.messages)
        return cls([*lines, *map(Source.of_message, request.messages)], authors)

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(word for source in self.sources for word in source.words)

    @cached_property
    def _by_ref(self) -> dict[int, Source]:
        return {source.ref: source for source in self.sources}

    def _weights(self, text: str) -> dict[str, float]:
        return {word: self._weight(word) for word in search_words(text)}

    def _weight(self, word: str) -> float:
        count = self._counts[word]
        weight = math.log(1 + len(self.sources) / (1 + count))
        # A number in no source may be part of a resolved date, which `figures` checks.
        is_weak = _is_stop_word(word) or (not count and word.isdecimal())
        return weight * _STOP_WORD_FACTOR if is_weak else weight

    def add_sources(self, line: ReplyLine) -> ReplyLine:
        """Return the line with its sources, and set its ``is_quote`` and ``unverified``.

        ``line.refs`` are the sources that the model cited.
        """
        weights = self._weights(line.text)
        total = math.fsum(weights.values())
        if not total or not self.sources:
            return ReplyLine(line.text, (), line.kind)
        scores = {s.ref: _shared_weight(weights, s.words) / total for s in self.sources}
        refs = self._valid_citations(line, weights)
        best = max(scores, key=lambda ref: (scores[ref], -ref))
        best_cited = max((scores[ref] for ref in refs), default=0.0)
        if scores[best] >= MIN_SCORE and scores[best] >= _CITATION_FACTOR * best_cited:
            refs = [best, *refs] if refs else self._covering_sources(weights, scores)
        refs = self._add_figure_sources(line.text, refs[:MAX_SOURCES], scores)
        chosen = [self._by_ref[ref] for ref in refs]
        figures = [source.figures for source in chosen]
        return ReplyLine(
            line.text,
            tuple(refs),
            line.kind,
            is_quote=any(
                source.is_message and scores[source.ref] >= QUOTE_SCORE for source in self.sources
            ),
            unverified=tuple(
                dict.fromkeys(
                    (
                        *find_unverified(line.text, figures),
                        *self._find_unverified_names(line.text, chosen),
                        *([line.text] if _is_unsupported(line.text, chosen) else ()),
                    )
                )
            )
            if chosen
            else (),
        )

    def _find_unverified_names(self, text: str, chosen: Sequence[Source]) -> list[str]:
        """Return the names of authors that no chosen source has, wrong speakers and misspelt names."""
        # A name in small letters has a capital letter at the beginning of a sentence.
        texts = (text, text[:1].lower() + text[1:])
        names = [
            name
            for name in sorted(self.authors)
            if any(has_name(form, name) for form in texts)
            and not any(frozenset(search_words(name)) <= source.words for source in chosen)
        ]
        speaker = find_speaker(text, self.authors)
        if (
            speaker is not None
            and speaker.authors.isdisjoint(names)
            and self._is_wrong_speaker(speaker, text, chosen)
        ):
            names.append(speaker.name)
        return [*names, *find_misspelt_names(text, self.authors, self._counts.keys())]

    def _is_wrong_speaker(self, speaker: Speaker, text: str, chosen: Sequence[Source]) -> bool:
        """Return whether none of the best sources of a line confirms its speaker.

        These are the best source, those that score almost as much, and chosen ones that add words.
        """
        claim = speaker.claim if len(significant_words(speaker.claim)) > 1 else text
        names = frozenset(word for name in self.authors for word in search_words(name))
        weights = {word: n for word, n in self._weights(claim).items() if word not in names}
        total = math.fsum(weights.values())
        scores = {source.ref: _shared_weight(weights, source.words) for source in self.sources}
        best = max(self.sources, key=lambda source: (scores[source.ref], -source.ref))
        if not weights or scores[best.ref] < MIN_SCORE * total:
            return False
        missing = {word: n for word, n in weights.items() if word not in best.words}
        close = (s for s in self.sources if scores[s.ref] >= _SPEAKER_FACTOR * scores[best.ref])
        adding = (s for s in chosen if _shared_weight(missing, s.words) >= _MIN_GAIN * total)
        return not any(source.confirms(speaker) for source in (*close, *adding))

    def has_script_of(self, text: str) -> bool:
        """Return whether a source is in the script of a text. Other sources share no words with it."""
        return any(source.is_wide is _is_wide(text) for source in self.sources)

    def score(self, text: str, ref: int) -> float:
        """Return the score of a source for a text, from 0 to 1."""
        return self._score(text, [self._by_ref[ref]] if ref in self._by_ref else [])

    def best_score(self, text: str) -> float:
        """Return the best score of all sources for a text, 0 without any."""
        return self._score(text, self.sources)

    def _score(self, text: str, sources: Iterable[Source]) -> float:
        weights = self._weights(text)
        total = math.fsum(weights.values())
        shared = (_shared_weight(weights, source.words) for source in sources)
        return max(shared, default=0.0) / total if total else 0.0

    def _valid_citations(self, line: ReplyLine, weights: dict[str, float]) -> list[int]:
        """Return the cited sources that share a word with the line that is no stop word.

        A source in another script shares no words with the line, so it is valid, too.
        """
        is_wide = _is_wide(line.text)
        significant = {word for word in weights if not _is_stop_word(word)} or set(weights)
        cited = (self._by_ref[ref] for ref in line.refs if ref in self._by_ref)
        return [s.ref for s in cited if s.words & significant or s.is_wide is not is_wide]

    def _covering_sources(self, weights: dict[str, float], scores: dict[int, float]) -> list[int]:
        """Return the best source, and the sources that add enough words of the line to it."""
        total = math.fsum(weights.values())
        missing, chosen = dict(weights), list[int]()
        while len(chosen) < MAX_SOURCES:
            gains = {
                ref: _shared_weight(missing, self._by_ref[ref].words) / total
                for ref, score in scores.items()
                if score >= MIN_SCORE and ref not in chosen
            }
            best = max(gains, key=lambda ref: (gains[ref], -ref), default=0)
            if not gains or (chosen and gains[best] < _MIN_GAIN):
                break
            chosen.append(best)
            missing = {
                w: value for w, value in missing.items() if w not in self._by_ref[best].words
            }
        return chosen

    def _add_figure_sources(
        self, text: str, refs: Sequence[int], scores: dict[int, float]
    ) -> list[int]:
        """Return these sources, and the best source for each figure that they lack."""
        chosen = list(refs)
        if not chosen:
            return chosen
        related = sorted(
            (ref for ref in scores if scores[ref]), key=lambda ref: (-scores[ref], ref)
        )
        for figure in find_figures(text):
            if not any(self._by_ref[ref].figures.has(figure) for ref in chosen):
                chosen += [ref for ref in related if self._by_ref[ref].figures.has(figure)][:1]
        return list(dict.fromkeys(chosen))[:MAX_SOURCES]


def _is_unsupported(text: str, chosen: Sequence[Source]) -> bool:
    """Return whether a text rests on unverified lines only, or is a question that no source asks.

    A statement that rests on questions only is unsupported, too.
    """
    if all(source.unverified for source in chosen):
        return True
    if _ENDS_AS_QUESTION.search(text) and not any(source.has_question for source in chosen):
        return True
    is_statement = _MAY_REST_ON_QUESTION.search(text) is None
    return is_statement and all(source.is_only_question for source in chosen)


def _shared_weight(weights: dict[str, float], words: Iterable[str]) -> float:
    return math.fsum(weights[word] for word in weights.keys() & words)  # the same in any order


def _is_stop_word(word: str) -> bool:
    return word in _STOP_WORDS or _HIRAGANA.fullmatch(word) is not None
