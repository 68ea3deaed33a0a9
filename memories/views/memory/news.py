"""The news of "Catch up": the changed texts, and what needs attention.

The number of queries does not depend on the number of texts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from django.db.models import Count, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from django.urls import reverse

from memories.models import Job, Line, Memory, MemoryVersion, Message, Seen
from memories.models.generate.jobs import REBUILD
from memories.models.memory.seen import unseen_memories, with_seen
from memories.rules.generate.salience import has_question
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.catch_up import (
    UNANSWERED_AFTER,
    Since,
    compare_unmoved,
    loses_many_lines,
)
from memories.rules.memory.compare import ChangeKind, DiffRow
from memories.rules.memory.lines import words_of
from memories.views.access.access import WorkspaceContext
from memories.views.memory.display import (
    ComparedRow,
    VersionDisplay,
    add_lines,
    display_versions,
    for_display,
)
from memories.views.memory.marks import load_keys, with_marks
from memories.views.paths import card_path

MEMORIES_WITH_QUESTIONS = 200  # of which memories the lines are searched for open questions


@dataclass
class NewsEntry:
    """A memory with a new text.

    ``version`` is the current one. ``base`` is the version that it is compared with, None if the
    reader saw none. A folded entry was marked as seen just now.
    """

    memory: Memory
    version: MemoryVersion
    base: MemoryVersion | None
    is_folded: bool = False
    shown: VersionDisplay | None = None
    messages: int = 0  # new ones

    @cached_property
    def rows(self) -> list[DiffRow]:
        return compare_unmoved(self.base.content if self.base else "", self.version.content)

    @cached_property
    def new_rows(self) -> list[ComparedRow]:
        """The added and changed rows, with the sources of their lines."""
        rows = (row for row in self.rows if row.kind is not ChangeKind.REMOVED)
        return add_lines(rows, (), self.shown.lines if self.shown else ())

    @cached_property
    def removed_rows(self) -> list[DiffRow]:
        """The removed and changed rows."""
        return [row for row in self.rows if row.kind is not ChangeKind.ADDED]

    @property
    def loses_many_lines(self) -> bool:
        return self.base is not None and loses_many_lines(self.base.content, self.rows)


@dataclass(frozen=True)
class AttentionItem:
    """Something that a person should look at.

    ``kind`` is put_back, lost, question, proposal or quarantine. ``n`` is its number of lines, if
    they count.
    """

    kind: str
    href: str
    memory: Memory | None = None
    n: int = 0


@dataclass
class News:
    """The changed memories of channels, newest first, and ``digest``: the workspace's own memory.

    ``keys`` are the sort keys (`marks.sort_key`) of all of them; ``entries`` are the newest ones.
    """

    keys: list[tuple[int, int]]
    entries: list[NewsEntry] = field(default_factory=list)
    digest: NewsEntry | None = None

    @property
    def all_entries(self) -> list[NewsEntry]:
        return [*([self.digest] if self.digest else []), *self.entries]


def load_news(
    place: WorkspaceContext,
    since: Since,
    folded: int | None = None,
    *,
    cursor: tuple[int, int] | None,
    limit: int,
) -> News:
    """Load the memories that changed, behind a ``cursor``, with the texts of the ``limit`` newest.

    ``folded`` is the primary key of a memory to include although it is seen.
    """
    if since.us is None:
        changed = unseen_memories(place.followed, place.reader.user_id)
    else:
        changed = place.followed.filter(current__created_at__gt=from_micros(since.us))
    if folded is not None:
        changed |= place.followed.filter(pk=folded)
    keys = load_keys(changed.filter(channel__isnull=False))
    if cursor is not None:
        keys = [key for key in keys if key < cursor]
    digest = changed.filter(channel__isnull=True)
    shown = Q(pk__in=[pk for _at, pk in keys[:limit]]) | Q(pk__in=digest.values("pk"))
    memories = with_marks(place.followed.filter(shown), place.reader)
    news = News(keys)
    for entry in load_entries(memories, place, since, folded):
        if entry.memory.channel_id is None:
            news.digest = entry
        else:
            news.entries.append(entry)
    return news


def load_entries(
    memories: Sequence[Memory], place: WorkspaceContext, since: Since, folded: int | None = None
) -> list[NewsEntry]:
    """Load the current texts and their bases. Two queries."""
    bases = _load_base_ids(memories, place, since)
    version_ids = {memory.current_id for memory in memories} | set(bases.values())
    versions = for_display(
        MemoryVersion.objects.filter(pk__in=[pk for pk in version_ids if pk is not None])
    )
    by_pk = {version.pk: version for version in versions}
    return [
        NewsEntry(
            memory,
            by_pk[memory.current_id or 0],
            by_pk.get(bases.get(memory.pk) or 0),
            is_folded=memory.pk == folded and not memory.news,
        )
        for memory in memories
        if memory.current_id in by_pk  # a text may be withdrawn between two queries
    ]


def _load_base_ids(
    memories: Sequence[Memory], place: WorkspaceContext, since: Since
) -> dict[int, int | None]:
    """Return the key of the version that the reader saw last, or could read then, by memory.

    A version that they may no longer read is replaced by the one before it.
    """
    versions = (
        MemoryVersion.objects.visible_to(place.reader).with_text().filter(memory=OuterRef("pk"))
    )
    if since.us is None:
        seen = versions.filter(number__lte=OuterRef("seen")).order_by("-number")
    else:
        seen = versions.filter(created_at__lte=from_micros(since.us))
        seen = seen.order_by("-until_us", "-number")
    rows = Memory.objects.filter(pk__in=[memory.pk for memory in memories])
    marked = with_seen(rows, place.reader.user_id).annotate(base=Subquery(seen.values("pk")[:1]))
    return dict(marked.values_list("pk", "base"))


def load_details(entries: Sequence[NewsEntry], place: WorkspaceContext, since: Since) -> None:
    """Load the lines and message counts of the entries on a page. Four queries."""
    if not entries:
        return
    displays = display_versions([entry.version for entry in entries], place)
    message_counts = _count_messages(entries, place, since)
    for entry, display in zip(entries, displays, strict=True):
        entry.shown = display
        entry.messages = message_counts.get(entry.memory.channel_id, 0)


def _count_messages(
    entries: Iterable[NewsEntry], place: WorkspaceContext, since: Since
) -> dict[int | None, int]:
    """Count the messages since the end of the base's period, or since the moment, by channel."""
    later = Q(pk__in=[])
    for entry in entries:
        base_until_us = entry.base.until_us if entry.base else 0
        after_us = base_until_us if since.us is None else since.us
        later |= Q(channel=entry.memory.channel_id, micros__gt=after_us)
    messages = Message.objects.visible_to(place.reader).filter(
        later, state=Message.State.LIVE, is_notice=False
    )
    counts = messages.order_by().values("channel").annotate(n=Count("pk"))
    return dict(counts.values_list("channel", "n"))


