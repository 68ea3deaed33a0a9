"""How far a reader has caught up: what the navigation counts, and what Catch up starts from."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Case, DateTimeField, F, Q, When

from memories.models import Channel, Memory, Reader, Workspace
from memories.models.memory.memories import MemoryQuerySet
from memories.models.memory.seen import with_seen
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.catch_up import is_quiet
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin
from memories.views.paths import channel_path


@dataclass(frozen=True)
class NavChannel:
    """``new`` counts the versions since the one that was last seen."""

    channel: Channel
    new: int

    @property
    def path(self) -> str:
        return channel_path(self.channel.workspace.slug, self.channel.slack_id)


@dataclass
class NavChannels:
    """The channels by how much they are to this reader. ``is_whole``: the reader may read no others."""

    is_whole: bool = True
    loud: list[NavChannel] = field(default_factory=list)
    quiet: list[NavChannel] = field(default_factory=list)
    archived: list[NavChannel] = field(default_factory=list)

    @property
    def channels(self) -> list[Channel]:
        return [row.channel for row in (*self.loud, *self.quiet, *self.archived)]

    @property
    def is_empty(self) -> bool:
        return not (self.loud or self.archived)


def followed(workspace: Workspace, reader: Reader) -> MemoryQuerySet:
    """What a reader catches up with: of each channel they may read the long-term memory, or the
    short-term one as long as there is no other, and the workspace's own."""
    return (
        Memory.objects.visible_to(reader)
        .filter(workspace=workspace, current__isnull=False)
        .exclude(scope=MemoryScope.THREAD)
        .exclude(scope=MemoryScope.WORKSPACE, memory_type=MemoryType.SHORT_TERM)
        .prefer_long_term()
    )


def with_marks(memories: MemoryQuerySet, reader: Reader) -> list[Memory]:
    """These with how much of them is new to the reader, newest first. One query, which reads no
    texts."""
    return sorted(
        with_seen(memories, reader.user_id).with_current_dates(), key=key_of, reverse=True
    )


def keys_of(memories: MemoryQuerySet) -> list[tuple[int, int]]:
    """`key_of` of each, newest first, without the rows: of all that changed a page shows few."""
    is_dated = Q(current__until_us__gt=0, current__origin=Origin.MODEL)
    written_at = Case(
        When(is_dated, then=None), default=F("current__created_at"), output_field=DateTimeField()
    )
    rows = memories.order_by().values_list("pk", "current__until_us", written_at)
    keys = ((to_micros(at) if at else until_us, pk) for pk, until_us, at in rows)
    return sorted(keys, reverse=True)


def key_of(memory: Memory) -> tuple[int, int]:
    """Where it stands among the others: the end of the period that its text covers, or when a
    person wrote it."""
    is_dated = memory.until_us and memory.origin == Origin.MODEL
    return memory.until_us if is_dated else to_micros(memory.written_at), memory.pk


def nav_channels(
    channels: Iterable[Channel], memories: Iterable[Memory], now: datetime, *, is_whole: bool
) -> NavChannels:
    """No query. Where nothing is loud nothing is folded."""
    by_channel = {memory.channel_id: memory for memory in memories}
    nav = NavChannels(is_whole)
    for channel in channels:
        memory = by_channel.get(channel.pk)
        new = memory.news if memory else 0
        latest_us = key_of(memory)[0] if memory else 0
        if channel.is_archived:
            group = nav.archived
        else:
            group = nav.quiet if is_quiet(new, latest_us, now) else nav.loud
        group.append(NavChannel(channel, new))
    if not nav.loud:
        nav.loud, nav.quiet = nav.quiet, []
    return nav
