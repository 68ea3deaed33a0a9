"""Estimate of a backfill before anything is spent: calls, tokens, money and time.

A call on a segment or a thread reads its messages and a mean number of tokens besides them. Merges
read what those calls answer. Each number is a range around the most likely one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from memories.rules.generate.splitting import INPUT_LIMIT, MERGE_LIMIT
from memories.rules.settings import MemorySettings

Money = Callable[[int, int], int]  # tokens in, tokens out → millionths of a dollar

INSTRUCTIONS, JAPANESE_INSTRUCTIONS = 280, 440  # tokens of our own words in a request
LINE = 8  # tokens of a message's date, author and number
BLOCK = 20  # tokens around a block of data


class Range(NamedTuple):
    low: float
    middle: float
    high: float

    def times(self, factor: float) -> "Range":
        return Range(*(end * factor for end in self))

    def as_json(self, digits: int | None = None) -> dict[str, float]:
        return {name: round(end, digits) for name, end in self._asdict().items()}


TOKENS = Range(0.75, 1.0, 1.25)  # of the most likely number of tokens


@dataclass(frozen=True)
class Means:
    """Means of a model's newest calls on messages.

    ``besides``: tokens that a call reads besides its messages; None where nothing is measured.
    ``answer``: length of an answer, relative to `answer_length`. ``repeats``: calls until an answer
    was good enough. ``measured``: how many calls.
    """

    besides: float | None = None
    answer: float = 1.0
    seconds: Range = Range(1.0, 5.0, 12.0)
    repeats: float = 1.0
    measured: int = 0


OFFLINE = Means(seconds=Range(0.005, 0.02, 0.1))


@dataclass(frozen=True)
class Load:
    """What is to be remembered of a channel, and the lengths of its memories. All in tokens.

    ``background`` is the workspace's memory. ``is_recent``: part of its short-term memory.
    """

    key: str
    name: str
    messages: int = 0
    segments: Sequence[int] = ()
    threads: Sequence[int] = ()
    background: int = 0
    short_term: int = 0
    long_term: int = 0
    is_public: bool = True
    is_recent: bool = False
    is_japanese: bool = False


@dataclass(frozen=True)
class Part:
    """The calls for one channel, or for the workspace's own memories (key "")."""

    key: str = ""
    name: str = ""
    messages: int = 0
    segments: int = 0
    threads: int = 0
    calls: int = 0  # on messages
    merges: int = 0
    tokens_in: float = 0
    tokens_out: float = 0


@dataclass(frozen=True)
class Quote:
    """``price`` None: the model has no price. ``side_by_side`` calls run at the same time."""

    parts: Sequence[Part]
    workspace: Part
    means: Means
    side_by_side: int
    price: Money | None
    is_free: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "free": self.is_free,
            "priced": self.price is not None,
            "measured": self.means.measured,
            "side_by_side": self.side_by_side,
            "channels": [
                {"channel_id": part.key, "channel_name": part.name, **self._numbers([part])}
                for part in self.parts
            ],
            "workspace": self._numbers([self.workspace]),
            "total": self._numbers([*self.parts, self.workspace]),
        }

    def _numbers(self, parts: Sequence[Part]) -> dict[str, Any]:
        paid = [] if self.is_free else parts
        calls = sum(part.calls + part.merges for part in paid)
        repeated = sum(part.calls for part in paid) * (self.means.repeats - 1)
        tokens_in = TOKENS.times(sum(part.tokens_in for part in paid))
        tokens_out = TOKENS.times(sum(part.tokens_out for part in paid))
        tokens = Range(*map(sum, zip(tokens_in, tokens_out, strict=True)))
        dollars = None
        if price := self.price:
            micros = [price(round(i), round(o)) for i, o in zip(tokens_in, tokens_out, strict=True)]
            dollars = Range(*micros).times(1e-6).as_json(6)
        return {
            "messages": sum(part.messages for part in parts),
            "segments": sum(part.segments for part in parts),
            "threads": sum(part.threads for part in parts),
            # Some calls fail and are made again.
            "calls": Range(calls, calls, math.ceil(repeated + calls * 1.05)).as_json(),
            "tokens_in": tokens_in.as_json(),
            "tokens_out": tokens_out.as_json(),
            "tokens": tokens.as_json(),
            "dollars": dollars,
            "minutes": self.means.seconds.times(self._rounds(parts) / 60).as_json(2),
        }

    def _rounds(self, parts: Sequence[Part]) -> int:
        """Calls after one another: those on messages, the merges, and the workspace's own."""
        merges = [part.merges for part in parts if part.key]
        calls = sum(part.calls for part in parts) * self.means.repeats
        first = math.ceil(calls / self.side_by_side)
        chain = max([math.ceil(sum(merges) / self.side_by_side), *merges])
        return first + chain + sum(part.merges for part in parts if not part.key)


