"""Changes of a channel's audience: its kind, whether it is shared, and the opt-in of an admin.

Nothing that was learned before gets more readers. Text of a channel that turns private leaves the
workspace's memories at once, and these are made again without it. A channel that turns public keeps
its past texts and memories for its members, as in Slack, also for members who join later.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from memories.models import (
    AuditEvent,
    Channel,
    ChannelSync,
    EarlierWording,
    Job,
    JobInput,
    Line,
    Memory,
    MemoryVersion,
    Proposal,
    QuarantinedLine,
    User,
)
from memories.models.generate.job_queries import JobQuerySet
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin

Audience = MemoryVersion.Audience


def update_audience(channel: Channel, old_kind: str, *, was_shared: bool) -> None:
    """Follow a change of the channel's kind, or of whether it is shared with other workspaces.

    Call it in the transaction that saves the new description.
    """
    if (channel.kind, channel.is_shared) == (old_kind, was_shared):
        return
    was_public = old_kind == Channel.Kind.PUBLIC
    fed_workspace = channel.in_workspace_memory or (was_public and not was_shared)
    if channel.in_workspace_memory:  # the opt-in was for the channel as it was then
        _save_opt_in(channel, by=None, on=False)
    feeds_workspace = channel.is_public and not channel.is_shared
    if channel.is_public and not was_public:
        publish(channel)
    elif was_public and not channel.is_public:
        # Slack called it public in the last list. It may have been private since then.
        channel.update_fields({"private_since": channel.workspace.listed_at})
    if feeds_workspace and not fed_workspace:
        _merge_again([channel])
    if fed_workspace and not feeds_workspace:
        withdraw_from_workspace(channel)


@transaction.atomic
def publish(channel: Channel) -> None:
    """Restrict texts from the private days of a channel that is public now to its members.

    Texts from before these days are for all readers again.
    """
    _withdraw_proposals(Job.objects.of_channel(channel))
    _lock_memories(channel.memories.all())
    since = channel.private_since
    messages = notes = created = Q()
    if since is not None:
        us = to_micros(since)
        messages = Q(micros__gte=us) | Q(edited_ts__gte=ts_from_micros(us))
        notes = Q(written_at__gte=since)
        created = Q(created_at__gte=since)
    channel.messages.filter(messages, was_private=False).update(was_private=True)
    channel.notes.filter(notes, was_private=False).update(was_private=True)
    channel.note_versions.filter(notes, was_private=False).update(was_private=True)
    lines = QuarantinedLine.objects.waiting().filter(created, memory__channel=channel)
    lines.filter(sources__isnull=True).delete()
    versions = MemoryVersion.objects.filter(memory__channel=channel)
    wordings = EarlierWording.objects.filter(version__memory__channel=channel)
    if since is not None:
        versions = versions.filter(pk__in=_versions_from_private_days(channel, since))
        wordings = wordings.filter(replaced_at__gte=since)
    wordings.remove_texts()
    _restrict(versions, Audience.MEMBERS)
    # Those of a restricted version are for members, too.
    changes = Proposal.objects.filter(created, memory__channel=channel)
    changes.filter(version__audience=Audience.SCOPE).delete()
    ChannelSync.objects.filter(channel=channel).update(error_code="", error_text="")


@transaction.atomic
def withdraw_from_workspace(channel: Channel) -> None:
    """Withhold versions of the workspace's memories with text of the channel, and make new ones."""
    memories = channel.workspace.memories.filter(scope=MemoryScope.WORKSPACE)
    _withdraw_proposals(Job.objects.filter(memory__in=memories))
    Proposal.objects.filter(memory__in=memories, sources__channel=channel).delete()
    for memory in _lock_memories(memories):
        if keys := _versions_from_channel(memory, channel):
            _restrict(MemoryVersion.objects.filter(pk__in=keys), Audience.NOBODY)
            _merge_again(channel.workspace.channels.feeding_workspace_memory())


def _merge_again(channels: Iterable[Channel]) -> None:
    MemoryVersion.objects.current_in(channels, MemoryType.LONG_TERM).update(merged=False)


