"""Schedule the merges and thread jobs that are needed now (rules 5, 6 and 7).

Each function may run at any time and any number of times. It looks for what is not merged yet, and
the input key allows one row for each wanted output.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from memories.models import Backfill, Channel, Job, Memory, MemoryVersion, Segment, Workspace
from memories.models.generate.jobs import REBUILD
from memories.models.ingest.channels import ChannelQuerySet
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.pipeline.generate.input_keys import base_key, input_key, merge_key, thread_key
from memories.rules.generate.splitting import MERGE_LIMIT
from memories.rules.ingest.timestamps import HOUR
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.tokens import estimate_tokens


@transaction.atomic
def schedule_pending(workspace: Workspace, as_of_us: int) -> None:
    """Schedule all that the workspace needs, also after a lost follow-up or a person's edit."""
    Job.objects.leave_finished_backfills(workspace)
    for backfill in Backfill.objects.filter(workspace=workspace, state=Backfill.State.PAUSED):
        backfill.supersede_merges()
    for channel_id, thread_ts in _threads_without_job(workspace):
        channel = Channel.objects.select_related("workspace").get(pk=channel_id)
        schedule_thread(Memory.objects.of_thread(channel, thread_ts), as_of_us)
    for channel in workspace.channels.filter(pk__in=channels_with_unmerged(workspace)):
        schedule_channel_merge(channel, as_of_us)
    schedule_workspace_merges(workspace, as_of_us)
    for backfill in Backfill.objects.filter(workspace=workspace, state=Backfill.State.RUNNING):
        backfill.finish_if_done(timezone.now())


def _threads_without_job(workspace: Workspace) -> "models.QuerySet[Any, tuple[int, str]]":
    """Return (channel key, thread ts) of threads with waiting segments and no unfinished job."""
    unfinished = Job.objects.unfinished().filter(
        memory__channel=models.OuterRef("channel"), memory__thread_ts=models.OuterRef("thread_ts")
    )
    waiting = Segment.objects.filter(
        ~models.Exists(unfinished), channel__workspace=workspace, outcome=Segment.Outcome.WAITING
    )
    return waiting.exclude(thread_ts="").values_list("channel", "thread_ts").distinct()


def channels_with_unmerged(workspace: Workspace) -> "models.QuerySet[Any, int]":
    """Return the keys of channels whose short-term versions are not all merged."""
    short = MemoryVersion.objects.not_merged().filter(
        memory__workspace=workspace,
        memory__scope=MemoryScope.CHANNEL,
        memory__memory_type=MemoryType.SHORT_TERM,
    )
    return short.values_list("memory__channel", flat=True)


def schedule_followups(job: Job) -> None:
    """Schedule what the end of this job allows. Call it in the closing transaction."""
    memory = job.memory
    if memory.scope == MemoryScope.THREAD:
        schedule_thread(memory, job.as_of_us)
    elif memory.channel is None or schedule_channel_merge(memory.channel, job.as_of_us):
        schedule_workspace_merges(memory.workspace, job.as_of_us)


def schedule_channel_merge(channel: Channel, as_of_us: int) -> bool:
    """Merge the channel's unmerged short-term versions into its long-term memory, oldest first.

    Returns False while segments of the channel are in progress; then the workspace waits too.
    """
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    if short.jobs.filter(provisional=False).in_progress(timezone.now()).exists():
        return False
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    if not memory.jobs.without_rebuilds().unfinished().exists():
        unmerged = _not_paused(short.versions.not_merged().in_order())
        _schedule_merge(memory, _take_fitting(unmerged), as_of_us)
    return True


