"""Estimate the calls, tokens, money and time of a backfill.

A call for a segment or a thread reads its messages and a mean number of other tokens. Merges read
the replies of those calls. Each number is a range around the most likely one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from memories.rules.generate.splitting import INPUT_LIMIT, MERGE_LIMIT
from memories.rules.settings import MemorySettings

Money = Callable[[int, int], int]  # tokens in, tokens out → millionths of a dollar

INSTRUCTIONS, JAPANESE_INSTRUCTIONS = 280, 440  # tokens of the instructions in a request
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
class CallStatistics:
    """Means of a model's newest calls for segments and threads.

    ``overhead`` is the number of input tokens besides the messages, None without a measurement.
    ``reply_ratio`` is the length of a reply relative to `reply_tokens`. ``attempts`` is the number
    of calls for one accepted reply, ``sample`` the number of measured calls.
    """

    overhead: float | None = None
    reply_ratio: float = 1.0
    seconds: Range = Range(1.0, 5.0, 12.0)
    attempts: float = 1.0
    sample: int = 0


# Most of the time is for reading and writing rows.
OFFLINE_STATISTICS = CallStatistics(seconds=Range(0.05, 0.15, 0.3))


@dataclass(frozen=True)
class Workload:
    """The messages of a channel without a memory, and the lengths of its memories, in tokens.

    ``segments`` and ``threads`` have the tokens of each. ``background`` is the workspace's memory.
    ``latest_us`` is the time of the newest message.
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
    latest_us: int = 0
    is_japanese: bool = False


@dataclass(frozen=True)
class ScopeEstimate:
    """The calls for one channel, or for the workspace's own memories (key "")."""

    key: str = ""
    name: str = ""
    messages: int = 0
    segments: int = 0
    threads: int = 0
    calls: int = 0  # for segments and threads
    merges: int = 0
    tokens_in: float = 0
    tokens_out: float = 0


@dataclass(frozen=True)
class Estimate:
    """The estimate for channels and for the workspace's memories.

    ``price`` is None for a model without a price. ``concurrency`` calls run at the same time.
    """

    channels: Sequence[ScopeEstimate]
    workspace: ScopeEstimate
    statistics: CallStatistics
    concurrency: int
    price: Money | None
    is_free: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "free": self.is_free,
            "priced": self.price is not None,
            "measured": self.statistics.sample,
            "side_by_side": self.concurrency,
            "channels": [
                {"channel_id": x.key, "channel_name": x.name, **self._numbers([x])}
                for x in self.channels
            ],
            "workspace": self._numbers([self.workspace]),
            "total": self._numbers([*self.channels, self.workspace]),
        }

    def _numbers(self, scopes: Sequence[ScopeEstimate]) -> dict[str, Any]:
        paid = [] if self.is_free else scopes
        calls = sum(x.calls + x.merges for x in paid)
        repeated = sum(x.calls for x in paid) * (self.statistics.attempts - 1)
        tokens_in = TOKENS.times(sum(x.tokens_in for x in paid))
        tokens_out = TOKENS.times(sum(x.tokens_out for x in paid))
        tokens = Range(*map(sum, zip(tokens_in, tokens_out, strict=True)))
        dollars = None
        if price := self.price:
            micros = [price(round(i), round(o)) for i, o in zip(tokens_in, tokens_out, strict=True)]
            dollars = Range(*micros).times(1e-6).as_json(6)
        return {
            "messages": sum(x.messages for x in scopes),
            "segments": sum(x.segments for x in scopes),
            "threads": sum(x.threads for x in scopes),
            # A share of the calls fails and is repeated.
            "calls": Range(calls, calls, math.ceil(repeated + calls * 1.05)).as_json(),
            "tokens_in": tokens_in.as_json(),
            "tokens_out": tokens_out.as_json(),
            "tokens": tokens.as_json(),
            "dollars": dollars,
            "minutes": self.statistics.seconds.times(self._rounds(scopes) / 60).as_json(2),
        }

    def _rounds(self, scopes: Sequence[ScopeEstimate]) -> int:
        """Return the number of calls in sequence: for messages, merges, and workspace memories."""
        merges = [x.merges for x in scopes if x.key]
        calls = sum(x.calls for x in scopes) * self.statistics.attempts
        first = math.ceil(calls / self.concurrency)
        chain = max([math.ceil(sum(merges) / self.concurrency), *merges])
        return first + chain + sum(x.merges for x in scopes if not x.key)