@transaction.atomic
def set_opt_in(channel: Channel, *, by: User | None, on: bool) -> bool:
    """Let a private or shared channel's long-term text into the workspace's memory, or stop that.

    Adds an audit event. Returns False if nothing changes: a public channel always feeds the
    workspace's memory, a direct message never does.
    """
    optional = Q(kind=Channel.Kind.PRIVATE) | Q(kind=Channel.Kind.PUBLIC, is_shared=True)
    locked = Channel.objects.select_for_update(no_key=True).filter(optional, pk=channel.pk)
    changed = locked.filter(in_workspace_memory=not on).first()
    if changed is None:
        return False
    _save_opt_in(channel, by=by, on=on)
    if on:
        _merge_again([channel])
    else:
        withdraw_from_workspace(channel)
    return True


def _save_opt_in(channel: Channel, *, by: User | None, on: bool) -> None:
    channel.update_fields({"in_workspace_memory": on})
    AuditEvent.objects.record(
        "channel_opt_in" if on else "channel_opt_out",
        by=by,
        workspace=channel.workspace,
        subject=f"channel {channel.pk}",
    )


def _withdraw_proposals(jobs: JobQuerySet) -> None:
    jobs.proposed().supersede()


def _lock_memories(memories: Iterable[Memory]) -> list[Memory]:
    """Lock memories in a fixed order. A job that closes later sees the channel as it is now."""
    locked = sorted(memories, key=lambda memory: memory.pk)
    for memory in locked:
        memory.lock()
    return locked


def _versions_from_channel(memory: Memory, channel: Channel) -> set[int]:
    """Return the versions of a workspace's memory that rest on the channel, or grew from such a one.

    A model's version without a job may rest on any channel.
    """
    inputs = JobInput.objects.filter(job__memory=memory, version__memory__channel=channel)
    jobs = set(inputs.values_list("job", flat=True))
    lines = Line.objects.filter(version__memory=memory, sources__channel=channel)
    matches = set(lines.values_list("version", flat=True))
    rows = memory.versions.order_by("number").values_list(
        "pk", "job", "base", "restored_from", "origin"
    )
    for pk, job, base, restored_from, origin in rows:
        is_untraced = job is None and origin == Origin.MODEL
        if is_untraced or job in jobs or base in matches or restored_from in matches:
            matches.add(pk)
    return matches


def _versions_from_private_days(channel: Channel, since: datetime) -> set[int]:
    """Return the channel's versions that rest on private messages.

    Versions that a person wrote, or whose inputs are unknown, count if they are newer than `since`.
    """
    private = channel.messages.filter(was_private=True)
    segments = set(private.values_list("segment", flat=True)) - {None}
    threads = set(private.exclude(thread_ts="").values_list("thread_ts", flat=True))
    lines = Line.objects.filter(version__memory__channel=channel, sources__in=private)
    matches = set(lines.values_list("version", flat=True))
    inputs: dict[int, set[int]] = {}
    rows = JobInput.objects.filter(job__memory__channel=channel)
    for job, key in rows.values_list("job", "version"):
        inputs.setdefault(job, set()).add(key)
    # With disabled history a version is made of all messages in the window.
    has_history = channel.workspace.memory_settings.history_enabled
    versions = MemoryVersion.objects.filter(memory__channel=channel)
    for version in versions.select_related("memory").defer("content").order_by("pk"):
        is_untraced = (
            version.is_by_person
            or version.job_id is None
            or version.provisional
            or (version.segment_id is not None and not has_history)
        )
        if (
            version.segment_id in segments
            or version.memory.thread_ts in threads
            or {version.base_id, version.restored_from_id} & matches
            or inputs.get(version.job_id or 0, set()) & matches
            or (is_untraced and version.updated_at >= since)
        ):
            matches.add(version.pk)
    return matches


def _restrict(versions: Iterable[MemoryVersion], audience: str) -> None:
    """Give versions a smaller audience. Their memories then show the newest remaining version."""
    rows = MemoryVersion.objects.filter(pk__in=[version.pk for version in versions])
    memories = list(Memory.objects.filter(versions__in=rows).distinct())
    rows.exclude(audience=Audience.NOBODY).update(audience=audience)
    for memory in memories:
        memory.update_current()
