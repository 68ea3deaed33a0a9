"""A person's word that what waits is remembered now, though the rules would wait for more."""

from datetime import datetime

from django.db import transaction

from memories.models import Generation, Memory, User
from memories.pipeline.plan import plan_channel
from memories.rules.memory import MemoryScope, MemoryType


def remembered_by(memory: Memory) -> Memory:
    """The memory that reads the messages themselves: a thread's own, else the channel's short-term
    one, from which the long-term one follows."""
    if memory.scope == MemoryScope.THREAD or memory.channel is None:
        return memory
    return Memory.objects.of_channel(memory.channel, MemoryType.SHORT_TERM)


@transaction.atomic
def update_now(memory: Memory, by: User, now: datetime) -> Generation | None:
    """Close what is open in the memory's channel or thread. Returns the job that reads it, or that
    is under way already; one that was given up is offered again. None: nothing waits."""
    as_of = memory.workspace.known_until(now)
    if memory.channel is None or as_of is None:
        return None
    plan_channel(memory.channel.pk, as_of, asked=memory.thread_ts)
    jobs = remembered_by(memory).generations.order_by("-pk")
    found: Generation | None = jobs.unfinished().first()
    if found is None:
        given_up = jobs.filter(state=Generation.State.DEAD).first()
        found = given_up if given_up is not None and given_up.retry(by) else None
    if found is not None:
        memory.record("memory_update", by, job=found.pk)
    return found
