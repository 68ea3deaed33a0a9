"""Which lines, notes and messages a context holds under a budget of tokens (DESIGN 6, rule 10).

Each of them is a unit with a value and a cost. What people wrote or pinned, the newest messages and
the named channel's long-term memory come first, each within a share of the budget; then the units
follow by value per token, without near-duplicates, until the budget is full. With a question, what
is about it comes before all of that.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

from memories.rules.context.context_text import ChannelTexts, Material, Version, dated, day_of_all
from memories.rules.generate import salience
from memories.rules.generate.tokens import count_characters, estimate_tokens
from memories.rules.memory.lines import split_text, words_of
from memories.rules.notes.fields import NoteText
from memories.rules.notes.notes_file import injection
from memories.rules.safety.prompt_injection import aimed_at_model

EARLIER = "earlier_message"
ARCHIVE = "archive"
# Shares of the budget.
_LONGEST = 4  # a unit takes at most a quarter; a longer one is cut
_PERSONA = 2
_HELD = 2  # what people wrote or pinned
_NEWEST = 10
_OWN = 5  # the named channel's long-term memory
_QUESTION = 7 / 8  # what is about the question
_ABOUT = 0.15  # of the relevance of what is most about the question, to come first
_SHORTEST = 40  # tokens to which a unit is cut at least
_FRAME = 40  # tokens of the section titles and the time zone
_HEADING = 12  # tokens of the heading over the first unit of a group
_ASKED_ALIKE = 0.95  # with a question only repetitions are duplicates

# Value of a unit beside that of a message of the named channel.
_NOTE = 3.0
_OWN_LINE = 1.5
_WORKSPACE_LINE = 1.0
_OTHER_LINE = 0.5
_ARCHIVED = 0.5  # of the worth of a line of the long-term memory
_REPLACED = 0.25  # of its value, where a newer line says otherwise
_LONG_TERM_KEEPS = 0.25  # of its value, however old the line is

Group = tuple[str, str, int]  # what, the id it is listed under, number of a version


@dataclass(frozen=True)
class Unit:
    """A line, a note or a message. ``group`` names the text it stands in, ``position`` its place
    there; ``factor`` is what its kind is worth."""

    group: Group
    position: int
    text: str
    words: salience.Words
    at_us: int
    cost: float
    factor: float = 1.0
    is_held: bool = False

    @property
    def what(self) -> str:
        return self.group[0]


def fit(material: Material, budget: int) -> "Choice":
    """The choice among the units of the material, of which none takes more than its share."""
    material = _cut(material, budget)
    return Choice(material, list(_units(material)), budget)


def reduced(material: Material, units: Iterable[Unit]) -> Material:
    """The material with these units alone."""
    by_group: dict[Group, set[int]] = {}
    for unit in units:
        by_group.setdefault(unit.group, set()).add(unit.position)

    def text(content: str | None, what: str, place: str, number: int = 0) -> str | None:
        positions = by_group.get((what, place, number), ())
        lines = [line for i, line in enumerate(split_text(content or "")) if i in positions]
        return "\n".join(lines) or None

    def versions(what: str, place: str, history: Iterable[Version]) -> list[Version]:
        return [
            replace(version, content=content)
            for version in history
            if (content := text(version.content, what, place, version.number))
        ]

    channels = [
        replace(
            c,
            long_term=text(c.long_term, "long_term_memory", c.channel_id),
            archive=text(c.archive, ARCHIVE, c.channel_id),
            history=versions("short_term_memory", c.channel_id, c.history),
        )
        for c in material.channels
    ]
    threads = {
        ts: version
        for ts, thread in material.threads.items()
        for version in versions("thread_memory", ts, [thread])
    }
    workspace = text(material.workspace_long_term, "long_term_memory", "")
    messages = by_group.get(("message", material.own, 0), ())
    earlier = by_group.get((EARLIER, "", 0), ())
    return replace(
        material,
        workspace_long_term=workspace,
        workspace_short_term=text(material.workspace_short_term, "short_term_memory", ""),
        workspace_archive=text(material.workspace_archive, ARCHIVE, ""),
        workspace_includes=material.workspace_includes if workspace else (),
        channels=channels,
        threads=threads,
        messages=[m for i, m in enumerate(material.messages) if i in messages],
        notes=[n for i, n in enumerate(material.notes) if ("note", str(n.id), i) in by_group],
        earlier=[m for i, m in enumerate(material.earlier) if i in earlier],
    )


class Choice:
    """The units that are chosen: ``chosen`` are their indexes, the best first."""

    def __init__(self, material: Material, units: Sequence[Unit], budget: int) -> None:
        self.material = material
        self.units = units
        self.left: float = budget - min(_FRAME, budget / 4) - estimate_tokens(material.persona)
        self.chosen: list[int] = []
        self.taken: set[int] = set()
        self.groups: set[Group] = set()
        self.duplicates: list[int] = []
        alike = _ASKED_ALIKE if material.question else salience.DUPLICATE_SHARE
        self.covered = salience.ChosenTexts(alike)
        self.values = _values(units)
        best_first = sorted(range(len(units)), key=lambda i: (-self.values[i], -units[i].at_us))
        self.best_first = best_first
        if material.question:
            self._take(self._about(material.question), self.left * _QUESTION)
        self._take(self._those(best_first, lambda unit: unit.is_held), budget / _HELD)
        newest = self._those(reversed(range(len(units))), lambda unit: unit.what == "message")
        self._take(newest, budget / _NEWEST)
        own: Group = ("long_term_memory", material.own, 0)
        if material.own:
            self._take(self._those(best_first, lambda unit: unit.group == own), budget / _OWN)
        if material.question:
            self._take(self._about(material.question), self.left)
        self.fill(self.left)

    @property
    def reduced(self) -> Material:
        """The material with the chosen units alone."""
        return reduced(self.material, (self.units[index] for index in self.chosen))

    @property
    def left_out(self) -> list[Unit]:
        return [unit for index, unit in enumerate(self.units) if index not in self.taken]

    def fill(self, room: float) -> None:
        """Choose what fits into so many tokens, the best first. Room for what says nothing new is
        better filled than left empty."""
        self.left = room
        self._take(self.best_first, room)
        covered, self.covered = self.covered, salience.ChosenTexts(alike=2)
        self._take(self.duplicates, self.left)
        self.covered = covered

    def cut(self, tokens: float) -> None:
        """Give up the units that were chosen last, of so many tokens at least."""
        while tokens > 0 and self.chosen:
            index = self.chosen.pop()
            self.taken.discard(index)
            tokens -= math.ceil(self.units[index].cost)

    def _those(self, order: Iterable[int], wanted: Callable[[Unit], bool]) -> list[int]:
        return [index for index in order if wanted(self.units[index])]

    def _about(self, question: str) -> list[int]:
        """The units that hold words of the question, by how much they are about it and are worth."""
        words = salience.content_words(question)
        texts = [unit.words for unit in self.units]
        relevance = salience.bm25_scores(words, texts, salience.word_rarity(texts))
        best = max(self.values, default=0.0) or 1.0
        scores = [
            about * (1 + value / best) for about, value in zip(relevance, self.values, strict=True)
        ]
        least = _ABOUT * max(relevance, default=0.0)
        found = [index for index, about in enumerate(relevance) if about > 0 and about >= least]
        return sorted(found, key=lambda index: (-scores[index], -self.units[index].at_us))

    def _take(self, order: Iterable[int], most: float) -> None:
        """Choose in this order what fits into the budget, up to so many tokens."""
        most = min(most, self.left)
        for index in order:
            unit = self.units[index]
            cost = unit.cost + (0 if unit.group in self.groups else _HEADING)
            if cost > most or index in self.taken:
                continue
            if not unit.is_held and self.covered.holds(unit.words, unit.at_us):
                self.duplicates.append(index)
                continue
            if unit.what == EARLIER and aimed_at_model(unit.text):
                continue
            self.covered.add(unit.words, unit.at_us)
            self.chosen.append(index)
            self.taken.add(index)
            self.groups.add(unit.group)
            most -= cost
            self.left -= cost


def _values(units: Sequence[Unit]) -> list[float]:
    worths = salience.word_worth([unit.words for unit in units])
    moments = sorted(unit.at_us for unit in units)
    values = []
    for unit in units:
        recency = salience.recency_factor(len(moments) - bisect_right(moments, unit.at_us))
        if unit.what in ("long_term_memory", ARCHIVE):
            recency = max(recency, _LONG_TERM_KEEPS)
        worth = salience.worth_per_token(unit.text, unit.words, worths, unit.cost)
        values.append(worth * unit.factor * (1.0 if unit.what == "note" else recency))
    return values


def _units(m: Material) -> Iterator[Unit]:
    """All of the material but the persona, in the order in which it is read."""
    for i, note in enumerate(m.notes):
        yield _unit(("note", str(note.id), i), 0, injection([note]), 0, _NOTE, note.is_pinned)
    yield from _lines(m, ("long_term_memory", "", 0), m.workspace_long_term, 0, _WORKSPACE_LINE)
    yield from _lines(m, ("short_term_memory", "", 0), m.workspace_short_term, 0, _WORKSPACE_LINE)
    archived = _WORKSPACE_LINE * _ARCHIVED
    yield from _lines(m, (ARCHIVE, "", 0), m.workspace_archive, 0, archived)
    for channel in m.channels:
        own = _OWN_LINE if channel.channel_id == m.own or not m.own else _OTHER_LINE
        group: Group = ("long_term_memory", channel.channel_id, 0)
        yield from _lines(m, group, channel.long_term, 0, own)
        group = (ARCHIVE, channel.channel_id, 0)
        yield from _lines(m, group, channel.archive, 0, own * _ARCHIVED)
        for version in channel.history:
            group = ("short_term_memory", channel.channel_id, version.number)
            yield from _lines(m, group, version.content, version.until_us, own)
    for ts, thread in m.threads.items():
        group = ("thread_memory", ts, thread.number)
        yield from _lines(m, group, thread.content, thread.until_us, _OWN_LINE)
    for i, message in enumerate(m.earlier):
        factor = 1.0 if message.channel_id == m.own or not m.own else _OTHER_LINE
        yield _unit(
            (EARLIER, "", 0), i, message.said, message.micros, factor, shown=message.line_of_day
        )
    for i, message in enumerate(m.messages):
        yield _unit(
            ("message", m.own, 0), i, message.said, message.micros, shown=message.line_of_day
        )


def _lines(
    material: Material, group: Group, content: str | None, until_us: int, factor: float
) -> Iterator[Unit]:
    has_own_day = group[0] == "short_term_memory" and until_us
    day = material.day_of(until_us) if has_own_day else day_of_all(material, content or "")
    for position, line in enumerate(split_text(content or "")):
        facts = material.facts_of(line)
        at_us, shown = facts.at_us or until_us, dated(material, line, facts, day)
        worth = factor * _REPLACED if facts.is_replaced else factor
        yield _unit(group, position, line, at_us, worth, facts.is_held, shown=shown)


def _unit(
    group: Group,
    position: int,
    text: str,
    at_us: int,
    factor: float = 1.0,
    is_held: bool = False,  # noqa: FBT001, FBT002
    *,
    shown: str = "",
) -> Unit:
    """``shown`` is the text with its time, which says nothing about its worth."""
    wide, others = count_characters(shown or text)
    words = salience.content_words(text)
    return Unit(group, position, text, words, at_us, wide + others / 4 + 0.3, factor, is_held)


def _cut(m: Material, budget: int) -> Material:
    """The material without a text that takes more than its share of the budget."""
    most = max(budget // _LONGEST, _SHORTEST)
    facts = dict(m.facts)

    def line(text: str) -> str:
        short = shortened(text, most)
        if short != text and words_of(text) in facts:
            facts[words_of(short)] = facts[words_of(text)]
        return short

    def lines(content: str) -> str:
        return "\n".join(map(line, split_text(content)))

    def version(value: Version) -> Version:
        return replace(value, content=lines(value.content))

    def note(value: NoteText) -> NoteText:
        return replace(value, content=shortened(value.content, most))

    def channel(value: ChannelTexts) -> ChannelTexts:
        return replace(
            value,
            long_term=value.long_term and lines(value.long_term),
            history=[version(v) for v in value.history],
            archive=value.archive and lines(value.archive),
        )

    return replace(
        m,
        persona=shortened(m.persona, max(budget // _PERSONA, _SHORTEST)),
        workspace_long_term=m.workspace_long_term and lines(m.workspace_long_term),
        workspace_short_term=m.workspace_short_term and lines(m.workspace_short_term),
        workspace_archive=m.workspace_archive and lines(m.workspace_archive),
        channels=[channel(c) for c in m.channels],
        threads={ts: version(thread) for ts, thread in m.threads.items()},
        messages=[replace(x, line=shortened(x.line, most)) for x in m.messages],
        earlier=[replace(x, line=shortened(x.line, most)) for x in m.earlier],
        notes=[note(n) for n in m.notes],
        facts=facts,
    )


def shortened(text: str, most: int) -> str:
    """A text of at most so many tokens, with a mark that says how much is missing at its end."""
    if estimate_tokens(text) <= most:
        return text
    sizes = (1.0 if wide else 0.25 for wide, _ in map(count_characters, text))
    end = sum(1 for _ in takewhile(lambda spent: spent <= most - 10, accumulate(sizes)))
    return f"{text[:end].rstrip()} […{len(text) - end} characters left out]"
