"""What follows from what: the merges that memories owe, as rows (rules 5, 6 and 7).

Each word here may be called at any time and any number of times: it looks at what is not merged
yet, and the input key keeps one row per wanted output.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from memories.models import (
    Backfill,
    Channel,
    Job,
    JobInput,
    Memory,
    MemoryVersion,
    Segment,
    Workspace,
)
from memories.models.generate.jobs import REBUILD
from memories.models.memory.versions import MemoryVersionQuerySet
from memories.pipeline.generate.input_keys import input_key, merge_key, numbered, thread_key
from memories.rules.generate.splitting import MERGE_LIMIT
from memories.rules.generate.tokens import estimate_tokens
from memories.rules.ingest.timestamps import HOUR
from memories.rules.memory.identity import MemoryScope, MemoryType


@transaction.atomic
def schedule_pending(workspace: Workspace, as_of_us: int) -> None:
    """Whatever the workspace's memories owe: heals follow-ups that were lost, and sees what people
    wrote since."""
    Backfill.objects.release(workspace)
    for channel_id, thread_ts in _threads_without_job(workspace):
        channel = Channel.objects.select_related("workspace").get(pk=channel_id)
        thread(Memory.objects.of_thread(channel, thread_ts), as_of_us)
    for channel in workspace.channels.filter(pk__in=_channels_with_unmerged(workspace)):
        channel_merge(channel, as_of_us)
    workspace_merges(workspace, as_of_us)
    Backfill.objects.finish(workspace, timezone.now())


def _threads_without_job(workspace: Workspace) -> "models.QuerySet[Any, tuple[int, str]]":
    going_on = Job.objects.unfinished().filter(
        memory__channel=models.OuterRef("channel"), memory__thread_ts=models.OuterRef("thread_ts")
    )
    waiting = Segment.objects.filter(
        ~models.Exists(going_on), channel__workspace=workspace, outcome=Segment.Outcome.WAITING
    )
    return waiting.exclude(thread_ts="").values_list("channel", "thread_ts").distinct()


def _channels_with_unmerged(workspace: Workspace) -> "models.QuerySet[Any, int]":
    short = MemoryVersion.objects.not_merged().filter(
        memory__workspace=workspace,
        memory__scope=MemoryScope.CHANNEL,
        memory__memory_type=MemoryType.SHORT_TERM,
    )
    return short.values_list("memory__channel", flat=True)


def follow_ups(job: Job) -> None:
    """Whatever the end of this job lets begin. Call it in the closing transaction."""
    memory = job.memory
    if memory.scope == MemoryScope.THREAD:
        thread(memory, job.as_of_us)
    elif memory.channel is None or channel_merge(memory.channel, job.as_of_us):
        workspace_merges(memory.workspace, job.as_of_us)


def channel_merge(channel: Channel, as_of_us: int) -> bool:
    """The long-term memory takes in every short-term version not yet merged, oldest first. False
    while segments of the channel are under way: then the workspace waits for them as well."""
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    segments = short.jobs.filter(provisional=False)
    if segments.unsettled(timezone.now()).exists():
        return False
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    if not memory.jobs.without_rebuilds().unfinished().exists():
        owed = _not_paused(short.versions.not_merged().in_order())
        _owe_merge(memory, _as_many_as_fit(owed), as_of_us)
    return True


def workspace_merges(workspace: Workspace, as_of_us: int) -> None:
    """Once the channels that flow into it have settled: long-term from long-term, and, unless switched
    off, at most once an hour, short-term from short-term memories, of public channels alone."""
    flowing = workspace.channels.feeding_workspace_memory()
    busy = Job.objects.filter(memory__channel__in=flowing, memory__scope=MemoryScope.CHANNEL)
    if busy.unsettled(timezone.now()).exists():
        return
    long_term = Memory.objects.of_workspace(workspace, MemoryType.LONG_TERM)
    if not long_term.jobs.without_rebuilds().unfinished().exists():
        current = MemoryVersion.objects.current_in(flowing, MemoryType.LONG_TERM)
        changed = _not_paused(current.not_merged())
        _owe_merge(long_term, _as_many_as_fit(changed.order_by("memory__channel")), as_of_us)
    if workspace.memory_settings.workspace_short_term:
        short_term = Memory.objects.of_workspace(workspace, MemoryType.SHORT_TERM)
        window_us = workspace.memory_settings.window_us
        public = flowing.filter(  # opted in is the long-term text alone
            kind=Channel.Kind.PUBLIC, is_shared=False
        )
        current = MemoryVersion.objects.current_in(public, MemoryType.SHORT_TERM)
        recent = _not_paused(current).filter(until_us__gte=as_of_us - window_us)
        _owe_anew(short_term, list(recent.order_by("memory__channel")), as_of_us)


def _owe_anew(memory: Memory, inputs: Sequence[MemoryVersion], as_of_us: int) -> None:
    """Made from all of them each time, but only when there is something new among them, and an hour
    after the last time. A text that was withheld is made again at once."""
    last = memory.jobs.filter(state=Job.State.DONE).order_by("pk").last()
    is_there = memory.current is not None
    if last is not None and is_there and last.as_of_us <= as_of_us < last.as_of_us + HOUR:
        return
    known = set(last.read.values_list("version", "revision")) if last else set()
    is_new = any((version.pk, version.revision) not in known for version in inputs)
    if is_new and not memory.jobs.unfinished().exists():
        _owe_merge(memory, inputs, as_of_us)


def _not_paused(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Without what a paused backfill made: merging it is its own work too."""
    return versions.exclude(job__backfill__state=Backfill.State.PAUSED)


