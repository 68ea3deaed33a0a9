"""What a reader has not seen: the counts in the navigation, and the memories of "Catch up"."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import (
    Case,
    DateTimeField,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce

from memories.models import Channel, ChannelPreference, Memory, Reader
from memories.models.memory.memories import MemoryQuerySet
from memories.models.memory.seen import unseen_memories, with_seen
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.catch_up import NewsKey
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin


@dataclass(frozen=True)
class NavChannel:
    """A channel in the navigation. ``new`` counts the versions since the reader's mark."""

    pk: int
    slack_id: str
    name: str
    kind: str
    new: int

    @property
    def is_public(self) -> bool:
        return self.kind == Channel.Kind.PUBLIC


def catch_up_memories(reader: Reader, workspace: int) -> MemoryQuerySet:
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


def unmuted_memories(reader: Reader, workspace: int) -> MemoryQuerySet:
    """Return the memories of "Catch up" without those of muted channels."""
    muted = ChannelPreference.objects.with_choice(reader, ChannelPreference.Choice.MUTE)
    return catch_up_memories(reader, workspace).exclude(channel__in=muted)


# Each page executes these with `fetch`.


def unseen_keys(reader: Reader, workspace: int, limit: int) -> QuerySet[Memory, Any]:
    """Return the keys of memories with news."""
    return unseen_memories(unmuted_memories(reader, workspace), reader.user_id).values("pk")[:limit]


def preferred_channels(reader: Reader, workspace: int, limit: int) -> QuerySet[Channel, Any]:
    """Return the columns of `NavChannel` for the channels that the reader follows."""
    choices = ChannelPreference.objects.with_choice(reader, ChannelPreference.Choice.FOLLOW)
    return _nav_columns(reader, workspace, Q(pk__in=choices))[:limit]


def recent_channels(reader: Reader, workspace: int, limit: int) -> QuerySet[Channel, Any]:
    """Return the columns of `NavChannel` for the channels whose memories changed last."""
    newest = unmuted_memories(reader, workspace).filter(channel__isnull=False).order_by("-current")
    return _nav_columns(reader, workspace, Q(pk__in=newest.values("channel")[:limit]))


def first_channels(reader: Reader, workspace: int, limit: int) -> QuerySet[Channel, Any]:
    """Return the columns of `NavChannel` for the first channels by name."""
    return _nav_columns(reader, workspace, Q())[:limit]


def _nav_columns(reader: Reader, workspace: int, chosen: Q) -> QuerySet[Channel, Any]:
    memories = catch_up_memories(reader, workspace).filter(channel=OuterRef("pk"))
    news = with_seen(memories, reader.user_id).values("news")[:1]  # type: ignore[misc]
    channels = Channel.objects.visible_to(reader).filter(chosen, workspace=workspace)
    ordered = channels.order_by("is_archived", "name", "slack_id")
    return ordered.annotate(new=Coalesce(Subquery(news), Value(0))).values_list(
        "pk", "slack_id", "name", "kind", "new"
    )


def with_marks(memories: MemoryQuerySet, reader: Reader, **annotations: Subquery) -> list[Memory]:
    """Load memories with the reader's marks, newest first. One query, which reads no texts.

    ``annotations`` may refer to the marks.
    """
    marked = with_seen(memories, reader.user_id).annotate(**annotations)
    return sorted(marked.with_current_dates(), key=sort_key, reverse=True)


def load_keys(memories: MemoryQuerySet, followed_channels: Collection[int]) -> list[NewsKey]:
    """Return the keys by which "Catch up" sorts memories with a ``value``, without the rows.

    Followed channels come first, then those with the highest values, then the newest texts.
    """
    has_period = Q(current__until_us__gt=0, current__origin=Origin.MODEL)
    written_at = Case(
        When(has_period, then=None), default=F("current__created_at"), output_field=DateTimeField()
    )
    rows = memories.order_by().values_list(
        "pk", "current__until_us", written_at, "channel", "value"
    )
    keys = (
        NewsKey(int(channel in followed_channels), value, to_micros(at) if at else until_us, pk)
        for pk, until_us, at, channel, value in rows
    )
    return sorted(keys, reverse=True)


def sort_key(memory: Memory) -> tuple[int, int]:
    """Return the `text_time` of the current text, and the primary key."""
    return text_time(memory.origin, memory.until_us, memory.written_at), memory.pk


def text_time(origin: str, until_us: int, created_at: datetime) -> int:
    """Return the end of a text's period, or the time when a person saved it."""
    return until_us if until_us and origin == Origin.MODEL else to_micros(created_at)
