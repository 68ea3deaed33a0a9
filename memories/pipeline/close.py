"""reply → memory version: one transaction that closes the row, writes and owes what follows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from memories.models import Draft, Generation, Memory, MemoryVersion, Segment, StaleBase
from memories.pipeline import owe
from memories.pipeline.ask import Question
from memories.rules.lines import Line, Origin, merged
from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.reply import read_reply
from memories.rules.slacktime import micros
from memories.rules.summary import MOST_SOURCES, Reading, SummariserError


@dataclass(frozen=True)
class Closed:
    """What became of a reply: a version, or a word why there is none."""

    version: MemoryVersion | None = None
    outcome: str = ""


def is_next(generation: Generation) -> bool:
    """Short-term replies are saved in the order of their segments (rule 4): is it this one's turn?"""
    memory, segment = generation.memory, generation.segment
    if memory.scope != MemoryScope.CHANNEL or segment is None:
        return True
    # Of one segment too: what was asked before an edit is never the last word.
    earlier = Q(segment__number__lt=segment.number) | Q(segment=segment, pk__lt=generation.pk)
    return not memory.generations.unfinished().filter(earlier).exists()


def close(generation: Generation, question: Question, now: datetime) -> Closed:
    """Make the saved reply into a version, or keep the reason why it is none. Never raises for
    what the model said; what a person saved meanwhile is never overwritten."""
    reply = generation.saved_reply
    if reply is None:
        return Closed(outcome="lost")
    reading = read_reply(reply, question.request)
    if reading.fault:
        fault = SummariserError(reading.fault, f"The reply was not saved: {reading.fault}.")
        fail(generation, fault, now)
        return Closed(outcome=f"fault: {reading.fault}")
    try:
        with transaction.atomic():
            if not generation.close(Generation.State.DONE, now):
                return Closed(outcome="lost")
            closed = _write(generation, question, reading)
            owe.follow_ups(generation)
            return closed
    except StaleBase:
        return supersede(generation, now)


def fail(generation: Generation, error: SummariserError, now: datetime) -> None:
    """Keep the reason; nobody waits for what is held back, or given up."""
    with transaction.atomic():
        generation.fail(error, now)
        owe.follow_ups(generation)


def supersede(generation: Generation, now: datetime) -> Closed:
    """Its base or its inputs moved: the row ends, and what is owed by now is owed instead."""
    with transaction.atomic():
        if generation.close(Generation.State.SUPERSEDED, now):
            owe.follow_ups(generation)
    return Closed(outcome="superseded")


def close_without_call(generation: Generation, now: datetime) -> Closed:
    """Nothing is left to summarise (all deleted since): the row ends, nothing is paid."""
    with transaction.atomic():
        if generation.close(Generation.State.DONE, now):
            _mark(generation, Segment.Outcome.SKIPPED)
            owe.follow_ups(generation)
    return Closed(outcome="nothing to summarise")


def _write(generation: Generation, question: Question, reading: Reading) -> Closed:
    if reading.nothing:
        _mark(generation, Segment.Outcome.NOTHING)
        return Closed(outcome="nothing to remember")
    memory = generation.memory
    memory.lock()
    made = _lines(generation.cites, reading)
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        version = _write_segment(generation, question, made)
    else:
        version = _write_merge(generation, question, made)
    _mark(generation, Segment.Outcome.REMEMBERED)
    return Closed(version, "" if version else "unchanged")


def _mark(generation: Generation, outcome: str) -> None:
    segment = generation.segment
    if segment is None:
        return
    if segment.thread_ts:  # a thread's generation reads all of its segments that waited
        Segment.objects.filter(
            channel=segment.channel_id,
            thread_ts=segment.thread_ts,
            number__lte=segment.number,
            outcome=Segment.Outcome.WAITING,
        ).update(outcome=outcome)
    else:
        Segment.objects.filter(pk=segment.pk).update(outcome=outcome)


