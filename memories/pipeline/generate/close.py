"""reply → memory version: close a job in one transaction, and schedule what follows from it."""

from dataclasses import replace
from datetime import datetime

from django.db import transaction

from memories import llm
from memories.models import Channel, Job, Segment, StaleBase
from memories.pipeline.generate import followups
from memories.pipeline.generate.failures import handle_failure
from memories.pipeline.generate.requests import JobRequest
from memories.pipeline.generate.write_version import (
    Closed,
    NeedsApproval,
    build_lines,
    settle_segments,
    write_version,
)
from memories.pipeline.safety import quarantine
from memories.rules.generate.faults import MAX_ATTEMPTS, Fault
from memories.rules.generate.prompts import clean_for_model
from memories.rules.generate.reply import parse_reply
from memories.rules.memory.lines import merge_lines
from memories.rules.summariser import ParsedReply, SummariserError
from memoryhub.failpoints import fail_point

COPIED = "copied"  # most lines only copy messages
_MANY_MESSAGES = 3  # so many can be summarised
QUARANTINED = "quarantined"  # a safety rule stopped every line
_BAD_REPLY = "The reply was not saved: %s."


def close(job: Job, job_request: JobRequest, now: datetime, *, only_copies: bool = False) -> Closed:
    """Make the saved reply into a version, or save the reason why not.

    A version that a person saved meanwhile is never overwritten. ``only_copies``: the model copies
    messages in both forms of the prompt, so a second call would change nothing.
    """
    if job.saved_reply is None:
        return Closed(outcome="lost")
    parsed = _parse_reply(job, job_request)
    if fault := _find_fault(job, job_request, parsed, only_copies=only_copies):
        handle_failure(job, SummariserError(fault, _BAD_REPLY % fault), now)
        return Closed(outcome=f"fault: {fault}")
    if job.is_rebuild:
        return _close_rebuild(job, job_request, parsed, now)
    try:
        with transaction.atomic():
            lock_channel(job)
            if not job.close(Job.State.DONE, now):
                return Closed(outcome="lost")
            closed = write_version(job, job_request, parsed)
            followups.schedule_followups(job)
            fail_point("in_commit", job.pk)
            return replace(closed, is_copied=parsed.is_copied)
    except StaleBase:
        return supersede(job, now)
    except quarantine.AllLinesStopped as error:
        return _quarantine_all(job, error, now)
    except NeedsApproval:
        return _propose(job, job_request, parsed, now)


def lock_channel(job: Job) -> None:
    """Lock the job's channel, so that its readers stay the same until the transaction ends."""
    channel = job.memory.channel_id
    if channel is not None:
        list(Channel.objects.select_for_update(no_key=True).filter(pk=channel))


def _parse_reply(job: Job, job_request: JobRequest) -> ParsedReply:
    """Parse the saved reply.

    The offline highlights replace it when both prompt forms gave nothing for messages that say
    something (rule 8).
    """
    reply = job.saved_reply
    assert reply is not None
    parsed = parse_reply(reply, job_request.request)
    if parsed.fault != Fault.NOTHING or not _used_both_forms(job):
        return parsed
    highlights = llm.summarise(job_request.request, llm.OfflineSummariser())
    job.replace_reply(highlights)
    return parse_reply(highlights, job_request.request)


def _find_fault(
    job: Job, job_request: JobRequest, parsed: ParsedReply, *, only_copies: bool
) -> str:
    """Return why the reply is refused, or "". A reply to a few messages may repeat them."""
    may_copy = only_copies or len(job_request.request.messages) < _MANY_MESSAGES
    if parsed.is_copied and not may_copy and not _used_both_forms(job):
        return COPIED
    return parsed.fault


def _used_both_forms(job: Job) -> bool:
    return bool(job.form) or job.attempts >= MAX_ATTEMPTS


def _close_rebuild(job: Job, job_request: JobRequest, parsed: ParsedReply, now: datetime) -> Closed:
    """Propose a rebuilt text, unless it is empty or equals the current one."""
    checked = quarantine.check_reply(job, job_request, parsed)
    if checked.is_all_stopped:
        return _quarantine_all(job, quarantine.AllLinesStopped(checked.stopped), now)
    current = job.memory.current
    lines = build_lines(job.reply_sources, checked.parsed)
    base_lines = current.line_values() if current else []
    rebuilt = merge_lines(base_lines, lines, shown_as=clean_for_model)
    is_equal = current and "\n".join(line.text for line in rebuilt.lines) == current.content
    if not (parsed.is_nothing or is_equal):
        return _propose(job, job_request, parsed, now)
    with transaction.atomic():
        if job.close(Job.State.DONE, now):
            followups.schedule_followups(job)
    return Closed(outcome="unchanged")


def _propose(job: Job, job_request: JobRequest, parsed: ParsedReply, now: datetime) -> Closed:
    """Make the text a proposal: a rebuild, a reviewed merge, or one that shrinks (rule 8)."""
    with transaction.atomic():
        if job.close(Job.State.PROPOSED, now):
            quarantine.quarantine_lines(
                job, quarantine.check_reply(job, job_request, parsed).stopped
            )
            followups.schedule_followups(job)
    return Closed(outcome="proposed")


def _quarantine_all(job: Job, error: quarantine.AllLinesStopped, now: datetime) -> Closed:
    """Give up a merge of which every line was stopped, and quarantine its lines.

    The old text stays. What the job read is merged by the next job.
    """
    with transaction.atomic():
        quarantine.quarantine_lines(job, error.stopped)
        handle_failure(job, SummariserError(QUARANTINED, _BAD_REPLY % QUARANTINED), now)
    return Closed(outcome=f"fault: {QUARANTINED}")


def supersede(job: Job, now: datetime) -> Closed:
    """End a job whose base or inputs changed, and schedule a new one from the current rows."""
    with transaction.atomic():
        if job.close(Job.State.SUPERSEDED, now):
            followups.schedule_followups(job)
            if job.is_rebuild:
                followups.schedule_rebuild(job.memory, job.as_of_us)
    return Closed(outcome="superseded")


def close_without_call(job: Job, now: datetime) -> Closed:
    """End a job that has nothing to summarise, because its messages were deleted."""
    with transaction.atomic():
        if job.close(Job.State.DONE, now):
            settle_segments(job, Segment.Outcome.SKIPPED)
            followups.schedule_followups(job)
    return Closed(outcome="nothing to summarise")
