"""What a reader has not seen: the counts in the navigation, and the memories of "Catch up"."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db.models import Case, DateTimeField, F, Q, Subquery, When

from memories.models import Channel, Memory, Reader, Workspace
from memories.models.memory.memories import MemoryQuerySet
from memories.models.memory.seen import with_seen
from memories.rules.ingest.timestamps import to_micros
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


def with_marks(memories: MemoryQuerySet, reader: Reader, **annotations: Subquery) -> list[Memory]:
    """Load memories with the reader's marks, newest first. One query, which reads no texts.

    ``annotations`` may refer to the marks.
    """
    marked = with_seen(memories, reader.user_id).annotate(**annotations)
    return sorted(marked.with_current_dates(), key=sort_key, reverse=True)


def load_keys(
    memories: MemoryQuerySet, followed_channels: Collection[int]
) -> list[tuple[int, int, int]]:
    """Return the keys by which "Catch up" sorts, without the rows.

    A key is 1 for a followed channel, else 0, and the `sort_key`. Followed channels come first, then
    the newest memories.
    """
    has_period = Q(current__until_us__gt=0, current__origin=Origin.MODEL)
    written_at = Case(
        When(has_period, then=None), default=F("current__created_at"), output_field=DateTimeField()
    )
    rows = memories.order_by().values_list("pk", "current__until_us", written_at, "channel")
    keys = (
        (int(channel in followed_channels), to_micros(at) if at else until_us, pk)
        for pk, until_us, at, channel in rows
    )
    return sorted(keys, reverse=True)


def sort_key(memory: Memory) -> tuple[int, int]:
    """Return the end of the text's period, or the time of a person's edit, and the primary key."""
    has_period = memory.until_us and memory.origin == Origin.MODEL
    return memory.until_us if has_period else to_micros(memory.written_at), memory.pk


def nav_channels(channels: Iterable[Channel], memories: Iterable[Memory]) -> list[NavChannel]:
    """Return the rows of the navigation, without a query."""
    news = {memory.channel_id: memory.news for memory in memories}
    return [NavChannel(channel, news.get(channel.pk, 0)) for channel in channels]