def find_attention_items(
    news: News, place: WorkspaceContext, since: Since, now: datetime
) -> list[AttentionItem]:
    """Return what a reader should look at first. Four queries."""
    items = _find_put_back(news.all_entries, place, since)
    for entry in news.all_entries:
        if entry.base is not None and entry.loses_many_lines:
            href = reverse("versions-compare", args=[entry.base.pk, entry.version.pk])
            removed_count = sum(row.kind is ChangeKind.REMOVED for row in entry.rows)
            items.append(AttentionItem("lost", href, entry.version.memory, removed_count))
    items += _find_unanswered(place, now)
    items += _find_proposals(place)
    if place.can_edit and place.quarantined_count:
        href = reverse("quarantine-index", args=[place.workspace.slug])
        items.append(AttentionItem("quarantine", href, n=place.quarantined_count))
    return items


def _find_put_back(
    entries: Sequence[NewsEntry], place: WorkspaceContext, since: Since
) -> list[AttentionItem]:
    """Return new versions in which lines of people were dropped and put back.

    There is one item a memory, for its newest version. If the reader saw no version, only the
    current one counts.
    """
    memories = {entry.memory.pk: entry.version.memory for entry in entries if not entry.is_folded}
    mark = Seen.objects.filter(memory=OuterRef("memory"), user=place.reader.user_id)
    versions = (
        MemoryVersion.objects.visible_to(place.reader)
        .filter(memory__in=list(memories))
        .exclude(put_back=[])
        .annotate(seen=Coalesce(Subquery(mark.values("number")), Value(0)))
    )
    if since.us is None:
        is_new = Q(seen__gt=0, number__gt=F("seen")) | Q(seen=0, current_of__isnull=False)
    else:
        is_new = Q(created_at__gt=from_micros(since.us))
    rows = versions.filter(is_new).order_by("number").values_list("memory", "pk", "put_back")
    newest = {
        memory: AttentionItem(
            "put_back", reverse("versions-detail", args=[pk]), memories[memory], len(put_back)
        )
        for memory, pk, put_back in rows
    }
    return list(newest.values())


def _find_unanswered(place: WorkspaceContext, now: datetime) -> list[AttentionItem]:
    """Return the current texts with questions that are open for over 7 days."""
    newest = place.followed.order_by("-current")[:MEMORIES_WITH_QUESTIONS]
    memories = {memory.current_id: memory for memory in newest}
    first_version = MemoryVersion.objects.filter(
        memory=OuterRef("version__memory"), number=OuterRef("since")
    )
    lines = (
        Line.objects.filter(version__in=list(memories), version__memory__current=F("version"))
        .annotate(asked_at=Subquery(first_version.values("created_at")[:1]))
        .filter(asked_at__lte=now - UNANSWERED_AFTER, masked=False)
        .order_by("version", "position")
    )
    counts = Counter(
        version
        for version, text in lines.values_list("version", "text")
        if has_question(words_of(text))
    )
    asking = [memory for key, memory in memories.items() if counts.get(key or 0)]
    return [
        AttentionItem("question", card_path(memory), memory, counts[memory.current_id or 0])
        for memory in with_channels(asking, place)
    ]


def with_channels(memories: Iterable[Memory], place: WorkspaceContext) -> list[Memory]:
    """Set the workspace and channel of memories, for their names. One query."""
    loaded = list(memories)
    keys = {memory.channel_id for memory in loaded if memory.channel_id}
    rows = place.with_workspace(place.readable_channels.filter(pk__in=keys))
    channels = {channel.pk: channel for channel in rows}
    for memory in loaded:
        memory.workspace = place.workspace
        memory.channel = channels.get(memory.channel_id or 0)
    return loaded


def _find_proposals(place: WorkspaceContext) -> list[AttentionItem]:
    """Return the proposals for current texts."""
    proposed = Job.objects.of_workspace(place.workspace).proposed()
    if not proposed.exists():  # the usual case, and `visible_to` is a slow query
        return []
    waiting = (
        proposed.visible_to(place.reader)
        .filter(Q(base=F("memory__current")) | Q(trigger__reason=REBUILD))
        .exclude(read__version__audience__in=("members", "nobody"))
        .with_memory()
        .order_by("memory", "-pk")
    )
    memories = {job.memory_id: job.memory for job in waiting}
    return [
        AttentionItem("proposal", reverse("proposals-detail", args=[key]), memory)
        for key, memory in memories.items()
    ]
