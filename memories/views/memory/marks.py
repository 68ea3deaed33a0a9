"""What a reader has not seen: the counts in the navigation, and the memories of "Catch up"."""

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
    """A channel in the navigation. ``new`` counts the versions since the reader's mark."""

    channel: Channel
    new: int

    @property
    def path(self) -> str:
        return channel_path(self.channel.workspace.slug, self.channel.slack_id)


@dataclass
class NavChannels:
    """The groups of the navigation. ``is_whole``: they contain all channels of the reader."""

    is_whole: bool = True
    loud: list[NavChannel] = field(default_factory=list)
    quiet: list[NavChannel] = field(default_factory=list)
    archived: list[NavChannel] = field(default_factory=list)

    @property
    def rows(self) -> list[NavChannel]:
        return [*self.loud, *self.quiet, *self.archived]

    @property
    def channels(self) -> list[Channel]:
        return [row.channel for row in self.rows]

    @property
    def is_empty(self) -> bool:
        return not (self.loud or self.archived)


def followed(workspace: Workspace, reader: Reader) -> MemoryQuerySet:
    """Return the memories of "Catch up": the workspace's long-term memory, and one a channel.

    A channel has its short-term memory there as long as it has no long-term text.
    """
    return (
        Memory.objects.visible_to(reader)
        .filter(workspace=workspace, current__isnull=False)
        .exclude(scope=MemoryScope.THREAD)
        .exclude(scope=MemoryScope.WORKSPACE, memory_type=MemoryType.SHORT_TERM)
        .prefer_long_term()
    )


def with_marks(memories: MemoryQuerySet, reader: Reader) -> list[Memory]:
    """Load memories with the reader's marks, newest first. One query, which reads no texts."""
    return sorted(
        with_seen(memories, reader.user_id).with_current_dates(), key=sort_key, reverse=True
    )


def load_keys(memories: MemoryQuerySet) -> list[tuple[int, int]]:
    """Return the `sort_key` of each memory, newest first, without the rows."""
    has_period = Q(current__until_us__gt=0, current__origin=Origin.MODEL)
    written_at = Case(
        When(has_period, then=None), default=F("current__created_at"), output_field=DateTimeField()
    )
    rows = memories.order_by().values_list("pk", "current__until_us", written_at)
    keys = ((to_micros(at) if at else until_us, pk) for pk, until_us, at in rows)
    return sorted(keys, reverse=True)


def sort_key(memory: Memory) -> tuple[int, int]:
    """Return the end of the text's period, or the time of a person's edit, and the primary key."""
    has_period = memory.until_us and memory.origin == Origin.MODEL
    return memory.until_us if has_period else to_micros(memory.written_at), memory.pk


def nav_channels(
    channels: Iterable[Channel], memories: Iterable[Memory], now: datetime, *, is_whole: bool
) -> NavChannels:
    """Group channels by their news, without a query.

    Quiet channels are loud if there are no others.
    """
    by_channel = {memory.channel_id: memory for memory in memories}
    nav = NavChannels(is_whole)
    for channel in channels:
        memory = by_channel.get(channel.pk)
        new = memory.news if memory else 0
        latest_us = sort_key(memory)[0] if memory else 0
        if channel.is_archived:
            group = nav.archived
        else:
            group = nav.quiet if is_quiet(new, latest_us, now) else nav.loud
        group.append(NavChannel(channel, new))
    if not nav.loud:
        nav.loud, nav.quiet = nav.quiet, []
    return nav