def _order_of(versions: Sequence[MemoryVersion]) -> Backfill | None:
    """The backfill that a merge of these is work of."""
    made = Job.objects.filter(versions__in=[version.pk for version in versions])
    return Backfill.objects.unfinished().filter(jobs__in=made).first()


def _as_many_as_fit(versions: Iterable[MemoryVersion]) -> list[MemoryVersion]:
    taken: list[MemoryVersion] = []
    tokens = 0
    for version in versions:
        tokens += estimate_tokens(version.content)
        if taken and tokens > MERGE_LIMIT:
            break
        taken.append(version)
    return taken


def _owe_merge(memory: Memory, inputs: Sequence[MemoryVersion], as_of_us: int) -> None:
    if not inputs:
        return
    base, backfill = memory.current, _order_of(inputs)
    job, made = Job.objects.get_or_create(
        input_key=merge_key(memory, numbered(base, memory), [(v.pk, v.revision) for v in inputs]),
        defaults={
            "memory": memory,
            "base": base,
            "backfill": backfill,
            "as_of_us": as_of_us,
            "trigger": {"reason": "merge", "new": len(inputs)},
        },
    )
    if made:
        asked_before = memory.jobs.proposed().without_rebuilds().exclude(pk=job.pk)
        asked_before.end(Job.State.SUPERSEDED)  # it is asked anew, with more to read
        job.take_inputs(inputs)
    elif job.want_again():
        Job.objects.filter(pk=job.pk).update(backfill=backfill)


@transaction.atomic
def schedule_rebuild(memory: Memory, as_of_us: int) -> Job | None:
    """The job that makes a long-term memory anew from all that it was merged from; the one that is
    under way, if there is one. It takes the place of a rebuild that waits for a person. None: there
    is nothing to make it from, or no text yet to hold it against."""
    memory.lock()
    rebuilds = memory.jobs.rebuilds()
    if (going_on := rebuilds.unfinished().first()) is not None:
        return going_on
    inputs = list(rebuilt_from(memory))
    if not inputs or memory.current is None:
        return None
    rebuilds.proposed().end(Job.State.SUPERSEDED)
    read = [(version.pk, version.revision) for version in inputs]
    job = Job.objects.create(
        input_key=input_key(memory.pk, REBUILD, rebuilds.count(), read),
        memory=memory,
        base=memory.current,
        as_of_us=as_of_us,
        trigger={"reason": REBUILD, "new": len(inputs)},
    )
    job.take_inputs(inputs)
    return job