def _lines(cites: Sequence[Sequence[int]], reading: Reading) -> list[Line]:
    lines = []
    for line in reading.lines:
        asked = (ref for ref in line.refs if ref <= len(cites))  # the rows may say more by now
        keys = dict.fromkeys(key for ref in asked for key in cites[ref - 1])
        lines.append(Line(f"- {line.text}", Origin.MODEL, sources=tuple(keys)[:MOST_SOURCES]))
    return lines


def _write_segment(
    generation: Generation, question: Question, made: Sequence[Line]
) -> MemoryVersion | None:
    """A segment's text: in place of its own earlier one, of the provisional one, or of the only
    one that disabled history keeps; else, and after a person's, as the next version. Lines that a
    person wrote into this segment's text stay in it."""
    memory, segment = generation.memory, generation.segment
    if generation.provisional and memory.head:
        return None  # a segment closed first: the provisional text has nothing to add
    own = memory.versions.filter(segment=segment).order_by("number").last() if segment else None
    lines, put_back = merged(own.persons_lines() if own else [], made)
    draft = Draft(
        lines=lines,
        origin=Origin.MODEL,
        until_us=question.until_us,
        source_message_count=question.message_count,
        source_latest_message_ts=question.latest_ts,
        base=None,
        segment=segment,
        generation=generation,
        provisional=generation.provisional,
        trigger=generation.trigger,
        put_back=put_back,
    )
    replaced = own or _overwritten(memory)
    if replaced is not None and replaced.rewrite(draft):
        return replaced
    return memory.add_version(draft, expected_head=memory.head)


def _overwritten(memory: Memory) -> MemoryVersion | None:
    """The version in whose place the next segment's text stands: the provisional one or, with
    disabled history, the newest, once the long-term memory has taken it in."""
    current = memory.current  # not the head, which a late backfill gives to an older period
    if current is None or current.provisional:
        return current
    keeps_one = not memory.workspace.memory_settings.history_enabled
    return current if keeps_one and current.merged else None


def _write_merge(
    generation: Generation, question: Question, made: Sequence[Line]
) -> MemoryVersion | None:
    """A text that grew from its base: refused with StaleBase when the head moved meanwhile, or when
    what it read may not flow there any more."""
    memory, base = generation.memory, generation.base
    if memory.current_id != generation.base_id or not owe.may_flow(generation):
        raise StaleBase(memory.current)
    lines, put_back = merged(question.base_lines, made)
    messages, latest = _source_facts(generation, question)
    draft = Draft(
        lines=lines,
        origin=Origin.MODEL,
        until_us=question.until_us,
        source_message_count=messages,
        source_latest_message_ts=latest,
        base=base,
        segment=generation.segment,
        generation=generation,
        trigger=generation.trigger,
        put_back=put_back,
    )
    if base is not None and draft.text == base.content:
        return None
    if memory.scope == MemoryScope.THREAD and base is not None and not base.is_persons:
        if not base.rewrite(draft):
            raise StaleBase(memory.current)
        return base
    return memory.add_version(draft, expected_head=memory.head)


def _source_facts(generation: Generation, question: Question) -> tuple[int, str | None]:
    """Message count and newest ts, derived from the recorded sources (S1, rule 6)."""
    memory = generation.memory
    if memory.scope == MemoryScope.THREAD:
        return question.message_count, question.latest_ts
    facts: dict[int | None, tuple[int, str]] = {}
    for place, segment, messages, ts in owe.merged_versions(generation):
        # Of each channel, and of each segment, the latest it gave.
        facts[place if memory.scope == MemoryScope.WORKSPACE else segment] = (messages, ts)
    if len(facts) > 1:  # a person's words over a provisional text: a segment has its messages
        facts.pop(None, None)
    newest = max((ts for _, ts in facts.values() if ts), key=micros, default=None)
    return sum(messages for messages, _ in facts.values()), newest
