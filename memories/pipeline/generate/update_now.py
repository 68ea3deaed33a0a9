"""What a person may ask for: to remember now what waits, or to make a long-term memory anew."""

from datetime import datetime

from django.db import transaction

from memories.models import Job, Memory, User
from memories.pipeline.generate import followups
from memories.pipeline.generate.plan import plan_channel
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType


def remembered_by(memory: Memory) -> Memory:
    """The memory that reads the messages themselves: a thread's own, else the channel's short-term
    one, from which the long-term one follows."""
    if memory.scope == MemoryScope.THREAD or memory.channel is None:
        return memory
    return Memory.objects.of_channel(memory.channel, MemoryType.SHORT_TERM)


@transaction.atomic
def update_now(memory: Memory, by: User, now: datetime) -> Job | None:
    """Close what is open in the memory's channel or thread. Returns the job that reads it, or that
    is under way already; one that was given up is offered again. None: nothing waits."""
    as_of = memory.workspace.known_until(now)
    if memory.channel is None or as_of is None:
        return None
    plan_channel(memory.channel.pk, as_of, close_now=memory.thread_ts)
    jobs = remembered_by(memory).jobs.order_by("-pk")
    job: Job | None = jobs.unfinished().first()
    if job is None:
        given_up = jobs.filter(state=Job.State.DEAD).first()
        job = given_up if given_up is not None and given_up.retry(by) else None
    if job is not None:
        memory.record("memory_update", by, job=job.pk)
    return job


@transaction.atomic
def rebuild(memory: Memory, by: User | None, now: datetime) -> Job | None:
    """Ask for a long-term memory to be made anew; its text becomes a proposal. Returns the job, or the
    one that is under way already. None: there is nothing to make it from, or no text yet."""
    as_of = memory.workspace.known_until(now) or now
    job = followups.schedule_rebuild(memory, to_micros(as_of))
    if job is not None:
        memory.record("memory_rebuild", by, job=job.pk)
    return job