def schedule_workspace_merges(workspace: Workspace, as_of_us: int) -> None:
    """Merge channels into the workspace's memories, once no job of these channels is in progress.

    A text waits for an hour at most, since in a large workspace there is always such a job. Long-term
    memories go into the long-term memory. Short-term memories of public channels go into the
    short-term memory, unless the setting is off.
    """
    now = timezone.now()
    flowing = workspace.channels.feeding_workspace_memory()
    jobs = Job.objects.filter(memory__channel__in=flowing, memory__scope=MemoryScope.CHANNEL)
    is_busy = jobs.in_progress(now).exists()
    long_term = Memory.objects.of_workspace(workspace, MemoryType.LONG_TERM)
    if not long_term.jobs.without_rebuilds().unfinished().exists():
        current = MemoryVersion.objects.current_in(flowing, MemoryType.LONG_TERM)
        unmerged = _not_paused(current.not_merged()).order_by("memory__channel")
        is_late = is_busy and unmerged.filter(created_at__lte=now - timedelta(hours=1)).exists()
        if is_late or not is_busy:
            _schedule_merge(long_term, _take_fitting(unmerged), as_of_us)
    if workspace.memory_settings.workspace_short_term:
        _schedule_hourly_merge(workspace, flowing, as_of_us, is_busy=is_busy)


def _schedule_hourly_merge(
    workspace: Workspace, flowing: ChannelQuerySet, as_of_us: int, *, is_busy: bool
) -> None:
    """Merge all short-term memories anew if one of them is new and the last merge is an hour old.

    While channels are busy, the last merge has to be two hours old. A text that is withheld now is
    made again at once.
    """
    memory = Memory.objects.of_workspace(workspace, MemoryType.SHORT_TERM)
    last = memory.jobs.filter(state=Job.State.DONE).order_by("pk").last()
    has_text = memory.current is not None
    wait_us = 2 * HOUR if is_busy else HOUR
    if last is None and is_busy:
        return
    if last is not None and has_text and last.as_of_us <= as_of_us < last.as_of_us + wait_us:
        return
    # A private channel that was opted in gives its long-term memory only.
    public = flowing.filter(kind=Channel.Kind.PUBLIC, is_shared=False)
    current = _not_paused(MemoryVersion.objects.current_in(public, MemoryType.SHORT_TERM))
    # The window ends with the newest text, or a quiet weekend would leave nothing to tell.
    newest = models.Subquery(current.order_by("-until_us").values("until_us")[:1])
    recent = current.filter(until_us__gte=newest - workspace.memory_settings.window_us)
    read = set(last.input_rows.values_list("version", "revision")) if last else set()
    versions = list(recent.order_by("memory__channel"))
    has_new = any((version.pk, version.revision) not in read for version in versions)
    if has_new and not memory.jobs.unfinished().exists():
        _schedule_merge(memory, versions, as_of_us)


