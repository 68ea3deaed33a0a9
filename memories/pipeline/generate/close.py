"""reply → memory version: one transaction that closes the row, writes and owes what follows."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from memories import llm
from memories.models import (
    Channel,
    Job,
    Memory,
    MemoryVersion,
    Message,
    NewVersion,
    Segment,
    StaleBase,
)
from memories.models import Line as LineRow
from memories.pipeline.generate import followups
from memories.pipeline.generate.ask import Question
from memories.pipeline.safety import guarding
from memories.rules.generate.circuit_breaker import backoff_delay
from memories.rules.generate.faults import (
    MAX_ATTEMPTS,
    Action,
    Fault,
    choose_next_step,
    is_sudden_shrink,
)
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.summariser import (
    MAX_SOURCES,
    ParsedReply,
    PromptForm,
    Reply,
    RequestStrategy,
    SummariserError,
)
from memories.rules.ingest.timestamps import micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Line, Origin, merge_lines, words_of
from memoryhub.failpoints import fail_point

REFUSED = "content_filter"
COPIED = "copied"  # most lines only copy messages
QUARANTINED = "quarantined"  # every line of the reply was held back
_BAD_REPLY = "The reply was not saved: %s."


class SuddenShrink(Exception):
    """A long-term text would lose most of what it says."""


@dataclass(frozen=True)
class Closed:
    """What became of a reply: a version, or a word why there is none."""

    version: MemoryVersion | None = None
    outcome: str = ""
    is_copied: bool = False  # most lines only copy messages


def close(job: Job, question: Question, now: datetime, *, only_copies: bool = False) -> Closed:
    """Make the saved reply into a version, or keep the reason why it is none. Never raises for
    what the model said; what a person saved meanwhile is never overwritten. ``only_copies``: the
    model copies messages in both forms of the prompt, so a second call would change nothing."""
    reply = job.saved_reply
    if reply is None:
        return Closed(outcome="lost")
    reading = _reading(job, question, reply)
    if bad := _fault(job, reading, only_copies=only_copies):
        fail(job, SummariserError(bad, _BAD_REPLY % bad), now)
        return Closed(outcome=f"fault: {bad}")
    if job.is_rebuild:
        return _close_rebuild(job, question, reading, now)
    try:
        with transaction.atomic():
            hold_readers(job)
            if not job.close(Job.State.DONE, now):
                return Closed(outcome="lost")
            closed = write(job, question, reading)
            followups.follow_ups(job)
            fail_point("in_commit", job.pk)
            return replace(closed, is_copied=reading.is_copied)
    except StaleBase:
        return supersede(job, now)
    except guarding.NothingLeft as left:
        return _hold_back(job, left, now)
    except SuddenShrink:
        return _propose(job, question, reading, now)


def _reading(job: Job, question: Question, reply: Reply) -> ParsedReply:
    """What the reply is worth. Where both forms of the prompt found nothing in messages that say
    something, the offline highlights stand in (rule 8)."""
    reading = parse_reply(reply, question.request)
    if reading.fault != Fault.NOTHING or not _was_asked_in_both_forms(job):
        return reading
    highlights = llm.summarise(question.request, llm.OfflineSummariser())
    job.stand_in(highlights)
    return parse_reply(highlights, question.request)


def _fault(job: Job, reading: ParsedReply, *, only_copies: bool) -> str:
    """Why nothing is made of the reply, or ""."""
    reply = job.saved_reply
    if reading.is_nothing and reply is not None and reply.left_out:
        return REFUSED  # every message was refused: that is no word about what they say
    if reading.is_copied and not only_copies and not _was_asked_in_both_forms(job):
        return COPIED
    return reading.fault


def _was_asked_in_both_forms(job: Job) -> bool:
    return bool(job.form) or job.attempts >= MAX_ATTEMPTS


def fail(
    job: Job,
    error: SummariserError,
    now: datetime,
    *,
    others_answered_at: datetime | None = None,
) -> None:
    """Keep the reason, and offer it again as the policy says; nobody waits for what is held back,
    or given up. ``others_answered_at``: when the endpoint answered others after it had failed."""
    pause = timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
    wait = backoff_delay(pause, job.attempts, random.random())  # noqa: S311  # spreads retries
    asked = timedelta(seconds=error.retry_after) if error.retry_after is not None else None
    failed_at = job.failed_at
    others_succeed = error.spent.calls > 0 or bool(  # parts of it were answered, or others were
        failed_at and others_answered_at and others_answered_at > failed_at
    )
    way = RequestStrategy(job.way)
    following = choose_next_step(error.code, job.attempts, way, others_succeed=others_succeed)
    form = _form_after(job) if following.changes_form else None
    with transaction.atomic():
        if following.action is Action.GIVE_UP:
            job.give_up(error, now)
        elif following.action is Action.WAIT and error.spent.calls == 0:
            job.not_answered(error, now, now + (asked or wait))
        elif following.action is Action.WAIT:  # parts of it were paid, and will be again
            job.try_again(error, now + (asked or wait), following.strategy)
        else:
            at = now if following.action is Action.RETRY_NOW else now + wait
            job.try_again(error, at, following.strategy, form)
        followups.follow_ups(job)


def _form_after(job: Job) -> PromptForm | None:
    """The form that a bad reply was not asked in; None without a reply."""
    reply = job.saved_reply
    return PromptForm(reply.form).opposite if reply else None


def fail_closing(job: Job, error: Exception, now: datetime) -> None:
    """An error of ours over a reply that was paid for: it stays, for as many tries as are allowed."""
    fault = SummariserError("unexpected", type(error).__name__)
    pause = timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
    with transaction.atomic():
        if job.lost >= MAX_ATTEMPTS:
            job.give_up(fault, now)
        else:
            job.keep_reply(fault, now + backoff_delay(pause, job.lost, 0.5))
        followups.follow_ups(job)


def dead_letter(job: Job, now: datetime) -> None:
    """Its workers went away without a word, as often as allowed."""
    code = "not_closed" if job.state == Job.State.REPLIED else "gave_no_answer"
    with transaction.atomic():
        if job.dead_letter(SummariserError(code, "Its worker went away each time."), now):
            followups.follow_ups(job)


def _propose(job: Job, question: Question, reading: ParsedReply, now: datetime) -> Closed:
    """The text would lose most of what it says (rule 8), or is made anew: a person decides."""
    with transaction.atomic():
        if job.close(Job.State.PROPOSED, now):
            guarding.keep(job, guarding.judge(job, question, reading).held)
            followups.follow_ups(job)
    return Closed(outcome="held for a person")


def _close_rebuild(job: Job, question: Question, reading: ParsedReply, now: datetime) -> Closed:
    """A person decides, unless the text comes out as it is."""
    judged = guarding.judge(job, question, reading)
    if judged.is_empty:
        return _hold_back(job, guarding.NothingLeft(judged.held), now)
    current = job.memory.current
    made = merge_lines(
        current.line_values() if current else [], made_lines(job.cites, judged.reading)
    )
    text = "\n".join(line.text for line in made.lines)
    if current is None or text != current.content:
        return _propose(job, question, reading, now)
    with transaction.atomic():
        if job.close(Job.State.DONE, now):
            followups.follow_ups(job)
    return Closed(outcome="unchanged")


def _hold_back(job: Job, left: guarding.NothingLeft, now: datetime) -> Closed:
    """A merge of which nothing may be written is given up at once, not paid again: the old text
    stays, what it read stays owed to the next merge, and its lines wait for a person."""
    with transaction.atomic():
        guarding.keep(job, left.held)
        fail(job, SummariserError(QUARANTINED, _BAD_REPLY % QUARANTINED), now)
    return Closed(outcome=f"fault: {QUARANTINED}")


def supersede(job: Job, now: datetime) -> Closed:
    """Its base or its inputs moved: the row ends, and what is owed by now is owed instead. A rebuild
    is made from what is there now."""
    with transaction.atomic():
        if job.close(Job.State.SUPERSEDED, now):
            followups.follow_ups(job)
            if job.is_rebuild:
                followups.schedule_rebuild(job.memory, job.as_of_us)
    return Closed(outcome="superseded")


def close_without_call(job: Job, now: datetime) -> Closed:
    """Nothing is left to summarise (all deleted since): the row ends, nothing is paid."""
    with transaction.atomic():
        if job.close(Job.State.DONE, now):
            _mark(job, Segment.Outcome.SKIPPED)
            followups.follow_ups(job)
    return Closed(outcome="nothing to summarise")


def write(job: Job, question: Question, reading: ParsedReply, *, accepted: bool = False) -> Closed:
    if reading.is_nothing:
        _mark(job, Segment.Outcome.NOTHING)
        return Closed(outcome="nothing to remember")
    memory = job.memory
    memory.lock()
    judged = guarding.judge(job, question, reading)
    is_merge = memory.memory_type == MemoryType.LONG_TERM or memory.scope == MemoryScope.WORKSPACE
    if judged.is_empty and is_merge:
        raise guarding.NothingLeft(judged.held)
    guarding.keep(job, judged.held)
    if judged.is_empty:  # what the segment says waits for a person, line for line
        _mark(job, Segment.Outcome.NOTHING)
        return Closed(outcome="held back")
    made = made_lines(job.cites, judged.reading)
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        version = _write_segment(job, question, made)
    else:
        version = _write_merge(job, question, judged.reading, made, accepted=accepted)
    _mark(job, Segment.Outcome.REMEMBERED)
    return Closed(version, "" if version else "unchanged")


def _mark(job: Job, outcome: str) -> None:
    segment = job.segment
    if segment is not None:
        segment.settle_read(outcome, Segment.Outcome.WAITING if segment.thread_ts else None)


def _trigger(job: Job) -> dict[str, Any]:
    """Why the version was made; with the number of messages that the model refused to read."""
    reply = job.saved_reply
    left_out = {"left_out": len(reply.left_out)} if reply and reply.left_out else {}
    return {**job.trigger, **left_out}


def made_lines(cites: Sequence[Sequence[int]], reading: ParsedReply) -> list[Line]:
    lines = []
    for line in reading.lines:
        asked = (ref for ref in line.refs if ref <= len(cites))  # the rows may say more by now
        keys = dict.fromkeys(key for ref in asked for key in cites[ref - 1])
        made = Line(f"- {line.text}", Origin.MODEL, sources=tuple(keys)[:MAX_SOURCES])
        lines.append(replace(made, kind=line.kind or "", unverified=bool(line.unverified)))
    return lines


def _write_segment(job: Job, question: Question, made: Sequence[Line]) -> MemoryVersion | None:
    """A segment's text: in place of its own earlier one, of the provisional one, or of the only
    one that disabled history keeps; else, and after a person's, as the next version. Lines that a
    person wrote or pinned stay in what is written over."""
    memory, segment = job.memory, job.segment
    if job.provisional and memory.head:
        return None  # a segment closed first: the provisional text has nothing to add
    own = memory.versions.filter(segment=segment).order_by("number").last() if segment else None
    replaced = own or _overwritten(memory)
    is_followed = replaced is not None and replaced.is_persons and replaced is not own
    held = replaced.protected_lines() if replaced and not is_followed else []
    lines, put_back, kept = merge_lines(held, made)
    draft = NewVersion(
        lines=lines,
        origin=Origin.MODEL,
        until_us=question.until_us,
        source_message_count=question.message_count,
        source_latest_message_ts=question.latest_ts,
        base=None,
        segment=segment,
        job=job,
        provisional=job.provisional,
        trigger=_trigger(job),
        put_back=put_back,
        kept=kept,
        audience=_audience(question, replaced if held else None),
    )
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
    job: Job,
    question: Question,
    reading: ParsedReply,
    made: Sequence[Line],
    *,
    accepted: bool,
) -> MemoryVersion | None:
    """A text that grew from its base: refused with StaleBase when the head moved meanwhile, or when
    what it read may not flow there any more; with SuddenShrink unless a person accepted it."""
    memory, base = job.memory, job.base
    if memory.current_id != job.base_id or not followups.may_flow(job):
        raise StaleBase(memory.current)
    lines, put_back, kept = merge_lines(_base_lines(job, question), made)
    if job.is_rebuild:  # code alone carries on what people hold: nothing was lost
        put_back, kept = [], [*kept, *put_back]
    messages, latest = _source_facts(job, question)
    draft = NewVersion(
        lines=lines,
        origin=Origin.MODEL,
        until_us=question.until_us,
        source_message_count=messages,
        source_latest_message_ts=latest,
        base=base,
        segment=job.segment,
        job=job,
        trigger=_trigger(job),
        put_back=put_back,
        kept=kept,
        dropped=[f"{reason}: {text}" for text, reason in reading.dropped],
        audience=_audience(question, base),
    )
    if base is not None and draft.text == base.content:
        return None
    grows = memory.memory_type == MemoryType.LONG_TERM
    if base and grows and not accepted and is_sudden_shrink(base.content, draft.text):
        raise SuddenShrink
    if memory.scope == MemoryScope.THREAD and base is not None and not base.is_persons:
        if not base.rewrite(draft):
            raise StaleBase(memory.current)
        return base
    version = memory.add_version(draft, expected_head=memory.head)
    if base is not None and not job.is_rebuild:
        _record_fates(base, version, question, reading)
    _record_replaced(job, question, reading)
    return version


def _record_replaced(job: Job, question: Question, reading: ParsedReply) -> None:
    """Note at lines of the short-term memories that what they say was replaced since."""
    lines = question.request.memory_lines
    texts = {f"- {line.text}" for line in lines if line.ref in reading.superseded}
    if texts and job.memory.channel_id is not None:
        said = LineRow.objects.filter(
            version__memory__channel=job.memory.channel_id,
            version__memory__memory_type=MemoryType.SHORT_TERM,
            text__in=texts,
            fate="",
        )
        said.update(fate=LineRow.Fate.SUPERSEDED)


def _record_fates(
    base: MemoryVersion, version: MemoryVersion, question: Question, reading: ParsedReply
) -> None:
    """Note at the lines of the base why the new version lacks them."""
    words = [words_of(line.text) for line in question.base_lines]
    places = {words_of(line.text): line.position for line in version.lines.all()}
    fates: dict[str, tuple[str, int | None]] = {}
    for refs, fate in (
        (reading.settled, LineRow.Fate.SETTLED),
        ([ref for line in reading.archived for ref in line.refs], LineRow.Fate.ARCHIVED),
    ):
        fates |= {words[ref - 1]: (fate, None) for ref in refs if ref <= len(words)}
    for ref, text in reading.superseded.items():
        if ref <= len(words):  # else of a memory that was merged in
            fates[words[ref - 1]] = LineRow.Fate.SUPERSEDED, places.get(words_of(text))
    lacks = fates.keys() - places.keys()  # a person may have pinned one meanwhile
    rows = [line for line in base.lines.filter(masked=False) if words_of(line.text) in lacks]
    for line in rows:
        line.fate, line.successor = fates[words_of(line.text)]
    LineRow.objects.bulk_update(rows, ["fate", "successor"])


def hold_readers(job: Job) -> None:
    """Until the transaction ends its channel keeps its readers: one that turns public waits, or is
    seen as it is by then."""
    channel = job.memory.channel_id
    if channel is not None:
        list(Channel.objects.select_for_update(no_key=True).filter(pk=channel))


def _audience(question: Question, grown_from: MemoryVersion | None) -> str:
    """Of a public channel's text: its members alone, where it rests on what was said in private, or
    carries on lines of a text that does."""
    if grown_from is not None and grown_from.audience != MemoryVersion.Audience.SCOPE:
        return grown_from.audience
    said = [key for keys in question.cites for key in keys]
    private = Message.objects.filter(
        pk__in=said, was_private=True, channel__kind=Channel.Kind.PUBLIC
    )
    restricted = bool(question.request.messages) and private.exists()
    return MemoryVersion.Audience.MEMBERS if restricted else MemoryVersion.Audience.SCOPE


def _base_lines(job: Job, question: Question) -> list[Line]:
    """The lines that the question carried on, and what is held, as they are by now: a pin set while
    the model was thinking holds."""
    if job.base is None:
        return []
    lines = job.base.line_values()
    if job.is_rebuild:  # a line that comes out the same keeps where it is from
        return lines
    asked = {line.text for line in question.base_lines}
    return [line for line in lines if line.is_protected or line.text in asked]


def _source_facts(job: Job, question: Question) -> tuple[int, str | None]:
    """Message count and newest ts, derived from the recorded sources (S1, rule 6)."""
    memory = job.memory
    if memory.scope == MemoryScope.THREAD:
        return question.message_count, question.latest_ts
    facts: dict[int | None, tuple[int, str]] = {}
    for place, segment, messages, ts in followups.merged_versions(job):
        # Of each channel, and of each segment, the latest it gave.
        facts[place if memory.scope == MemoryScope.WORKSPACE else segment] = (messages, ts)
    if len(facts) > 1:  # a person's words over a provisional text: a segment has its messages
        facts.pop(None, None)
    newest = max((ts for _, ts in facts.values() if ts), key=micros, default=None)
    return sum(messages for messages, _ in facts.values()), newest
