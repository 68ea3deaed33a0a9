"""Outcomes of the objects that an import or a sync reads, and their counts.

Every person, channel and message gets exactly one outcome. So does a file that is damaged or holds
no objects. The reader counts the objects, and the storing code counts the outcomes. When the two
differ an object was lost, and `Tally.is_complete` is False.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any


class ObjectType(StrEnum):
    __hash__ = str.__hash__  # that of enum is slow, and each object is counted twice

    PERSON = "people"
    CHANNEL = "channels"
    MESSAGE = "messages"
    FILE = "files"  # only files that hold no objects or are damaged


class Result(StrEnum):
    __hash__ = str.__hash__

    STORED = "stored"
    UPDATED = "updated"
    DUPLICATE = "duplicate"
    SKIPPED = "skipped"  # understood, and left out on purpose
    QUARANTINED = "quarantined"  # not understood: a person should look


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result with its reason, a short phrase. Stored objects need none."""

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
    """Counts of the objects read, by type, and of their outcomes."""

    seen: Counter[ObjectType] = field(default_factory=Counter)
    outcomes: Counter[tuple[ObjectType, Outcome]] = field(default_factory=Counter)

    def count_seen(self, object_type: ObjectType, count: int = 1) -> None:
        self.seen[object_type] += count

    def count_outcome(self, object_type: ObjectType, outcome: Outcome, count: int = 1) -> None:
        self.outcomes[object_type, outcome] += count

    def add(self, tally: "Tally") -> None:
        self.seen.update(tally.seen)
        self.outcomes.update(tally.outcomes)

    @property
    def is_complete(self) -> bool:
        """Whether each object that was read has an outcome."""
        return all(self.seen[kind] == self.count(kind) for kind in ObjectType)

    def count(self, object_type: ObjectType | None = None, result: Result | None = None) -> int:
        """Return the number of outcomes of one type or all, with one result or any."""
        return sum(
            count
            for (kind, outcome), count in self.outcomes.items()
            if object_type in (None, kind) and result in (None, outcome.result)
        )

    def sorted_outcomes(self) -> Iterator[tuple[ObjectType, Outcome, int]]:
        """Yield (type, outcome, count) in the order of the enums, then by reason."""
        types, results = list(ObjectType), list(Result)
        ordered = sorted(
            self.outcomes.items(),
            key=lambda item: (
                types.index(item[0][0]),
                results.index(item[0][1].result),
                item[0][1].reason,
            ),
        )
        for (object_type, outcome), count in ordered:
            if count:
                yield object_type, outcome, count

    def as_json(self) -> dict[str, Any]:
        """Return ``{"messages": {"seen": 3, "stored": 2, …, "reasons": {"skipped: …": 1}}, …}``."""
        return {
            object_type.value: {
                "seen": self.seen[object_type],
                **{result.value: self.count(object_type, result) for result in Result},
                "reasons": {
                    f"{outcome.result}: {outcome.reason}": count
                    for kind, outcome, count in self.sorted_outcomes()
                    if kind is object_type and outcome.reason
                },
            }
            for object_type in ObjectType
        }