def estimate_costs(
    workloads: Iterable[Workload],
    settings: MemorySettings,
    statistics: CallStatistics,
    price: Money | None,
    *,
    concurrency: int = 1,
    workspace_memory: int = 0,
    is_free: bool = False,
) -> Estimate:
    """Return the estimate for these channels.

    ``workspace_memory`` is the length of the workspace's long-term memory in tokens.
    """
    channels = []
    long_terms: list[float] = []
    short_terms: list[tuple[int, float]] = []  # with the time of the newest message
    for load in workloads:
        calls, replies = _message_calls(load, settings, statistics, concurrency)
        merges = _merges(replies, load.long_term, settings.long_term_max_tokens, load, statistics)
        channels.append(_sum(calls, merges))
        if replies and load.is_public:
            long_terms.append(merges.tokens_out / merges.merges)
            short_terms.append((load.latest_us, replies[-1]))
    nothing = Workload("", "")
    limit = settings.long_term_max_tokens
    workspace = _merges(long_terms, workspace_memory, limit, nothing, statistics)
    if settings.workspace_short_term:
        limit = settings.short_term_max_tokens
        begin_us = max(short_terms, default=(0, 0))[0] - settings.window_us
        recent = [length for at_us, length in short_terms if at_us >= begin_us]
        workspace = _sum(workspace, _merges(recent, 0, limit, nothing, statistics))
    return Estimate(channels, workspace, statistics, concurrency, price, is_free)


def reply_tokens(limit: int, tokens_in: float) -> float:
    """Return the length of a reply to so many tokens of data, below its ``limit``."""
    return min(0.85 * limit, 0.25 * tokens_in + 15)


def _message_calls(
    load: Workload, settings: MemorySettings, statistics: CallStatistics, concurrency: int
) -> tuple[ScopeEstimate, list[float]]:
    """Return the calls for segments and threads, and the lengths of the replies for segments."""
    limit = settings.short_term_max_tokens
    replies: list[float] = []
    calls, tokens_in, tokens_out = 0, 0.0, 0.0
    for number, tokens in enumerate([*load.segments, *load.threads]):
        is_segment = number < len(load.segments)
        # The calls of the first round begin before there is a reply.
        previous = load.short_term or (replies[0] if number >= concurrency else 0)
        memories = [load.background, previous, 0 if is_segment else load.long_term]
        references = sum(length + BLOCK for length in memories if length)
        overhead = statistics.overhead
        if overhead is None:
            overhead = _instructions(load) + BLOCK + references
        reply = statistics.reply_ratio * reply_tokens(limit, tokens + references)
        # A long input is split into halves, and their replies are combined (rule 11).
        halvings = math.ceil(math.log2(max(1, (tokens + overhead) / INPUT_LIMIT)))
        combining = 2**halvings - 1
        calls += 1 + 2 * combining
        tokens_in += tokens + overhead + 2 * combining * (overhead + reply)
        tokens_out += reply * (1 + 2 * combining)
        if is_segment:
            replies.append(reply)
    scope = ScopeEstimate(
        load.key,
        load.name,
        load.messages,
        len(load.segments),
        len(load.threads),
        calls,
        tokens_in=tokens_in * statistics.attempts,
        tokens_out=tokens_out * statistics.attempts,
    )
    return scope, replies


def _merges(
    texts: Sequence[float], existing: int, limit: int, load: Workload, statistics: CallStatistics
) -> ScopeEstimate:
    """Return the merges of texts of these lengths into a memory of ``existing`` tokens."""
    if not texts:
        return ScopeEstimate()
    merges = math.ceil(sum(texts) / MERGE_LIMIT)
    data = sum(texts) + BLOCK * len(texts)
    expected = statistics.reply_ratio * reply_tokens(limit, existing + data / merges)
    reply = min(limit, expected)
    memories = existing + (merges - 1) * reply
    return ScopeEstimate(
        merges=merges,
        tokens_in=data + memories + merges * (_instructions(load) + load.background + BLOCK),
        tokens_out=merges * reply,
    )


def _instructions(load: Workload) -> int:
    return JAPANESE_INSTRUCTIONS if load.is_japanese else INSTRUCTIONS


def _sum(calls: ScopeEstimate, merges: ScopeEstimate) -> ScopeEstimate:
    return replace(
        calls,
        merges=calls.merges + merges.merges,
        tokens_in=calls.tokens_in + merges.tokens_in,
        tokens_out=calls.tokens_out + merges.tokens_out,
    )


def estimate_time_left(done: int, left: int, seconds: float) -> Range | None:
    """Return the seconds until the end, from the rate so far; None before there is a rate."""
    if done < 5 or seconds < 30:
        return None
    middle = left * seconds / done
    return Range(0.75 * middle, middle, 1.5 * middle)