def rebuilt_from(memory: Memory) -> MemoryVersionQuerySet:
    """Of a channel all its short-term versions, of the workspace the long-term memories of the
    channels that flow into it; oldest first."""
    if memory.channel is None:
        flowing = memory.workspace.channels.feeding_workspace_memory()
        return (
            MemoryVersion.objects.current_in(flowing, MemoryType.LONG_TERM).mergeable().in_order()
        )
    short = Memory.objects.of_channel(memory.channel, MemoryType.SHORT_TERM)
    found: MemoryVersionQuerySet = short.versions.mergeable().in_order()
    return found


def merge_again_since(rebuild: Job) -> None:
    """What was merged after a rebuild had been asked for is owed again: the rebuild lacks it."""
    unread = rebuilt_from(rebuild.memory).exclude(pk__in=rebuild.read.values("version"))
    MemoryVersion.objects.filter(pk__in=list(unread.values_list("pk", flat=True))).update(
        merged=False
    )


def is_as_owed(job: Job) -> bool:
    """Whether a call would still be for what was owed: the base is the current text, the inputs
    are worded as they were and may flow there. A segment's text is wanted whatever happened."""
    memory = job.memory
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        return True
    moved_on = job.base_id != memory.current_id and not job.is_rebuild
    if moved_on or not may_flow(job):
        return False
    return not job.read.exclude(revision=models.F("version__revision")).exists()


def may_flow(job: Job) -> bool:
    """Only channels that are public, or opted in, flow into the workspace's memories, whenever that
    changed, and into a channel's only its own; and nothing that fewer people may read."""
    memory = job.memory
    sources = Channel.objects.feeding_workspace_memory().filter(workspace=memory.workspace_id)
    if memory.channel_id is not None:
        sources = Channel.objects.filter(pk=memory.channel_id)
    may = models.Q(
        version__audience=MemoryVersion.Audience.SCOPE, version__memory__channel__in=sources
    )
    return not job.read.exclude(may).exists()


def thread(memory: Memory, as_of_us: int) -> None:
    """A thread's memory takes in its segments that still wait, all of them at once."""
    if memory.jobs.unfinished().exists() or memory.channel is None:
        return
    waiting = list(
        memory.channel.segments.filter(
            thread_ts=memory.thread_ts, outcome=Segment.Outcome.WAITING
        ).order_by("number")
    )
    if not waiting:
        return
    digest = list(
        memory.channel.messages.filter(thread_segment__in=waiting)
        .order_by("micros")
        .values_list("ts", "edited_ts", "state")
    )
    base = memory.current
    last = waiting[-1]
    backfill = Backfill.objects.of_channel(memory.channel)
    Job.objects.get_or_create(
        input_key=thread_key(memory, numbered(base, memory), digest),
        defaults={
            "memory": memory,
            "segment": last,
            "base": base,
            "backfill": backfill if backfill is not None and backfill.owns(last) else None,
            "as_of_us": as_of_us,
            "trigger": {"reason": last.reason, "new": len(digest)},
        },
    )


def merged_versions(
    job: Job,
) -> "models.QuerySet[Any, tuple[int, int | None, int, str]]":
    """(memory, segment, messages, newest ts) of every version that this merge's text rests on,
    oldest first, one read twice also twice: what its own counts are derived from."""
    read = JobInput.objects.filter(job__memory=job.memory_id, job__state=Job.State.DONE)
    if job.memory.memory_type == MemoryType.SHORT_TERM:  # made anew each time
        read = read.filter(job=job)
    return read.order_by("version__memory", "version__number").values_list(
        "version__memory",
        "version__segment",
        "version__source_message_count",
        "version__source_latest_message_ts",
    )
