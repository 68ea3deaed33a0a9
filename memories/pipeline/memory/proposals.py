"""Proposals: texts that wait for approval.

Long-term texts come from a rebuild, or from a merge that shrinks the text too much (rule 8). They
are jobs. Corrections of one line come from people and agents. They are rows of `Proposal`.
"""

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from memories.models import (
    AuditEvent,
    Job,
    Memory,
    MemoryVersion,
    Message,
    Reader,
    StaleBase,
    User,
)
from memories.models.ingest.messages import MessageQuerySet
from memories.pipeline.generate import followups
from memories.pipeline.generate.close import lock_channel, supersede
from memories.pipeline.generate.requests import RequestBuilder
from memories.pipeline.generate.write_version import (
    Approval,
    build_lines,
    keeps_pins,
    write_version,
)
from memories.pipeline.safety import quarantine
from memories.rules.generate.prompts import clean_for_model
from memories.rules.generate.reply import parse_reply
from memories.rules.ingest.permalinks import find_permalinks
from memories.rules.memory.drift import Drift, find_drift
from memories.rules.memory.lines import Line, merge_lines
from memories.rules.summariser import MAX_SOURCES
from memories.rules.tokens import estimate_tokens


def shareable_messages(memory: Memory, reader: Reader) -> MessageQuerySet:
    """Return the messages that the reader and all readers of the memory may read.

    A revoked message is no source.
    """
    of_memory = Q(channel=memory.channel)
    if memory.channel is None:
        channels = memory.workspace.channels.feeding_workspace_memory()
        of_memory = Q(channel__in=channels.values("pk"))
    readable = Message.objects.visible_to(reader).without_private_days()
    return readable.filter(of_memory, state=Message.State.LIVE, is_revoked=False)


def find_sources(memory: Memory, text: str, reader: Reader) -> list[Message]:
    """Return the shareable messages whose addresses are in the text, at most MAX_SOURCES."""
    shared = shareable_messages(memory, reader)
    keys = find_permalinks(text)[:MAX_SOURCES]
    rows = (shared.filter(channel__slack_id=channel, ts=ts).first() for channel, ts in keys)
    return [message for message in rows if message is not None]


def find_proposal(memory: Memory) -> Job | None:
    """Return the newest waiting proposal for a memory.

    Return None if its readers may no longer read one of its inputs.
    """
    job = memory.jobs.proposed().with_memory().order_by("-pk").first()
    return job if job is not None and followups.has_allowed_inputs(job) else None


def get_base(job: Job) -> MemoryVersion | None:
    """Return the version that a proposal would replace: the current one for a rebuild."""
    return job.memory.current if job.is_rebuild else job.base


def token_counts(job: Job) -> tuple[int, int] | None:
    """Return the tokens of the base and of the reply, or None if the job is no proposal."""
    reply = job.saved_reply if job.state == Job.State.PROPOSED else None
    if reply is None:
        return None
    base = get_base(job)
    return estimate_tokens(base.content) if base else 0, estimate_tokens(reply.text)


def proposed_lines(job: Job) -> list[Line]:
    """Return the lines that the memory would have, with the protected lines of the base."""
    reply = job.saved_reply
    if reply is None:
        return []
    job_request = RequestBuilder(job.memory.workspace).build(job)
    parsed = parse_reply(reply, job_request.request)
    checked = quarantine.check_reply(job, job_request, parsed)
    new_lines = build_lines(
        job.reply_sources,
        checked.parsed,
        job_request.input_lines,
        keeps_pins=keeps_pins(job.memory),
    )
    base = get_base(job)
    base_lines = base.line_values() if base else []
    return merge_lines(base_lines, new_lines, shown_as=clean_for_model).lines


def proposed_text(job: Job) -> str:
    return "\n".join(line.text for line in proposed_lines(job))


def proposal_drift(job: Job) -> list[Drift]:
    """Return the facts that only one of the base and the proposed text has."""
    base = get_base(job)
    old, new = base.line_values() if base else [], proposed_lines(job)
    return find_drift(
        [line.text for line in old],
        [line.text for line in new],
        people=job.memory.workspace.people.all().names().values(),
        pinned=[line.text for line in (*old, *new) if line.pinned],
    )


def approve(job: Job, *, by: User | None, text: str = "", shown: str = "") -> MemoryVersion | None:
    """Write a proposal as the next version. Return None if it was decided already.

    ``shown`` is the hash of the proposed text that ``by`` saw, "" to approve it unseen. A ``text``
    takes its place. Lines that differ are those of ``by``.

    Raise StaleBase if the memory or an input has changed. The job is then superseded, and a new
    merge follows. Raise ChangedSince if the proposed text is not the shown one any more. Raise
    ValueError if ``text`` contains only forgotten text.
    """
    now = timezone.now()
    reply = job.saved_reply if job.state == Job.State.PROPOSED else None
    if reply is None:
        return None
    job.rebase(get_base(job))
    job_request = RequestBuilder(job.memory.workspace).build(job)
    try:
        if not followups.is_current(job):
            raise StaleBase(job.memory.current)
        with transaction.atomic():
            lock_channel(job)
            if not job.close(Job.State.DONE, now):
                return None
            parsed = parse_reply(reply, job_request.request)
            if parsed.fault:
                raise quarantine.AllLinesStopped(())
            closed = write_version(job, job_request, parsed, approval=Approval(by, text, shown))
            if job.is_rebuild:
                followups.unmerge_unread(job)
            followups.schedule_followups(job)
            AuditEvent.objects.record(
                "proposal_accept", by=by, workspace=job.memory.workspace, subject=str(job)
            )
            # No version is written if a person has saved the same text since.
            return closed.version or job.memory.current
    except quarantine.AllLinesStopped as error:  # newer safety rules stop all lines
        quarantine.quarantine_lines(job, error.stopped)
        supersede(job, now)
        raise StaleBase(job.memory.current) from error
    except StaleBase:
        supersede(job, now)
        raise


def reject(job: Job, *, by: User | None) -> bool:
    """Reject a proposal.

    The next merge reads its inputs again. Return False if it was decided already.
    """
    with transaction.atomic():
        rejected = job.reject(by)
        if rejected:
            followups.schedule_followups(job)
    return rejected
