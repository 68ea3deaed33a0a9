"""The offline summary: which lines of a request are kept, verbatim, within its token limit.

Candidates are the sentences of messages and the lines of memories. Their worth is their weight
among the others (LexRank) times what their words say (cues). A line begins with the date and
time of its message, so that a later merge still knows how old it is. Where memories are merged,
the time from the first line to the last is cut in nine equal spans that take turns in choosing:
no period is crowded out, however many merges follow.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memories.rules import cues, lexrank
from memories.rules.prompts import one_line, speaker
from memories.rules.summary import MemoryLine, MessageLine, Request
from memories.rules.tokens import estimate

_LONGEST = 48  # tokens of one extract
_NEXT = 6  # an answer comes among so many messages
_SUBSTANCE = 5  # words from which a line is not too thin any more
_FRAME = 20  # tokens added to every length, so that shortness alone does not win
_FAINT = 0.15  # a line worth less than this share of the best is not worth its place
_ALIKE = 0.7  # two lines as alike as this say the same
_DATED = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d) ")
_SPEAKER = re.compile(r"^[^:：]{1,60}[:：] ")
_PAUSES = re.compile(r"[、,;；）)\s]")


@dataclass(frozen=True)
class Candidate:
    """A line that may be kept. ``minute`` counts from 1970 in the workspace's zone."""

    ref: int
    line: str
    body: str  # the line without its time and speaker
    minute: int
    is_answered: bool = True
    by_person: bool = False

    @property
    def cost(self) -> int:
        return estimate(f"- {self.line} [{self.ref}]\n")


def extract(request: Request) -> list[Candidate]:
    """The lines worth keeping, in order of time; at least one wherever there is a single word."""
    memories = [*request.existing, *(line for added in request.additions for line in added.lines)]
    pool = [*_from_memories(memories), *_from_messages(request.messages)]
    pool = [c for c in pool if any(map(str.isalnum, c.body))]
    if not pool:
        return []
    order = sorted(range(len(pool)), key=lambda index: pool[index].minute)
    pool = [pool[index] for index in order]
    choice = _Choice(pool, request.max_tokens)
    choice.keep_what_people_wrote()
    choice.take_turns(_periods(pool) if memories else [range(len(pool))])
    return [pool[index] for index in sorted(choice.chosen)]


class _Choice:
    """Picks the best line that fits, again and again, each unlike those picked before."""

    def __init__(self, pool: Sequence[Candidate], budget: int) -> None:
        self.pool = pool
        self.left = budget
        self.chosen: list[int] = []
        self.rows = lexrank.likeness([lexrank.terms(c.body) for c in pool])
        central = lexrank.centrality(self.rows)
        self.cost = [c.cost for c in pool]
        self.worth = [
            _density(central[index], candidate, self.cost[index])
            for index, candidate in enumerate(pool)
        ]
        self.faint = _FAINT * max(self.worth)
        self.said = [0.0] * len(pool)  # likeness to the nearest chosen line
        self.bodies: set[str] = set()

    def keep_what_people_wrote(self) -> None:
        for index, candidate in enumerate(self.pool):
            if candidate.by_person:
                self._choose(index)

    def take_turns(self, groups: Sequence[Sequence[int]]) -> None:
        open_groups = list(groups)
        while open_groups:
            for group in list(open_groups):
                best = max(group, key=self._gain, default=None)
                if best is None or self._gain(best) <= 0:
                    open_groups.remove(group)
                else:
                    self._choose(best)
        if not self.chosen:  # a limit too small for any line
            self._choose(max(range(len(self.pool)), key=lambda index: self.worth[index]))

    def _gain(self, index: int) -> float:
        if self.cost[index] > self.left or self.said[index] >= _ALIKE:
            return 0.0
        if self.pool[index].body in self.bodies:  # too frequent for its likeness to be counted
            return 0.0
        gain = self.worth[index] * (1 - self.said[index])
        return gain if gain > self.faint else 0.0

    def _choose(self, index: int) -> None:
        self.chosen.append(index)
        self.left -= self.cost[index]
        self.said[index] = 1.0
        self.bodies.add(self.pool[index].body)
        for other, cosine in self.rows[index].items():
            self.said[other] = max(self.said[other], cosine)


