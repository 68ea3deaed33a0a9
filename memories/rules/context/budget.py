"""Choose the lines, notes and messages that a context holds within a token budget (rule 10).

Each of them is a unit with a value and a cost. Units come first that people wrote or pinned, then
the newest messages, then the named channel's long-term memory, each within a share of the budget.
All other units follow by value per token, without near-duplicates, until the budget is full. With
a question, units about the question come before all others.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

from memories.rules import salience
from memories.rules.context.blocks import dated_line
from memories.rules.context.material import (
    ARCHIVE,
    LONG_TERM,
    SHORT_TERM,
    THREAD,
    WORKSPACE,
    Group,
    Material,
    MemoryText,
)
from memories.rules.memory.lines import split_text, strip_bullet
from memories.rules.notes.notes_file import injection
from memories.rules.safety.prompt_injection import find_injection
from memories.rules.tokens import count_characters, estimate_tokens

# Kinds of units besides those of memories.
NOTE = "note"
MESSAGE = "message"
EARLIER = "earlier_message"

# Shares of the budget, as divisors.
_UNIT = 4  # a longer unit is shortened
_PERSONA = 2
_PROTECTED = 2  # units that people wrote or pinned
_NEWEST_MESSAGES = 10
_OWN_LONG_TERM = 5  # the named channel's long-term memory

_QUESTION = 7 / 8  # of the budget, for units about the question
_ABOUT_QUESTION = 0.15  # least relevance, compared with the most relevant unit
_MIN_UNIT_TOKENS = 40  # no unit is shortened below it
_FRAME = 40  # tokens of the section titles and the time zone
_HEADING = 12  # tokens of the heading above the first unit of a group
_ALIKE_WITH_QUESTION = 0.95  # with a question only repetitions are duplicates

# Value of a unit relative to a message of the named channel.
_NOTE_FACTOR = 3.0
_OWN_LINE = 1.5
_WORKSPACE_LINE = 1.0
_OTHER_CHANNEL = 0.5
_ARCHIVED_LINE = 0.5  # relative to a line of the same long-term memory
_REPLACED_LINE = 0.25  # relative to a line that no newer line replaces
_LONG_TERM_RECENCY = 0.25  # least recency of a line of a long-term memory


@dataclass(frozen=True)
class Unit:
    """A line, a note or a message. ``position`` is its place in the text of its ``group``.

    ``factor`` is the value of its kind, ``cost`` its size in tokens.
    """

    group: Group
    position: int
    text: str
    words: salience.Words
    at_us: int
    cost: float
    factor: float = 1.0
    is_protected: bool = False

    @property
    def kind(self) -> str:
        return self.group[0]


class Selection:
    """The units of a material that fit into a budget. ``chosen`` are their indexes, best first."""

    def __init__(self, material: Material, budget: int) -> None:
        self.material = material = _shorten_units(material, budget)
        self.units = units = list(_units(material))
        self.chosen: dict[int, None] = {}
        self._groups: set[Group] = set()
        self._duplicates: list[int] = []
        alike = _ALIKE_WITH_QUESTION if material.question else salience.DUPLICATE_SHARE
        self._covered = salience.ChosenTexts(alike)
        self._values = _values(units)
        self._best_first = sorted(
            range(len(units)), key=lambda i: (-self._values[i], -units[i].at_us)
        )
        self._tokens_left: float = (
            budget - min(_FRAME, budget / 4) - estimate_tokens(material.persona)
        )
        if material.question:
            self._choose(self._about(material.question), self._tokens_left * _QUESTION)
        self._choose(self._best(lambda unit: unit.is_protected), budget / _PROTECTED)
        newest = [i for i in reversed(range(len(units))) if units[i].kind == MESSAGE]
        self._choose(newest, budget / _NEWEST_MESSAGES)
        if material.channel_id:
            own: Group = (LONG_TERM, material.channel_id, 0)
            self._choose(self._best(lambda unit: unit.group == own), budget / _OWN_LONG_TERM)
        if material.question:
            self._choose(self._about(material.question), self._tokens_left)
        self.fill(self._tokens_left)

    def fill(self, tokens: float) -> None:
        """Choose more units of so many tokens: the best first, then duplicates of chosen ones."""
        self._tokens_left = tokens
        self._choose(self._best_first, tokens)
        covered, self._covered = self._covered, salience.ChosenTexts(duplicate_share=2)
        self._choose(self._duplicates, self._tokens_left)
        self._covered = covered

    def drop_last(self, tokens: float) -> None:
        """Drop the units that were chosen last, of at least so many tokens."""
        while tokens > 0 and self.chosen:
            index, _ = self.chosen.popitem()
            tokens -= math.ceil(self.units[index].cost)

    def left_out(self) -> list[Unit]:
        return [unit for index, unit in enumerate(self.units) if index not in self.chosen]

    def reduced_material(self) -> Material:
        """Return the material with the chosen units alone."""
        positions: dict[Group, set[int]] = {}
        for index in self.chosen:
            unit = self.units[index]
            positions.setdefault(unit.group, set()).add(unit.position)
        m, memories = self.material, []
        for memory in m.memories:
            chosen = positions.get(memory.group, ())
            lines = [line for i, line in enumerate(split_text(memory.content)) if i in chosen]
            if lines:
                memories.append(replace(memory, content="\n".join(lines)))
        has_workspace = any(x.kind == LONG_TERM and x.scope_key == WORKSPACE for x in memories)
        messages = positions.get((MESSAGE, m.channel_id, 0), ())
        earlier = positions.get((EARLIER, "", 0), ())
        return replace(
            m,
            memories=memories,
            workspace_includes=m.workspace_includes if has_workspace else (),
            messages=[message for i, message in enumerate(m.messages) if i in messages],
            notes=[x for i, x in enumerate(m.notes) if (NOTE, str(x.id), i) in positions],
            earlier=[message for i, message in enumerate(m.earlier) if i in earlier],
        )

    def _best(self, condition: Callable[[Unit], bool]) -> list[int]:
        return [index for index in self._best_first if condition(self.units[index])]

    def _about(self, question: str) -> list[int]:
        """Return the units with words of the question, by relevance and value."""
        words = salience.content_words(question)
        texts = [unit.words for unit in self.units]
        relevance = salience.bm25_scores(words, texts, salience.word_rarity(texts))
        best = max(self._values, default=0.0) or 1.0
        scores = [
            score * (1 + value / best) for score, value in zip(relevance, self._values, strict=True)
        ]
        least = _ABOUT_QUESTION * max(relevance, default=0.0)
        relevant = [index for index, score in enumerate(relevance) if score > 0 and score >= least]
        return sorted(relevant, key=lambda index: (-scores[index], -self.units[index].at_us))

    def _choose(self, order: Iterable[int], limit: float) -> None:
        """Choose units in this order while they fit into the limit in tokens."""
        limit = min(limit, self._tokens_left)
        for index in order:
            unit = self.units[index]
            cost = unit.cost + (0 if unit.group in self._groups else _HEADING)
            if cost > limit or index in self.chosen:
                continue
            if not unit.is_protected and self._covered.has_duplicate_of(unit.words, unit.at_us):
                self._duplicates.append(index)
                continue
            if unit.kind == EARLIER and find_injection(unit.text):
                continue
            self._covered.add(unit.words, unit.at_us)
            self.chosen[index] = None
            self._groups.add(unit.group)
            limit -= cost
            self._tokens_left -= cost


def _values(units: Sequence[Unit]) -> list[float]:
    """Return the value of each unit: its density of information, its kind and its recency."""
    worths = salience.word_worth([unit.words for unit in units])
    times = sorted(unit.at_us for unit in units)
    values = []
    for unit in units:
        recency = salience.recency_factor(len(times) - bisect_right(times, unit.at_us))
        if unit.kind in (LONG_TERM, ARCHIVE):
            recency = max(recency, _LONG_TERM_RECENCY)
        density = salience.worth_per_token(unit.text, unit.words, worths, unit.cost)
        values.append(density * unit.factor * (1.0 if unit.kind == NOTE else recency))
    return values


def _units(m: Material) -> Iterator[Unit]:
    """Yield all units of a material in the order of the text."""
    for i, note in enumerate(m.notes):
        text, group = injection([note]), (NOTE, str(note.id), i)
        yield _unit(group, 0, text, text, factor=_NOTE_FACTOR, is_protected=note.is_pinned)
    for memory in m.memories:
        yield from _line_units(m, memory)
    for i, message in enumerate(m.earlier):
        is_own = message.channel_id == m.channel_id or not m.channel_id
        factor = 1.0 if is_own else _OTHER_CHANNEL
        shown = message.shortened(m.short_names)
        yield _unit((EARLIER, "", 0), i, message.without_time, shown, message.micros, factor)
    for i, message in enumerate(m.messages):
        group, shown = (MESSAGE, m.channel_id, 0), message.shortened(m.short_names)
        yield _unit(group, i, message.without_time, shown, message.micros)


def _line_units(m: Material, memory: MemoryText) -> Iterator[Unit]:
    if memory.kind == THREAD:
        factor = _OWN_LINE
    elif memory.scope_key == WORKSPACE:
        factor = _WORKSPACE_LINE
    else:
        factor = (
            _OWN_LINE if memory.scope_key == m.channel_id or not m.channel_id else _OTHER_CHANNEL
        )
    if memory.kind == ARCHIVE:
        factor *= _ARCHIVED_LINE
    is_dated = memory.kind == SHORT_TERM and memory.until_us
    day = m.day_of(memory.until_us) if is_dated else m.shared_day(memory.content)
    for position, line in enumerate(split_text(memory.content)):
        facts = m.facts_of(line)
        yield _unit(
            memory.group,
            position,
            line,
            dated_line(m, line, facts, day),
            facts.at_us or memory.until_us,
            factor * _REPLACED_LINE if facts.is_replaced else factor,
            is_protected=facts.is_protected,
        )


def _unit(
    group: Group,
    position: int,
    text: str,
    shown: str,
    at_us: int = 0,
    factor: float = 1.0,
    *,
    is_protected: bool = False,
) -> Unit:
    """Return a unit. ``shown`` is the text with its time, which has a cost but no value."""
    wide, others = count_characters(shown or text)
    cost = wide + others / 4 + 0.3
    words = salience.content_words(text)
    return Unit(group, position, text, words, at_us, cost, factor, is_protected)


def _shorten_units(m: Material, budget: int) -> Material:
    """Return the material without units that take more than their share of the budget."""
    limit = max(budget // _UNIT, _MIN_UNIT_TOKENS)
    facts = dict(m.facts)

    def shorten_line(line: str) -> str:
        short = shorten(line, limit)
        if short != line and strip_bullet(line) in facts:
            facts[strip_bullet(short)] = facts[strip_bullet(line)]
        return short

    return replace(
        m,
        persona=shorten(m.persona, max(budget // _PERSONA, _MIN_UNIT_TOKENS)),
        memories=[
            replace(memory, content="\n".join(map(shorten_line, split_text(memory.content))))
            for memory in m.memories
        ],
        messages=[replace(message, line=shorten(message.line, limit)) for message in m.messages],
        earlier=[replace(message, line=shorten(message.line, limit)) for message in m.earlier],
        notes=[replace(note, content=shorten(note.content, limit)) for note in m.notes],
        facts=facts,
    )


def shorten(text: str, limit: int) -> str:
    """Return the text in at most so many tokens. A mark at its end counts what is missing."""
    if len(text) <= limit or estimate_tokens(text) <= limit:  # a character is at most a token
        return text
    sizes = (1.0 if wide else 0.25 for wide, _ in map(count_characters, text))
    end = sum(1 for _ in takewhile(lambda size: size <= limit - 10, accumulate(sizes)))
    return f"{text[:end].rstrip()} […{len(text) - end} characters left out]"