def _not_paused(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Leave out versions of a paused backfill: merging them is part of it."""
    return versions.exclude(job__backfill__state=Backfill.State.PAUSED)


def _take_fitting(versions: Iterable[MemoryVersion]) -> list[MemoryVersion]:
    """Return the first versions that fit into one merge, at least one."""
    fitting: list[MemoryVersion] = []
    tokens = 0
    for version in versions:
        tokens += estimate_tokens(version.content)
        if fitting and tokens > MERGE_LIMIT:
            break
        fitting.append(version)
    return fitting


def _schedule_merge(memory: Memory, inputs: Sequence[MemoryVersion], as_of_us: int) -> None:
    if not inputs:
        return
    base = memory.current
    makers = Job.objects.filter(versions__in=[version.pk for version in inputs])
    backfill = Backfill.objects.unfinished().filter(jobs__in=makers).first()
    read = [(version.pk, version.revision) for version in inputs]
    job, is_new = Job.objects.get_or_create(
        input_key=merge_key(memory, base_key(base, memory), read),
        defaults={
            "memory": memory,
            "base": base,
            "backfill": backfill,
            "as_of_us": as_of_us,
            "trigger": {"reason": "merge", "new": len(inputs)},
        },
    )
    if is_new:
        # It reads more than a proposal that waits.
        memory.jobs.proposed().without_rebuilds().exclude(pk=job.pk).supersede()
        job.add_inputs(inputs)
    elif job.reopen(Job.State.SUPERSEDED):
        Job.objects.filter(pk=job.pk).update(backfill=backfill)


@transaction.atomic
def schedule_rebuild(memory: Memory, as_of_us: int) -> Job | None:
    """Return a job that makes a long-term memory anew from all its inputs.

    An unfinished rebuild is returned instead. A proposed one is superseded. None: the memory has no
    inputs, or no text to compare with.
    """
    memory.lock()
    rebuilds = memory.jobs.rebuilds()
    if (unfinished := rebuilds.unfinished().first()) is not None:
        return unfinished
    inputs = list(rebuild_inputs(memory))
    if not inputs or memory.current is None:
        return None
    rebuilds.proposed().supersede()
    read = [(version.pk, version.revision) for version in inputs]
    job = Job.objects.create(
        input_key=input_key(memory.pk, REBUILD, rebuilds.count(), read),
        memory=memory,
        base=memory.current,
        as_of_us=as_of_us,
        trigger={"reason": REBUILD, "new": len(inputs)},
    )
    job.add_inputs(inputs)
    return job


def rebuild_inputs(memory: Memory) -> MemoryVersionQuerySet:
    """Return the versions that a long-term memory is made from, oldest first.

    These are a channel's short-term versions, or the current long-term versions of the channels
    that flow into the workspace's memory.
    """
    if memory.channel is None:
        flowing = memory.workspace.channels.feeding_workspace_memory()
        versions = MemoryVersion.objects.current_in(flowing, MemoryType.LONG_TERM)
    else:
        short = Memory.objects.of_channel(memory.channel, MemoryType.SHORT_TERM)
        versions = short.versions.all()
    return versions.mergeable().in_order()


def unmerge_unread(rebuild: Job) -> None:
    """Mark versions as unmerged that a rebuild did not read, so that the next merge reads them."""
    unread = rebuild_inputs(rebuild.memory).exclude(pk__in=rebuild.input_rows.values("version"))
    MemoryVersion.objects.filter(pk__in=list(unread.values_list("pk", flat=True))).update(
        merged=False
    )


def is_current(job: Job) -> bool:
    """Return whether the job's base and inputs are still the current ones, and allowed.

    A job of a channel's segment always is.
    """
    memory = job.memory
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        return True
    has_old_base = job.base_id != memory.current_id and not job.is_rebuild
    if has_old_base or not has_allowed_inputs(job):
        return False
    return not job.input_rows.exclude(revision=models.F("version__revision")).exists()


def has_allowed_inputs(job: Job) -> bool:
    """Return whether all inputs may go into the job's memory, and all its readers may read them.

    A channel's memory takes its own versions. The workspace's takes those of channels that are
    public or opted in now.
    """
    memory = job.memory
    channels = Channel.objects.feeding_workspace_memory().filter(workspace=memory.workspace_id)
    if memory.channel_id is not None:
        channels = Channel.objects.filter(pk=memory.channel_id)
    is_allowed = models.Q(
        version__audience=MemoryVersion.Audience.SCOPE, version__memory__channel__in=channels
    )
    return not job.input_rows.exclude(is_allowed).exists()


def schedule_thread(memory: Memory, as_of_us: int) -> None:
    """Summarise all waiting segments of a thread in one job."""
    if memory.jobs.unfinished().exists() or memory.channel is None:
        return
    waiting = list(
        memory.channel.segments.filter(
            thread_ts=memory.thread_ts, outcome=Segment.Outcome.WAITING
        ).order_by("number")
    )
    if not waiting:
        return
    messages = list(
        memory.channel.messages.filter(thread_segment__in=waiting)
        .order_by("micros")
        .values_list("ts", "edited_ts", "state")
    )
    base = memory.current
    last = waiting[-1]
    backfill = Backfill.objects.find_unfinished(memory.channel)
    Job.objects.get_or_create(
        input_key=thread_key(memory, base_key(base, memory), messages),
        defaults={
            "memory": memory,
            "segment": last,
            "base": base,
            "backfill": backfill if backfill is not None and backfill.covers(last) else None,
            "as_of_us": as_of_us,
            "trigger": {"reason": last.reason, "new": len(messages)},
        },
    )
