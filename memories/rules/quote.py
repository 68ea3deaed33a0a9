"""What remembering older history will cost, before anything is spent: calls, tokens, money, time.

Each number is a range around what is most likely; the calls themselves are counted by `workload`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import stdev
from typing import Any

from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.settings import MemorySettings
from memories.rules.workload import (
    BLOCK,
    TITLED,
    Expected,
    Limits,
    Load,
    Part,
    answer_length,
    batches,
    channel_merges,
    expect,
    first_calls,
    instructions,
)

Money = Callable[[int, int], int]  # tokens in, tokens out → millionths of a dollar


@dataclass(frozen=True)
class Range:
    low: float
    middle: float
    high: float

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.middle + other.middle, self.high + other.high)

    def __mul__(self, n: float) -> "Range":
        return Range(self.low * n, self.middle * n, self.high * n)

    def as_json(self, digits: int = 0) -> dict[str, float]:
        numbers = {"low": self.low, "middle": self.middle, "high": self.high}
        return {name: round(n, digits) if digits else round(n) for name, n in numbers.items()}


NONE = Range(0, 0, 0)


@dataclass(frozen=True)
class Rates:
    """How a model answers: its tokens in and out relative to what is expected here, the seconds of
    a call, and on how many earlier calls this rests (0: nothing is measured yet)."""

    tokens_in: Range = Range(0.85, 1.0, 1.15)
    tokens_out: Range = Range(0.6, 1.0, 1.4)
    seconds: Range = Range(1.0, 5.0, 12.0)
    measured: int = 0


OFFLINE_RATES = Rates(NONE, NONE, Range(0.005, 0.02, 0.1))


@dataclass(frozen=True)
class Sample:
    """An earlier call: what would have been expected of it, and what it was."""

    expected_in: int
    tokens_in: int
    expected_out: int
    tokens_out: int
    seconds: float


def measured_rates(samples: Sequence[Sample]) -> Rates:
    """Rates of earlier calls; the defaults when there are none."""
    if not samples:
        return Rates()
    seconds = _ratio([(1, sample.seconds) for sample in samples], least=0.25)
    return Rates(
        _ratio([(s.expected_in, s.tokens_in) for s in samples], least=0.08),
        _ratio([(s.expected_out, s.tokens_out) for s in samples], least=0.15),
        Range(seconds.low, seconds.middle, seconds.high + 0.25 * seconds.middle),
        len(samples),
    )


def _ratio(pairs: Sequence[tuple[float, float]], *, least: float) -> Range:
    """Sum to sum, and about as far to either side as the mean of so many may be off."""
    middle = sum(real for _, real in pairs) / max(1, sum(expected for expected, _ in pairs))
    ratios = [real / expected for expected, real in pairs if expected]
    error = 2 * stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 2 else 0.3 * middle
    off = min(max(error, least * middle), 0.6 * middle)
    return Range(middle - off, middle, middle + off)


@dataclass
class Quote:
    """``price`` None: nobody said what this model costs. ``side_by_side`` calls go at once."""

    parts: Sequence[Part]
    rates: Rates
    side_by_side: int
    price: Money | None
    is_free: bool = False
    workspace: Part = field(default_factory=lambda: Part("", ""))

    def as_json(self) -> dict[str, Any]:
        everything = [*self.parts, self.workspace]
        return {
            "free": self.is_free,
            "priced": self.price is not None,
            "measured": self.rates.measured,
            "side_by_side": self.side_by_side,
            "channels": [
                {"channel_id": p.key, "channel_name": p.name, **self._numbers([p])}
                for p in self.parts
            ],
            "workspace": self._numbers([self.workspace]),
            "total": self._numbers(everything),
        }

    def _numbers(self, parts: Sequence[Part]) -> dict[str, Any]:
        cost = sum((p.first + p.merges for p in parts), Expected())
        tokens_in, tokens_out = self.tokens(cost)
        calls = 0 if self.is_free else cost.calls
        return {
            "messages": sum(p.messages for p in parts),
            "segments": sum(p.segments for p in parts),
            "threads": sum(p.threads for p in parts),
            # Now and then one must be made again.
            "calls": Range(calls, calls, math.ceil(calls * 1.05)).as_json(),
            "tokens_in": tokens_in.as_json(),
            "tokens_out": tokens_out.as_json(),
            "tokens": (tokens_in + tokens_out).as_json(),
            "dollars": self._dollars(tokens_in, tokens_out),
            "minutes": (self.seconds(parts) * (1 / 60)).as_json(2),
        }

    def tokens(self, cost: Expected) -> tuple[Range, Range]:
        return self.rates.tokens_in * cost.tokens_in, self.rates.tokens_out * cost.tokens_out

    def _dollars(self, tokens_in: Range, tokens_out: Range) -> dict[str, float] | None:
        if self.price is None:
            return None
        micros = Range(
            self.price(round(tokens_in.low), round(tokens_out.low)),
            self.price(round(tokens_in.middle), round(tokens_out.middle)),
            self.price(round(tokens_in.high), round(tokens_out.high)),
        )
        return (micros * 1e-6).as_json(6)

    def seconds(self, parts: Sequence[Part]) -> Range:
        """First what is made of messages, then the merges, whose texts follow one another."""
        rounds = math.ceil(sum(p.first.calls for p in parts) / self.side_by_side)
        own = [p.merges.calls for p in parts if p.key]
        chain = max(max(own, default=0), math.ceil(sum(own) / self.side_by_side))
        last = sum(p.merges.calls for p in parts if not p.key)
        return self.rates.seconds * (rounds + chain + last)


def quote_of(
    loads: Iterable[Load],
    settings: MemorySettings,
    limits: Limits,
    rates: Rates,
    price: Money | None,
    *,
    workspace_memory: int = 0,
    is_free: bool = False,
) -> Quote:
    """The quote of all that these channels hold; ``workspace_memory`` is its length by now."""
    parts: list[Part] = []
    public: list[int] = []
    newest: list[int] = []  # short-term texts of public channels within the window
    rate = 1.0 if is_free else rates.tokens_out.middle
    begun = 0  # calls of messages before this channel's, in the order in which they are made
    for load in loads:
        part, outputs = first_calls(load, settings, limits, begun, rate)
        begun += part.first.calls
        part.merges, grown = channel_merges(load, outputs, settings, limits, rate)
        if outputs and load.is_public:
            public.append(grown)
        if outputs and load.is_public and load.is_recent:
            newest.append(outputs[-1])
        parts.append(part)
    quote = Quote(parts, rates, limits.side_by_side, price, is_free)
    system = instructions(
        MemoryScope.WORKSPACE, MemoryType.LONG_TERM, settings, japanese=False, background=False
    )
    for batch in batches(public, limits.merge):
        data = workspace_memory + sum(tokens + TITLED for tokens in batch) + BLOCK
        cost = expect(system, data, settings.long_term_max_tokens, limits.prompt)
        quote.workspace.merges += cost
        workspace_memory = answer_length(settings.long_term_max_tokens, data, rate)
    if newest and settings.workspace_short_term:  # once, when all is remembered
        system = instructions(
            MemoryScope.WORKSPACE, MemoryType.SHORT_TERM, settings, japanese=False, background=False
        )
        data = sum(tokens + TITLED for tokens in newest)
        limit = settings.short_term_max_tokens
        quote.workspace.merges += expect(system, data, limit, limits.prompt)
    return quote


def time_left(done: int, left: int, seconds: float) -> Range | None:
    """Seconds until the rest is made, from the rate so far; None before there is a rate."""
    if done < 5 or seconds < 30:
        return None
    middle = left * seconds / done
    return Range(0.75 * middle, middle, 1.5 * middle)