def quote_of(
    loads: Iterable[Load],
    settings: MemorySettings,
    means: Means,
    price: Money | None,
    *,
    side_by_side: int = 1,
    workspace_memory: int = 0,
    is_free: bool = False,
) -> Quote:
    """The estimate for these channels. ``workspace_memory``: tokens of the workspace's memory."""
    parts = []
    long_terms: list[float] = []
    short_terms: list[float] = []
    for load in loads:
        part, answers = _calls_on_messages(load, settings, means, side_by_side)
        merged = _merges(answers, load.long_term, settings.long_term_max_tokens, load, means)
        parts.append(_sum(part, merged))
        if answers and load.is_public:
            long_terms.append(merged.tokens_out / merged.merges)
        if answers and load.is_public and load.is_recent:
            short_terms.append(answers[-1])
    workspace = _merges(
        long_terms, workspace_memory, settings.long_term_max_tokens, Load("", ""), means
    )
    if settings.workspace_short_term:
        newest = _merges(short_terms, 0, settings.short_term_max_tokens, Load("", ""), means)
        workspace = _sum(workspace, newest)
    return Quote(parts, workspace, means, side_by_side, price, is_free)


def answer_length(limit: int, tokens_in: float) -> float:
    """Tokens of an answer to so many tokens of data, where it may have ``limit``."""
    return min(0.85 * limit, 0.25 * tokens_in + 15)


def _calls_on_messages(
    load: Load, settings: MemorySettings, means: Means, side_by_side: int
) -> tuple[Part, list[float]]:
    """The calls on segments and threads, and the lengths of the answers to the segments."""
    limit = settings.short_term_max_tokens
    answers: list[float] = []
    calls, tokens_in, tokens_out = 0, 0.0, 0.0
    for number, tokens in enumerate([*load.segments, *load.threads]):
        is_segment = number < len(load.segments)
        # The calls of the first round begin before any answer is there to refer to.
        previous = load.short_term or (answers[0] if number >= side_by_side else 0)
        known = [load.background, previous, 0 if is_segment else load.long_term]
        references = sum(length + BLOCK for length in known if length)
        besides = means.besides
        if besides is None:
            besides = _instructions(load) + BLOCK + references
        answer = means.answer * answer_length(limit, tokens + references)
        # A long input is split into halves, and their answers are combined (rule 11).
        halvings = math.ceil(math.log2(max(1, (tokens + besides) / INPUT_LIMIT)))
        combining = 2**halvings - 1
        calls += 1 + 2 * combining
        tokens_in += tokens + besides + 2 * combining * (besides + answer)
        tokens_out += answer * (1 + 2 * combining)
        if is_segment:
            answers.append(answer)
    part = Part(load.key, load.name, load.messages, len(load.segments), len(load.threads), calls)
    repeats = means.repeats
    return replace(part, tokens_in=tokens_in * repeats, tokens_out=tokens_out * repeats), answers


def _merges(texts: Sequence[float], known: int, limit: int, load: Load, means: Means) -> Part:
    """The merges of these texts into a memory of ``known`` tokens."""
    if not texts:
        return Part()
    merges = math.ceil(sum(texts) / MERGE_LIMIT)
    data = sum(texts) + BLOCK * len(texts)
    answer = min(limit, means.answer * answer_length(limit, known + data / merges))
    existing = known + (merges - 1) * answer
    return Part(
        merges=merges,
        tokens_in=data + existing + merges * (_instructions(load) + load.background + BLOCK),
        tokens_out=merges * answer,
    )


def _instructions(load: Load) -> int:
    return JAPANESE_INSTRUCTIONS if load.is_japanese else INSTRUCTIONS


def _sum(part: Part, merged: Part) -> Part:
    return replace(
        part,
        merges=part.merges + merged.merges,
        tokens_in=part.tokens_in + merged.tokens_in,
        tokens_out=part.tokens_out + merged.tokens_out,
    )


def time_left(done: int, left: int, seconds: float) -> Range | None:
    """Seconds until the rest is made, from the rate so far; None before there is a rate."""
    if done < 5 or seconds < 30:
        return None
    middle = left * seconds / done
    return Range(0.75 * middle, middle, 1.5 * middle)
