"""What became of each object that an import or a sync met, and their sums.

Every person, channel and message, and every file that holds none or cannot be read, ends in
exactly one outcome. The reader counts what it saw and the storing code counts what became of it,
apart from each other: when the two differ something was lost, and `Tally.complete` tells.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any


class Thing(StrEnum):
    __hash__ = str.__hash__  # that of enum is slow, and each object is counted twice

    PERSON = "people"
    CHANNEL = "channels"
    MESSAGE = "messages"
    FILE = "files"  # only those that hold no objects, or break


class Result(StrEnum):
    __hash__ = str.__hash__

    STORED = "stored"
    UPDATED = "updated"
    DUPLICATE = "duplicate"
    SKIPPED = "skipped"  # known and not wanted
    QUARANTINED = "quarantined"  # not understood: a person should look


@dataclass(frozen=True, slots=True)
class Outcome:
    """One ending. A reason is a short phrase; stored objects need none."""

    result: Result
    reason: str = ""


STORED = Outcome(Result.STORED)
STORED_NOTICE = Outcome(Result.STORED, "notice")
UPDATED = Outcome(Result.UPDATED)
DUPLICATE = Outcome(Result.DUPLICATE)


@cache
def skipped(reason: str) -> Outcome:
    return Outcome(Result.SKIPPED, reason)


@cache
def quarantined(reason: str) -> Outcome:
    return Outcome(Result.QUARANTINED, reason)


@dataclass
class Tally:
    """Counts of seen objects and of outcomes."""

    seen: Counter[Thing] = field(default_factory=Counter)
    ended: Counter[tuple[Thing, Outcome]] = field(default_factory=Counter)

    def see(self, thing: Thing, count: int = 1) -> None:
        self.seen[thing] += count

    def end(self, thing: Thing, outcome: Outcome, count: int = 1) -> None:
        self.ended[thing, outcome] += count

    def add(self, other: "Tally") -> None:
        self.seen.update(other.seen)
        self.ended.update(other.ended)

    @property
    def complete(self) -> bool:
        """Each object seen has ended."""
        return all(self.seen[thing] == self.count(thing) for thing in Thing)

    def count(self, thing: Thing | None = None, result: Result | None = None) -> int:
        """How many ended, of one thing or of all, in one result or in any."""
        return sum(
            count
            for (ended, outcome), count in self.ended.items()
            if thing in (None, ended) and result in (None, outcome.result)
        )

    def lines(self) -> Iterator[tuple[Thing, Outcome, int]]:
        """What happened at least once, in a fixed order."""
        results = list(Result)
        ordered = sorted(
            self.ended.items(),
            key=lambda item: (
                list(Thing).index(item[0][0]),
                results.index(item[0][1].result),
                item[0][1].reason,
            ),
        )
        for (thing, outcome), count in ordered:
            if count:
                yield thing, outcome, count

    def as_json(self) -> dict[str, Any]:
        """``{"messages": {"seen": 3, "stored": 2, …, "reasons": {"skipped: …": 1}}, …}``."""
        report: dict[str, Any] = {}
        for thing in Thing:
            report[thing.value] = {
                "seen": self.seen[thing],
                **{result.value: self.count(thing, result) for result in Result},
                "reasons": {
                    f"{outcome.result}: {outcome.reason}": count
                    for kind, outcome, count in self.lines()
                    if kind is thing and outcome.reason
                },
            }
        return report
