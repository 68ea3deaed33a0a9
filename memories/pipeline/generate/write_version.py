"""Write the version that a job's reply makes. Call it inside the closing transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

from django.db.models import Q
from django.utils import timezone

from memories.models import (
    ChangedSince,
    Job,
    JobInput,
    Memory,
    MemoryVersion,
    Message,
    NewVersion,
    Segment,
    StaleBase,
    User,
)
from memories.models import Line as LineRow
from memories.pipeline.generate import followups
from memories.pipeline.generate.learning import propose_notes
from memories.pipeline.generate.requests import JobRequest
from memories.pipeline.safety import quarantine
from memories.rules.generate.faults import is_sudden_shrink
from memories.rules.generate.prompts import clean_for_model
from memories.rules.ingest.timestamps import micros, to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import (
    Line,
    MergeResult,
    Origin,
    hash_text,
    merge_lines,
    revise_lines,
    strip_bullet,
)
from memories.rules.summariser import MAX_SOURCES, ParsedReply


class NeedsApproval(Exception):
    """A person has to approve the text: it lost most of its content, or each merge is reviewed."""


class Approval(NamedTuple):
    """The approval of a proposed text by a person, or of their edit of it: then with ``text``.

    ``shown`` is the hash of the text that the person saw, "" if it is not to be compared.
    """

    by: User | None
    text: str = ""
    shown: str = ""


@dataclass(frozen=True)
class Closed:
    """The result of closing a job: a version, or the reason why there is none."""

    version: MemoryVersion | None = None
    outcome: str = ""
    is_copied: bool = False  # most lines only copy messages


def write_version(
    job: Job, job_request: JobRequest, parsed: ParsedReply, *, approval: Approval | None = None
) -> Closed:
    """Write what the safety rules let through, and quarantine the other lines.

    Raises StaleBase when the memory or its inputs changed. Raises AllLinesStopped when every line of
    a merge was stopped. Raises NeedsApproval without an ``approval``. Raises ChangedSince if the
    approval is for another text, and ValueError if its text contains only forgotten text.
    """
    if parsed.is_nothing:
        settle_segments(job, Segment.Outcome.NOTHING)
        return Closed(outcome="nothing to remember")
    memory = job.memory
    memory.lock()
    checked = quarantine.check_reply(job, job_request, parsed)
    is_merge = memory.memory_type == MemoryType.LONG_TERM or memory.scope == MemoryScope.WORKSPACE
    if checked.is_all_stopped and is_merge:
        raise quarantine.AllLinesStopped(checked.stopped)
    quarantine.quarantine_lines(job, checked.stopped)
    if checked.is_all_stopped:
        settle_segments(job, Segment.Outcome.NOTHING)
        return Closed(outcome="quarantined")
    lines = build_lines(
        job.reply_sources,
        checked.parsed,
        job_request.input_lines,
        keeps_pins=keeps_pins(memory),
    )
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        version = _write_segment(job, job_request, lines)
    else:
        version = _write_merge(job, job_request, checked.parsed, lines, approval)
    settle_segments(job, Segment.Outcome.REMEMBERED)
    return Closed(version, "" if version else "unchanged")


def build_lines(
    sources: Sequence[Sequence[int]],
    parsed: ParsedReply,
    input_lines: Sequence[Line] = (),
    *,
    keeps_pins: bool = False,
) -> list[Line]:
    """Return the lines of a reply. ``sources`` are the message keys of each reference, from 1 on.

    A person's line of a merged version that comes out the same keeps its author and time. With
    ``keeps_pins`` a pinned line keeps its pin.
    """
    pinned = {strip_bullet(line.text) for line in input_lines if keeps_pins and line.pinned}
    by_person = {strip_bullet(line.text): line for line in input_lines if line.author is not None}
    # A request that is built again may have more references than the reply's own.
    groups = [
        [sources[ref - 1] for ref in sorted(line.refs, reverse=True) if ref <= len(sources)]
        for line in parsed.lines
    ]
    read = {key for of_line in groups for group in of_line for key in group}
    sent = dict(Message.objects.filter(pk__in=read).values_list("pk", "micros"))
    lines = []
    for line, of_line in zip(parsed.lines, groups, strict=True):
        keys = _choose_messages(of_line, sent)
        made = Line(f"- {line.text}", Origin.MODEL, sources=keys)
        made = replace(made, kind=line.kind or "", unverified=bool(line.unverified))
        if same := by_person.get(strip_bullet(line.text)):
            made = replace(made, author=same.author, at_us=same.at_us, unverified=False)
        lines.append(replace(made, pinned=strip_bullet(line.text) in pinned))
    return lines


def keeps_pins(memory: Memory) -> bool:
    """Return whether a merge into the memory keeps the pins of its inputs.

    A memory that is made anew each hour does not: a pinned line would stay in it for ever.
    """
    is_of_workspace = memory.scope == MemoryScope.WORKSPACE
    return is_of_workspace and memory.memory_type == MemoryType.LONG_TERM


def _choose_messages(groups: Sequence[Sequence[int]], sent: Mapping[int, int]) -> tuple[int, ...]:
    """Return at most MAX_SOURCES messages: the newest of each group, then the next of each.

    ``sent`` are the times of the messages.
    """
    keys = tuple(dict.fromkeys(key for group in groups for key in group))
    if len(keys) <= MAX_SOURCES:
        return keys
    newest_first = [sorted(group, key=lambda key: -sent.get(key, 0)) for group in groups]
    in_turn = (key for row in zip_longest(*newest_first) for key in row if key is not None)
    return tuple(dict.fromkeys(in_turn))[:MAX_SOURCES]


def settle_segments(job: Job, outcome: str) -> None:
    """Set the outcome of the segments that the job read."""
    segment = job.segment
    if segment is not None:
        segment.settle_read(outcome, Segment.Outcome.WAITING if segment.thread_ts else None)


def _new_version(
    job: Job, job_request: JobRequest, lines: MergeResult, **values: Any
) -> NewVersion:
    reply = job.saved_reply
    left_out = {"left_out": len(reply.left_out)} if reply and reply.left_out else {}
    return NewVersion(
        lines=lines.lines,
        origin=Origin.MODEL,
        until_us=job_request.until_us,
        segment=job.segment,
        job=job,
        trigger={**job.trigger, **left_out},  # with the number of messages the model refused
        put_back=lines.restored,
        kept=lines.kept,
        **values,
    )


# Short-term memories of a channel


def _write_segment(
    job: Job, job_request: JobRequest, lines: Sequence[Line]
) -> MemoryVersion | None:
    """Rewrite the version that this text replaces, or add the next one.

    The text replaces the segment's own earlier version, the provisional one, or the only one that
    disabled history keeps. A replaced version's lines of a person, and its pins, stay.
    """
    memory, segment = job.memory, job.segment
    if job.provisional and memory.head:
        return None  # a segment was summarised first
    own = memory.versions.filter(segment=segment).order_by("number").last() if segment else None
    replaced = own or _replaced_version(memory)
    is_followed = replaced is not None and replaced.is_by_person and replaced is not own
    pinned = replaced.protected_lines() if replaced and not is_followed else []
    new_version = _new_version(
        job,
        job_request,
        merge_lines(pinned, lines, shown_as=clean_for_model),
        source_message_count=job_request.message_count,
        source_latest_message_ts=job_request.latest_ts,
        provisional=job.provisional,
        audience=_audience(job_request, replaced if pinned else None),
    )
    if replaced is not None and replaced.rewrite(new_version):
        return replaced
    return memory.add_version(new_version, expected_head=memory.head)


def _replaced_version(memory: Memory) -> MemoryVersion | None:
    """Return the provisional version or, with disabled history, the newest one if it is merged."""
    current = memory.current  # not the head: a late backfill adds older periods
    if current is None or current.provisional:
        return current
    keeps_one = not memory.workspace.memory_settings.history_enabled
    return current if keeps_one and current.merged else None


# Threads, and merges


def _write_merge(
    job: Job,
    job_request: JobRequest,
    parsed: ParsedReply,
    lines: Sequence[Line],
    approval: Approval | None,
) -> MemoryVersion | None:
    """Write a text that grew from its base. Raises the errors of `write_version`."""
    memory, base = job.memory, job.base
    if memory.current_id != job.base_id or not followups.has_allowed_inputs(job):
        raise StaleBase(memory.current)
    result = merge_lines(_base_lines(job, job_request), lines, shown_as=clean_for_model)
    if job.is_rebuild:  # the model did not get these lines, so it has lost none
        result = result._replace(restored=[], kept=[*result.kept, *result.restored])
    if edited := _edited_lines(result.lines, base, approval):
        result = MergeResult(edited, restored=[], kept=[])
    message_count, latest_ts = _source_facts(job, job_request)
    new_version = _new_version(
        job,
        job_request,
        result,
        source_message_count=message_count,
        source_latest_message_ts=latest_ts,
        base=base,
        dropped=[f"{reason}: {text}" for text, reason in parsed.dropped],
        audience=_audience(job_request, base),
        author=approval.by if approval and edited else None,
    )
    if base is not None and new_version.text == base.content:
        return None
    if approval is None and _needs_approval(memory, base, new_version.text):
        raise NeedsApproval
    if base is not None and memory.scope == MemoryScope.THREAD and not base.is_by_person:
        if not base.rewrite(new_version):
            raise StaleBase(memory.current)
        return base
    version = memory.add_version(new_version, expected_head=memory.head)
    if base is not None and not job.is_rebuild:
        _record_outcomes(base, version, job_request, parsed)
    _record_superseded_lines(job, job_request, parsed)
    propose_notes(version)
    return version


def _edited_lines(
    lines: Sequence[Line], base: MemoryVersion | None, approval: Approval | None
) -> list[Line]:
    """Return the lines of an approval that changes the proposed ``lines``, else none."""
    if approval is None:
        return []
    proposed = hash_text("\n".join(line.text for line in lines))
    if (approval.shown or approval.text) and proposed != approval.shown:
        raise ChangedSince
    if not approval.text:
        return []
    text = base.without_redacted(approval.text) if base else approval.text
    edited = revise_lines(lines, text, approval.by.pk if approval.by else None)
    if not edited:
        raise ValueError("The text contains only forgotten text.")
    return edited if [line.text for line in edited] != [line.text for line in lines] else []


def _needs_approval(memory: Memory, base: MemoryVersion | None, text: str) -> bool:
    """Return whether the workspace reviews such merges, or the text lost most of its content."""
    settings = memory.workspace.memory_settings
    is_long_term = memory.memory_type == MemoryType.LONG_TERM
    if memory.scope == MemoryScope.WORKSPACE and settings.reviews_workspace:
        return True
    if memory.scope == MemoryScope.CHANNEL and settings.reviews_channels:
        return True
    return is_long_term and base is not None and is_sudden_shrink(base.content, text)


def _base_lines(job: Job, job_request: JobRequest) -> list[Line]:
    """Return the lines of the base that the request showed, and those pinned since."""
    if job.base is None:
        return []
    lines = job.base.line_values()
    if job.is_rebuild:  # a line that comes out the same keeps its origin
        return lines
    shown = {line.text for line in job_request.base_lines}
    return [line for line in lines if line.is_protected or line.text in shown]


def _source_facts(job: Job, job_request: JobRequest) -> tuple[int, str | None]:
    """Return the message count and newest ts of all versions that the text rests on (S1, rule 6)."""
    memory = job.memory
    if memory.scope == MemoryScope.THREAD:
        return job_request.message_count, job_request.latest_ts
    read = JobInput.objects.filter(job__memory=job.memory_id, job__state=Job.State.DONE)
    if memory.memory_type == MemoryType.SHORT_TERM:  # made anew each time
        read = read.filter(job=job)
    # Each channel, or each segment, counts with the latest version that was read.
    is_of_workspace = memory.scope == MemoryScope.WORKSPACE
    key = "version__memory" if is_of_workspace else "version__segment"
    facts: dict[int | None, tuple[int, str]] = {
        source: (count, ts)
        for source, count, ts in read.order_by("version__memory", "version__number").values_list(
            key, "version__source_message_count", "version__source_latest_message_ts"
        )
    }
    if len(facts) > 1:  # a person's edit of a provisional text has no segment
        facts.pop(None, None)
    newest = max((ts for _, ts in facts.values() if ts), key=micros, default=None)
    return sum(count for count, _ in facts.values()), newest


def _audience(job_request: JobRequest, grown_from: MemoryVersion | None) -> str:
    """Return who may read the text: members only, if it rests on private messages or lines."""
    if grown_from is not None and grown_from.audience != MemoryVersion.Audience.SCOPE:
        return grown_from.audience
    read = [key for keys in job_request.sources for key in keys]
    private = Message.objects.filter(pk__in=read).from_private_days()
    is_restricted = bool(job_request.request.messages) and private.exists()
    return MemoryVersion.Audience.MEMBERS if is_restricted else MemoryVersion.Audience.SCOPE


def _record_outcomes(
    base: MemoryVersion, version: MemoryVersion, job_request: JobRequest, parsed: ParsedReply
) -> None:
    """Save with the lines of the base why the new version lacks them."""
    words = [strip_bullet(line.text) for line in job_request.base_lines]
    positions = {strip_bullet(line.text): line.position for line in version.lines.all()}
    outcomes: dict[str, tuple[str, int | None]] = {}
    archived = [ref for line in parsed.archived for ref in line.refs]
    for refs, outcome in (
        (parsed.settled, LineRow.Outcome.SETTLED),
        (archived, LineRow.Outcome.ARCHIVED),
    ):
        outcomes |= {words[ref - 1]: (outcome, None) for ref in refs if ref <= len(words)}
    for ref, text in parsed.superseded.items():
        if ref <= len(words):  # a higher one is a line of an input
            outcomes[words[ref - 1]] = LineRow.Outcome.SUPERSEDED, positions.get(strip_bullet(text))
    missing = outcomes.keys() - positions.keys()  # a person may have pinned one meanwhile
    rows = [
        line for line in base.lines.filter(redacted=False) if strip_bullet(line.text) in missing
    ]
    for line in rows:
        line.outcome, line.successor = outcomes[strip_bullet(line.text)]
        line.outcome_us = to_micros(version.created_at)
    LineRow.objects.bulk_update(rows, ["outcome", "successor", "outcome_us"])


def _record_superseded_lines(job: Job, job_request: JobRequest, parsed: ParsedReply) -> None:
    """Save with older lines of the short-term memories that a newer line superseded them."""
    lines = job_request.request.memory_lines
    at_us = {line.ref: line.at_us for line in lines}
    times = {
        line.text: max((at_us.get(ref, 0) for ref in line.refs), default=0) for line in parsed.lines
    }
    superseded = Q()
    for line in lines:
        if (successor := parsed.superseded.get(line.ref)) is not None:
            until_us = times.get(successor) or job_request.until_us
            superseded |= Q(text=f"- {line.text}", at_us__lt=until_us)
    if superseded and job.memory.channel_id is not None:
        rows = LineRow.objects.filter(
            superseded,
            version__memory__channel=job.memory.channel_id,
            version__memory__memory_type=MemoryType.SHORT_TERM,
            outcome="",
        )
        rows.update(outcome=LineRow.Outcome.SUPERSEDED, outcome_us=to_micros(timezone.now()))
