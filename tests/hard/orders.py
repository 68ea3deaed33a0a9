"""Ways in which one life of a team may come in: which syncs, exports and events, and in what order.

Nothing comes before it happened, and everything may come as late as it likes.
"""

import random
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from tests.hard import lived
from tests.slack.fake_slack import FakeSlack

SPLITS = 3  # ways to cut an evening's export
END = float(lived.DAYS)
Key = tuple[str, str]  # channel id, ts


class Evenings:
    """A life, answered by a Slack for each evening, and its exports on disk."""

    def __init__(self, life: lived.Life, work: Path, seed: int) -> None:
        self.life = life
        self.servers: list[FakeSlack] = []
        self.exports: list[list[list[Path]]] = [[]]  # of each evening, each way to cut it
        self.keys: dict[Path, set[Key]] = {}  # the messages of each part of them
        self._stack = ExitStack()
        chance = random.Random(seed)
        for number, evening in enumerate(life.evenings):
            server = self._stack.enter_context(FakeSlack())
            server.users, server.channels = deepcopy(evening.users), deepcopy(evening.channels)
            self.servers.append(server)
            if number:
                cuts = [
                    self._cut(evening, chance, work / f"{number}-{n}", n) for n in range(SPLITS)
                ]
                self.exports.append(cuts)

    def _cut(self, evening: lived.Evening, chance: random.Random, to: Path, n: int) -> list[Path]:
        parts = [part for part in lived.split(evening, chance, 1 + n) if len(part) > 3]
        ids = {channel.name: id for id, channel in evening.channels.items()}
        paths = [lived.write(part, to / str(i)) for i, part in enumerate(parts)]
        for path, part in zip(paths, parts, strict=True):
            self.keys[path] = {
                (ids[name.partition("/")[0]], message["ts"])
                for name, messages in part.items()
                if "/" in name
                for message in messages
            }
        return paths

    def __enter__(self) -> "Evenings":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


@dataclass
class Step:
    """``at``: when it comes in, in days; ``what``: sync, export or event."""

    at: float
    what: str
    evening: int = 0
    path: Path | None = None
    event: lived.LifeEvent | None = None
    full: bool = False


@dataclass
class Order:
    """One way in which the history may come in."""

    slack: Evenings
    chance: random.Random
    made: list[Step] = field(default_factory=list)

    def steps(self) -> list[Step]:
        self._some_syncs_and_exports()
        ends_with_sync = self.chance.random() < 0.5
        self._events(lost=self.chance.choice([0.0, 0.3, 0.8]) if ends_with_sync else 0.0)
        # The last to tell of channels and people.
        if ends_with_sync:
            self.made.append(Step(END, "sync", lived.DAYS, full=True))
        else:
            self._export(lived.DAYS, END)
        self._tell_of_deletions()
        return sorted(self.made, key=lambda step: step.at)

    def _some_syncs_and_exports(self) -> None:
        for evening in range(1, lived.DAYS + 1):
            at = self.slack.life.evenings[evening].at
            if self.chance.random() < 0.3 and evening < lived.DAYS:
                self.made.append(Step(at, "sync", evening))
            if self.chance.random() < 0.4:
                self._export(evening, at)

    def _export(self, evening: int, at: float) -> None:
        for path in self.chance.choice(self.slack.exports[evening]):
            self.made.append(Step(self._later(at), "export", evening, path))

    def _events(self, lost: float) -> None:
        for event in self.slack.life.events:
            if event.of is not None and self.chance.random() < lost:
                continue
            for _ in range(self.chance.choice([1, 1, 1, 2])):
                # What has no version comes before the last sync or export.
                at = (
                    min(self._later(event.at), END - 0.01)
                    if event.of is None
                    else self._later(event.at)
                )
                self.made.append(Step(at, "event", event=event))

    def _later(self, at: float) -> float:
        """At once, soon, or at any time until long after the end."""
        return at + self.chance.choice([0.0, 0.02, (END + 1.5 - at) * self.chance.random()])

    def _tell_of_deletions(self) -> None:
        """Where no whole sync saw a message come and go, the event of its end comes some time."""
        life = self.slack.life
        seen: set[Key] = set()
        deleted: set[Key] = set()
        for step in sorted(self.made, key=lambda step: step.at):
            here = self.slack.keys[step.path] if step.path else set()
            if step.what == "sync":
                channels = life.evenings[step.evening].channels
                here = {(id, ts) for id, channel in channels.items() for ts in channel.messages}
            if step.what == "sync" and step.full:
                deleted |= {key for key in seen if life.deleted.get(key, END) < step.at}
            elif step.event and step.event.of and _ends(step.event):
                deleted.add(step.event.of)
            elif step.event and step.event.of:
                seen.add(step.event.of)
            seen |= here
        for event in life.events:
            if event.of in life.deleted and event.of not in deleted and _ends(event):
                self.made.append(Step(self._later(event.at), "event", event=event))


def _ends(life_event: lived.LifeEvent) -> bool:
    event = life_event.body["event"]
    inner = event.get("message", {})
    subtypes = {event.get("subtype"), inner.get("subtype")}
    return bool(subtypes & {"message_deleted", "tombstone"})
