"""The channels of a workspace, and which of them a context within a budget reads."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.db.models import Exists, FilteredRelation, OuterRef, Q, QuerySet

from memories.models import Channel, Line, Memory, MemoryVersion, Message, Reader, Workspace
from memories.models.access.audience import member_channels, readable_workspaces
from memories.models.access.kept_sql import subquery
from memories.models.search.documents import MESSAGE
from memories.rules.context.contents import find_channel
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryScope
from memories.rules.search.tokenizer import Audience, audience_key

NEWEST = 100  # memories that changed last: a budget chooses lines of their channels
PROTECTED = 50  # the same for memories with lines that people wrote or pinned


class ReadableChannels:
    """The channels of a workspace that a reader may read, with their current memories. One query.

    ``by_key`` holds ids and names by primary key, in its order. ``opted_in`` names the channels
    whose text is in the workspace's memory by opt-in, also unreadable ones. With ``at`` the current
    memories are those of that time, which takes another query.
    """

    def __init__(self, workspace: Workspace, reader: Reader, at: datetime | None) -> None:
        self.by_key: dict[int, tuple[str, str]] = {}
        opted_in: dict[int, str] = {}
        self._heads: list[tuple[int, int, bool]] = []  # current version, channel, is protected
        self._is_narrowed = reader.is_narrowed
        self._workspace_key: int | None = None
        self._member_of: dict[int, bool] = {}  # whether there are messages for members alone
        for row in _rows(workspace, reader):
            if row.in_workspace_memory:
                opted_in[row.pk] = row.name
            if not row.is_readable:
                continue
            self.by_key[row.pk] = (row.slack_id, row.name)
            if row.heads__current is not None and at is None:
                self._heads.append((row.heads__current, row.pk, row.is_protected))
            if row.knows_workspace:
                self._workspace_key = workspace.pk
            if row.is_member:
                self._member_of[row.pk] = row.has_private_messages
        self.opted_in = sorted(opted_in.values())
        if at is not None:
            self._heads = [head for head in _heads_at(workspace, at) if head[1] in self.by_key]
        self._heads.sort(reverse=True)

    @property
    def names(self) -> dict[str, str]:
        """Names by Slack id."""
        return dict(self.by_key.values())

    def find(self, channel: str) -> int:
        """Return the key of a channel given by id or by name. Raises NoSuchChannel."""
        slack_id = find_channel(self.names, channel)
        return next(pk for pk, (key, _) in self.by_key.items() if key == slack_id)

    def newest(self) -> set[int]:
        """Return the channels whose memories changed last, also of those with protected lines."""
        protected = [head for head in self._heads if head[2]]
        return {channel for _, channel, _ in (*self._heads[:NEWEST], *protected[:PROTECTED])}

    def count_others(self, channels: Collection[int]) -> int:
        """Return the number of channels with a memory that are not among these."""
        return len({channel for _, channel, _ in self._heads}.difference(channels))

    def message_keys(self) -> list[str]:
        """Return the keys of the reader's audiences in the search index of messages."""
        keys: Iterable[tuple[Audience, int]] = ((Audience.CHANNEL, pk) for pk in self._member_of)
        if self._is_narrowed:
            keys = ((Audience.CHANNEL, pk) for pk in self.by_key)
        elif self._workspace_key is not None:
            keys = [(Audience.WORKSPACE, self._workspace_key)]
        private = ((Audience.MEMBERS, pk) for pk, has_any in self._member_of.items() if has_any)
        return [audience_key(MESSAGE, *key) for key in (*keys, *private)]


def _heads_at(workspace: Workspace, at: datetime) -> QuerySet[MemoryVersion, tuple[int, int, bool]]:
    """Return the versions of channels that were current at a time, as `ReadableChannels` has them."""
    memories = Memory.objects.filter(workspace=workspace, scope=MemoryScope.CHANNEL)
    protected = Line.objects.pinned_or_by_person().filter(version=OuterRef("pk"))
    current = MemoryVersion.objects.with_text().current_at(memories, at)
    return current.values_list("pk", "memory__channel", Exists(protected))


def _rows(workspace: Workspace, reader: Reader) -> Iterable[Any]:
    """Return a row for each current memory of a channel, or one for a channel without."""
    readable = Q(pk__in=subquery(Channel.objects.visible_to, reader))
    private = Message.objects.filter(channel=OuterRef("pk"), was_private=True)
    protected = Line.objects.pinned_or_by_person().filter(version=OuterRef("heads__current"))
    heads = Q(memories__scope=MemoryScope.CHANNEL, memories__current__isnull=False)
    return (
        workspace.channels.filter(readable | Q(in_workspace_memory=True))
        .order_by("pk")
        .annotate(
            heads=FilteredRelation("memories", condition=heads),
            is_readable=readable,
            is_member=Q(pk__in=subquery(member_channels, reader)),
            knows_workspace=Q(workspace__in=subquery(readable_workspaces, reader)),
            has_private_messages=~Q(kind=Channel.Kind.PUBLIC) | Exists(private),
            is_protected=Exists(protected),
        )
        .values_list(
            *("pk", "slack_id", "name", "in_workspace_memory", "heads__current"),
            *("is_readable", "is_member", "knows_workspace", "has_private_messages"),
            "is_protected",
            named=True,
        )
    )


def precedes_messages(workspace: Workspace, at: datetime) -> bool:
    """Return whether the hub got all messages of a workspace later, some of them older than ``at``."""
    messages = Message.objects.filter(channel__workspace=workspace)
    first = messages.order_by("pk").values_list("stored_at", flat=True).first()
    is_later = first is not None and at < first
    return is_later and messages.filter(micros__lte=to_micros(at)).exists()
