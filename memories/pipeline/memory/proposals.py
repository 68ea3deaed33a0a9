"""Proposals: a long-term text that waits for a person's word. A merge that would shrink it (rule 8), or
a rebuild."""

from django.db import transaction
from django.utils import timezone

from memories.models import AuditEvent, Job, Memory, MemoryVersion, StaleBase, User
from memories.pipeline.generate import followups
from memories.pipeline.generate.close import lock_readers, supersede
from memories.pipeline.generate.requests import RequestBuilder
from memories.pipeline.generate.write_version import build_lines, write_version
from memories.pipeline.safety import quarantine
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.tokens import estimate_tokens
from memories.rules.memory.drift import Drift, find_drift
from memories.rules.memory.lines import Line, merge_lines


def find_proposal(memory: Memory) -> Job | None:
    """The proposal that waits for this memory, the newest if there are several. One that read what
    the memory's readers may not read any more is none."""
    job = memory.jobs.proposed().with_memory().order_by("-pk").first()
    return job if job is not None and followups.has_allowed_inputs(job) else None


def get_base(job: Job) -> MemoryVersion | None:
    """The text that the proposal would replace. A rebuild rests on no other text, so it stands beside
    the current one, also after merges."""
    return job.memory.current if job.is_rebuild else job.base


def token_counts(job: Job) -> tuple[int, int] | None:
    """Tokens of the text as it is and as it is proposed; None when nothing is proposed."""
    is_proposed = job.state == Job.State.PROPOSED
    reply = job.saved_reply if is_proposed else None
    if reply is None:
        return None
    base = get_base(job)
    return estimate_tokens(base.content) if base else 0, estimate_tokens(reply.text)


def proposed_lines(job: Job) -> list[Line]:
    """The lines that the memory would have: what people hold is put back here too."""
    question = RequestBuilder(job.memory.workspace).build(job)
    reply = job.saved_reply
    if reply is None:
        return []
    reading = parse_reply(reply, question.request)
    made = build_lines(job.cites, quarantine.check_reply(job, question, reading).parsed)
    base = get_base(job)
    return merge_lines(base.line_values() if base else [], made).lines


def proposal_drift(job: Job) -> list[Drift]:
    """What a rebuilt text says and the current one lacks, and the other way round."""
    memory, base = job.memory, get_base(job)
    old = base.line_values() if base else []
    new = proposed_lines(job)
    return find_drift(
        [line.text for line in old],
        [line.text for line in new],
        people=memory.workspace.people.all().names().values(),
        pinned=[line.text for line in (*old, *new) if line.pinned],
    )


def accept(job: Job, *, by: User | None) -> MemoryVersion | None:
    """Make it the next version. Raises StaleBase when the memory or what it reads moved on: then
    the proposal is gone, and the merge is made again. None: somebody was faster."""
    now = timezone.now()
    reply = job.saved_reply
    if job.state != Job.State.PROPOSED or reply is None:
        return None
    job.rebase(get_base(job))
    question = RequestBuilder(job.memory.workspace).build(job)
    try:
        if not followups.is_current(job):
            raise StaleBase(job.memory.current)
        with transaction.atomic():
            lock_readers(job)
            if not job.close(Job.State.DONE, now):
                return None
            reading = parse_reply(reply, question.request)
            if reading.fault:
                raise quarantine.AllLinesStopped(())
            closed = write_version(job, question, reading, accepted=True)
            if job.is_rebuild:
                followups.unmerge_unread(job)
            followups.schedule_followups(job)
            AuditEvent.objects.record(
                "proposal_accept",
                by=by,
                workspace=job.memory.workspace,
                subject=str(job),
            )
            # A rebuild may say what a person has written meanwhile.
            return closed.version or job.memory.current
    except quarantine.AllLinesStopped as left:  # the rules have grown since
        quarantine.quarantine_lines(job, left.stopped)
        supersede(job, now)
        raise StaleBase(job.memory.current) from left
    except StaleBase:
        supersede(job, now)
        raise


def reject(job: Job, *, by: User | None) -> bool:
    """Keep the text as it is; what the merge read stays owed to the next one. False: it did not
    wait any more."""
    with transaction.atomic():
        rejected = job.reject(by)
        if rejected:
            followups.schedule_followups(job)
    return rejected