def _density(central: float, candidate: Candidate, cost: int) -> float:
    """Worth per length: two short lines say more than a long one, but "ok" says nothing."""
    value = (0.5 + central) * cues.weight(candidate.body, is_answered=candidate.is_answered)
    words = min(len(set(lexrank.terms(candidate.body))), _SUBSTANCE) / _SUBSTANCE
    return value * (0.05 + words) / math.sqrt(cost + _FRAME)


def _from_messages(messages: Sequence[MessageLine]) -> Iterator[Candidate]:
    spoken = [set(lexrank.terms(message.text)) for message in messages]
    for index, message in enumerate(messages):
        answered = _is_answered(index, messages, spoken)
        minute = _minute(message.at)
        front = f"{message.at:%Y-%m-%d %H:%M} {speaker(message.author)}: "
        for piece in _pieces(message.text):
            body = one_line(piece)
            yield Candidate(message.ref, front + body, body, minute, answered)


def _is_answered(index: int, messages: Sequence[MessageLine], spoken: Sequence[set[str]]) -> bool:
    """Whether somebody else soon takes up the words or the name of who asked."""
    asked = messages[index]
    if not cues.asks(asked.text):
        return True
    for other in range(index + 1, min(len(messages), index + 1 + _NEXT)):
        if messages[other].author == asked.author:
            continue
        in_thread = asked.thread and messages[other].thread == asked.thread
        named = asked.author.lower() in messages[other].text.lower()
        if (in_thread or named or spoken[other] & spoken[index]) and not cues.asks(
            messages[other].text
        ):
            return True
    return False


def _pieces(text: str) -> Iterator[str]:
    """A message that is short enough as one piece, else runs of its sentences that are."""
    if estimate(text) <= _LONGEST:
        yield _spaced(text)
        return
    start = end = 0
    for sentence in lexrank.sentences(text):
        at = text.index(sentence, end)
        if estimate(text[start : at + len(sentence)]) > _LONGEST // 2:
            if end > start:
                yield _cut(_spaced(text[start:end]))
            start = at
        end = at + len(sentence)
    yield _cut(_spaced(text[start:end]))


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _cut(sentence: str) -> str:
    """A sentence that is too long ends at a pause, visibly."""
    if estimate(sentence) <= _LONGEST:
        return sentence
    end = _LONGEST
    while estimate(sentence[: end + 8]) < _LONGEST:
        end += 8
    pauses = [pause.end() for pause in _PAUSES.finditer(sentence, end // 2, end)]
    return f"{sentence[: pauses[-1] if pauses else end].rstrip()}…"


def _from_memories(lines: Sequence[MemoryLine]) -> Iterator[Candidate]:
    minute: int | None = None
    undated: list[tuple[MemoryLine, str]] = []
    for line in lines:
        text = one_line(line.text)
        found = _DATED.match(text)
        dated = _parse(found) if found else None
        if dated is None and minute is None:
            undated.append((line, text))
            continue
        # A line without a time is as old as the one before it, the first ones as the next.
        minute = dated if dated is not None else minute or 0
        yield from (_remembered(*earlier, minute) for earlier in undated)
        undated.clear()
        yield _remembered(line, text, minute)
    yield from (_remembered(*earlier, at) for at, earlier in enumerate(undated))


def _remembered(line: MemoryLine, text: str, minute: int) -> Candidate:
    body = _SPEAKER.sub("", _DATED.sub("", text))
    return Candidate(line.ref, text, body or text, minute, by_person=line.by_person)


def _parse(found: re.Match[str]) -> int | None:
    try:
        return _minute(datetime.fromisoformat(f"{found[1]}T{found[2]}"))
    except ValueError:
        return None


def _minute(at: datetime) -> int:
    """Minutes by the clock on the wall, for the zone was settled before."""
    return at.toordinal() * 24 * 60 + at.hour * 60 + at.minute


def _periods(pool: Sequence[Candidate]) -> list[Sequence[int]]:
    """Nine equal spans of the time, ordered so that the thirds take turns."""
    first = pool[0].minute
    length = pool[-1].minute - first + 1
    spans: list[list[int]] = [[] for _ in range(9)]
    for index, candidate in enumerate(pool):
        spans[(candidate.minute - first) * 9 // length].append(index)
    return [spans[third * 3 + (third + turn) % 3] for turn in range(3) for third in range(3)]
