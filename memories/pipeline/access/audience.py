"""A channel changed its readers: what was learned before is published to nobody by it.

Both ways are narrowing. What turns private is gone from the workspace's memories at once, and these
are made again without it; what turns public keeps its past, text and memories, to its members, those
who join later among them: Slack shows them all of it too.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from memories.models import (
    AuditEvent,
    Channel,
    Job,
    JobInput,
    Line,
    Memory,
    MemoryVersion,
    User,
    Workspace,
)
from memories.models.generate.job_queries import JobQuerySet
from memories.models.memory.versions import MemoryVersionQuerySet
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin

Audience = MemoryVersion.Audience


def follow(channel: Channel, was: str, *, was_shared: bool) -> None:
    """Slack describes it as it did not before (its kind, and whether it is shared with others). Call
    it in the transaction that writes the new words."""
    if (channel.kind, channel.is_shared) == (was, was_shared):
        return
    flowed = channel.in_workspace_memory or (was == Channel.Kind.PUBLIC and not was_shared)
    if channel.in_workspace_memory:  # that was somebody's word on the channel as it was then
        _note_opt_in(channel, by=None, on=False)
    flows = channel.is_public and not channel.is_shared
    if channel.is_public and was != Channel.Kind.PUBLIC:
        became_public(channel)
    elif was == Channel.Kind.PUBLIC and not channel.is_public:
        # It was public when Slack was last asked; since then it may have been closed.
        channel.describe({"private_since": channel.workspace.listed_at})
    if flows and not flowed:
        _is_owed(channel)
    if flowed and not flows:
        left_the_workspace(channel)


@transaction.atomic
def became_public(channel: Channel) -> None:
    """What was said, written and remembered in private is for the channel's members from now on;
    what came before, in public, is everybody's again."""
    _withdraw_proposals(Job.objects.of_channel(channel))
    _take_turns(channel.memories.all())
    since = channel.private_since
    posted = written = worded = Q()
    if since is not None:
        us = to_micros(since)
        posted = Q(micros__gte=us) | Q(edited_ts__gte=ts_from_micros(us))
        written = Q(updated_at__gte=since)
        worded = Q(written_at__gte=since)
    channel.messages.filter(posted, was_private=False).update(was_private=True)
    channel.notes.filter(written, was_private=False).update(was_private=True)
    channel.note_versions.filter(worded, was_private=False).update(was_private=True)
    learned = MemoryVersion.objects.filter(memory__channel=channel)
    if since is not None:
        learned = learned.filter(pk__in=_resting_on_private(channel, since))
    _restrict(learned, Audience.MEMBERS)
    channel.describe({"private_since": None})


@transaction.atomic
def left_the_workspace(channel: Channel) -> None:
    """Its text may not stand in the workspace's memories any more: they are made anew."""
    of_workspace = channel.workspace.memories.filter(scope=MemoryScope.WORKSPACE)
    _withdraw_proposals(Job.objects.filter(memory__in=of_workspace))
    for memory in _take_turns(of_workspace):
        if touched := _resting_on(memory, channel):
            _restrict(MemoryVersion.objects.filter(pk__in=touched), Audience.NOBODY)
            read_again(channel.workspace)


def read_again(workspace: Workspace) -> None:
    """The workspace's long-term memory owes all that may flow into it once more."""
    _merge_again(workspace.channels.feeding_workspace_memory())


def _is_owed(channel: Channel) -> None:
    """What it remembers was not wanted by the workspace until now."""
    _merge_again([channel])


def _merge_again(channels: Iterable[Channel]) -> None:
    MemoryVersion.objects.current_in(channels, MemoryType.LONG_TERM).update(merged=False)


