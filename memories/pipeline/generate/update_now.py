"""Update a memory now, or rebuild a long-term memory, on a person's request."""

from datetime import datetime

from django.db import transaction

from memories.models import Job, Memory, User
from memories.pipeline.generate import followups
from memories.pipeline.generate.plan import plan_channel
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType


@transaction.atomic
def update_now(memory: Memory, by: User, now: datetime) -> Job | None:
    """Close the open messages of the memory's channel or thread; return the job that reads them.

    An unfinished job is returned as well, and a dead one is retried. None: no message waits, or the
    first sync of the channel has not ended.
    """
    as_of = memory.workspace.synced_until(now)
    if memory.channel is None or as_of is None:
        return None
    if not memory.workspace.channels.past_first_sync().filter(pk=memory.channel.pk).exists():
        return None
    plan_channel(memory.channel.pk, as_of, close_now=memory.thread_ts)
    updated = memory
    if memory.scope != MemoryScope.THREAD:  # the long-term memory follows
        updated = Memory.objects.of_channel(memory.channel, MemoryType.SHORT_TERM)
    jobs = updated.jobs.order_by("-pk")
    job: Job | None = jobs.unfinished().first()
    if job is None:
        dead = jobs.filter(state=Job.State.DEAD).first()
        job = dead if dead is not None and dead.retry(by) else None
    if job is not None:
        memory.record("memory_update", by, job=job.pk)
    return job


@transaction.atomic
def rebuild(memory: Memory, by: User | None, now: datetime) -> Job | None:
    """Schedule a rebuild of a long-term memory, whose text becomes a proposal; return its job.

    An unfinished rebuild is returned. None: the memory has no inputs or no text.
    """
    as_of = memory.workspace.synced_until(now) or now
    job = followups.schedule_rebuild(memory, to_micros(as_of))
    if job is not None:
        memory.record("memory_rebuild", by, job=job.pk)
    return job