@transaction.atomic
def opt_in(channel: Channel, *, by: User | None, on: bool) -> bool:
    """Let the long-term text of a private channel, or of one that is shared with others, into the
    workspace's memory, or no longer. On the record. False when it is so already, or when there is
    nothing to decide: a public channel flows by itself, a direct message never does."""
    narrow = Q(kind=Channel.Kind.PRIVATE) | Q(kind=Channel.Kind.PUBLIC, is_shared=True)
    locked = Channel.objects.select_for_update(no_key=True).filter(narrow, pk=channel.pk)
    changed = locked.filter(in_workspace_memory=not on).first()
    if changed is None:
        return False
    _note_opt_in(channel, by=by, on=on)
    if on:
        _is_owed(channel)
    else:
        left_the_workspace(channel)
    return True


def _note_opt_in(channel: Channel, *, by: User | None, on: bool) -> None:
    channel.describe({"in_workspace_memory": on})
    AuditEvent.objects.record(
        "channel_opt_in" if on else "channel_opt_out",
        by=by,
        workspace=channel.workspace,
        subject=f"channel {channel.pk}",
    )


def _withdraw_proposals(jobs: JobQuerySet) -> None:
    """Texts that wait for a person's word and rest on what changes its readers: merged again."""
    jobs.proposed().supersede()


def _take_turns(memories: Iterable[Memory]) -> list[Memory]:
    """Whoever closes a job of these is through, or sees the channel as it is now."""
    locked = sorted(memories, key=lambda memory: memory.pk)
    for memory in locked:
        memory.lock()
    return locked


def _resting_on(memory: Memory, channel: Channel) -> set[int]:
    """The versions of a workspace's memory that hold something of this channel: they, or what they
    grew from, read its text. Where nothing tells what a model had read, it may be this."""
    read = JobInput.objects.filter(job__memory=memory, version__memory__channel=channel)
    touched_by = set(read.values_list("job", flat=True))
    citing = Line.objects.filter(version__memory=memory, sources__channel=channel)
    touched = set(citing.values_list("version", flat=True))
    rows = memory.versions.order_by("number").values_list(
        "pk", "job", "base", "restored_from", "origin"
    )
    for pk, job, base, restored, origin in rows:
        is_untold = job is None and origin == Origin.MODEL
        if is_untold or job in touched_by or base in touched or restored in touched:
            touched.add(pk)
    return touched


def _resting_on_private(channel: Channel, since: datetime) -> set[int]:
    """The channel's versions that rest on what was said in private, or that somebody wrote, or
    something untold made, since then."""
    private = channel.messages.filter(was_private=True)
    segments = set(private.values_list("segment", flat=True)) - {None}
    threads = set(private.exclude(thread_ts="").values_list("thread_ts", flat=True))
    citing = Line.objects.filter(version__memory__channel=channel, sources__in=private)
    touched = set(citing.values_list("version", flat=True))
    read: dict[int, set[int]] = {}
    inputs = JobInput.objects.filter(job__memory__channel=channel)
    for job, key in inputs.values_list("job", "version"):
        read.setdefault(job, set()).add(key)
    # With disabled history one text is made of whatever lies in the window.
    tells = channel.workspace.memory_settings.history_enabled
    for version in _versions_of(channel):
        is_untold = (
            version.is_by_person
            or version.job_id is None
            or version.provisional
            or not (tells or version.segment_id is None)
        )
        if (
            version.segment_id in segments
            or version.memory.thread_ts in threads
            or {version.base_id, version.restored_from_id} & touched
            or read.get(version.job_id or 0, set()) & touched
            or (is_untold and version.updated_at >= since)
        ):
            touched.add(version.pk)
    return touched


def _versions_of(channel: Channel) -> MemoryVersionQuerySet:
    versions = MemoryVersion.objects.filter(memory__channel=channel)
    return versions.select_related("memory").defer("content").order_by("pk")


def _restrict(versions: Iterable[MemoryVersion], audience: str) -> None:
    """These versions are for fewer people; their memories show the newest of the others."""
    rows = MemoryVersion.objects.filter(pk__in=[version.pk for version in versions])
    memories = list(Memory.objects.filter(versions__in=rows).distinct())
    rows.exclude(audience=Audience.NOBODY).update(audience=audience)
    for memory in memories:
        memory.update_current()
