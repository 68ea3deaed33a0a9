"""What is new to a reader, as Catch up shows it: one entry a memory, and what deserves a look.

However many entries there are, it takes the same number of queries.
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
from memories.rules.ingest.invisible import mark_invisible
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
from memories.views.memory.marks import keys_of, with_marks
from memories.views.memory.shown import ShownLine, ShownVersion, show, with_origin
from memories.views.paths import card_path

LOOKED_THROUGH = 200  # memories, for questions without an answer


@dataclass(frozen=True)
class Came:
    """A line that is new, or reads otherwise than before; ``line`` has its sources."""

    row: DiffRow
    line: ShownLine | None


@dataclass
class Entry:
    """A memory whose text changed: ``version`` is the current one, ``base`` the one it is held
    against, None when the reader saw none. ``is_folded``: just marked, so one line tells of it."""

    memory: Memory
    version: MemoryVersion
    base: MemoryVersion | None
    is_folded: bool = False
    shown: ShownVersion | None = None
    messages: int = 0

    @cached_property
    def rows(self) -> list[DiffRow]:
        return compare_unmoved(self.base.content if self.base else "", self.version.content)

    @cached_property
    def came(self) -> list[Came]:
        lines = {line.text: line for line in self.shown.lines} if self.shown else {}
        rows = (row for row in self.rows if row.kind is not ChangeKind.REMOVED)
        return [Came(row, lines.get(mark_invisible(row.after))) for row in rows]

    @cached_property
    def removed_rows(self) -> list[DiffRow]:
        """What is not there any more in the words that it had."""
        return [row for row in self.rows if row.kind is not ChangeKind.ADDED]

    @property
    def loses_much(self) -> bool:
        return self.base is not None and loses_many_lines(self.base.content, self.rows)


@dataclass(frozen=True)
class Look:
    """Something that a person should see: ``what`` is put_back, lost, question, proposal or
    quarantine, with its number of lines where they count."""

    what: str
    href: str
    memory: Memory | None = None
    n: int = 0


@dataclass
class Catalogue:
    """What changed, newest first: ``keys`` (`marks.key_of`) of all of it, entries of the newest of
    it; ``digest`` is the workspace's own."""

    keys: list[tuple[int, int]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    digest: Entry | None = None

    @property
    def all(self) -> list[Entry]:
        return [*([self.digest] if self.digest else []), *self.entries]


def catalogue(
    place: WorkspaceContext,
    since: Since,
    folded: int | None = None,
    *,
    cursor: tuple[int, int] | None,
    most: int,
) -> Catalogue:
    """What changed since then, behind a ``cursor``, and what was ``folded`` (the key of a memory) a
    moment ago. The texts of the ``most`` newest are read."""
    if since.us is None:
        changed = unseen_memories(place.followed, place.reader.user_id)
    else:
        changed = place.followed.filter(current__created_at__gt=from_micros(since.us))
    if folded is not None:
        changed |= place.followed.filter(pk=folded)
    keys = keys_of(changed.filter(channel__isnull=False))
    if cursor is not None:
        keys = [key for key in keys if key < cursor]
    digest = changed.filter(channel__isnull=True)
    shown = Q(pk__in=[pk for _at, pk in keys[:most]]) | Q(pk__in=digest.values("pk"))
    listing = Catalogue(keys)
    for entry in entries_of(
        with_marks(place.followed.filter(shown), place.reader), place, since, folded
    ):
        if entry.memory.channel_id is None:
            listing.digest = entry
        else:
            listing.entries.append(entry)
    return listing


def entries_of(
    memories: Sequence[Memory], place: WorkspaceContext, since: Since, folded: int | None = None
) -> list[Entry]:
    """Two queries: which versions they are held against, and the texts."""
    bases = _bases(memories, place, since)
    version_ids = {memory.current_id for memory in memories} | set(bases.values())
    versions = {
        version.pk: version
        for version in with_origin(
            MemoryVersion.objects.filter(pk__in=[pk for pk in version_ids if pk is not None])
        )
    }
    return [
        Entry(
            memory,
            versions[memory.current_id or 0],
            versions.get(bases.get(memory.pk) or 0),
            is_folded=memory.pk == folded and not memory.news,
        )
        for memory in memories
        if memory.current_id in versions  # a text may be withdrawn at any moment
    ]


def _bases(
    memories: Sequence[Memory], place: WorkspaceContext, since: Since
) -> dict[int, int | None]:
    """By memory, the version that this reader saw last, or could read then. One that they may not
    read any more is passed over for the one before it."""
    versions = (
        MemoryVersion.objects.visible_to(place.reader).with_text().filter(memory=OuterRef("pk"))
    )
    if since.us is None:
        seen = versions.filter(number__lte=OuterRef("seen")).order_by("-number")
    else:
        seen = versions.filter(created_at__lte=from_micros(since.us))
        seen = seen.order_by("-until_us", "-number")
    rows = Memory.objects.filter(pk__in=[memory.pk for memory in memories])
    rows = with_seen(rows, place.reader.user_id).annotate(base=Subquery(seen.values("pk")[:1]))
    return dict(rows.values_list("pk", "base"))  # type: ignore[misc]


def fill(entries: Iterable[Entry], place: WorkspaceContext, since: Since) -> None:
    """What only those on a page need: lines with sources, and how much was said. Four queries."""
    page_entries = list(entries)
    if not page_entries:
        return
    shown = show([entry.version for entry in page_entries], place)
    message_counts = _message_counts(page_entries, place, since)
    for entry, shown_version in zip(page_entries, shown, strict=True):
        entry.shown = shown_version
        entry.messages = message_counts.get(entry.memory.channel_id, 0)


def _message_counts(
    entries: Iterable[Entry], place: WorkspaceContext, since: Since
) -> dict[int | None, int]:
    """By channel, the messages behind the period that the base covers, or since the moment."""
    later = Q(pk__in=[])
    for entry in entries:
        covered_us = entry.base.until_us if entry.base else 0
        after_us = covered_us if since.us is None else since.us
        later |= Q(channel=entry.memory.channel_id, micros__gt=after_us)
    messages = Message.objects.visible_to(place.reader).filter(
        later, state=Message.State.LIVE, is_notice=False
    )
    counted = messages.order_by().values("channel").annotate(n=Count("pk"))
    return dict(counted.values_list("channel", "n"))


def looks_of(
    listing: Catalogue, place: WorkspaceContext, since: Since, now: datetime
) -> list[Look]:
    """What to look at before reading on; four queries."""
    looks = _put_back(listing.all, place, since)
    for entry in listing.all:
        if entry.base is not None and entry.loses_much:
            href = reverse("versions-compare", args=[entry.base.pk, entry.version.pk])
            removed_lines = sum(row.kind is ChangeKind.REMOVED for row in entry.rows)
            looks.append(Look("lost", href, entry.version.memory, removed_lines))
    looks += _unanswered(place, now)
    looks += _proposed(place)
    if place.can_edit and place.held_back:
        href = reverse("quarantine-index", args=[place.workspace.slug])
        looks.append(Look("quarantine", href, n=place.held_back))
    return looks


def _put_back(entries: Sequence[Entry], place: WorkspaceContext, since: Since) -> list[Look]:
    """Lines of people that a model had lost since then; of what was never seen, in the current
    version. The newest version of each memory tells."""
    by_key = {entry.memory.pk: entry.version.memory for entry in entries if not entry.is_folded}
    mark = Seen.objects.filter(memory=OuterRef("memory"), user=place.reader.user_id)
    versions = (
        MemoryVersion.objects.visible_to(place.reader)
        .filter(memory__in=list(by_key))
        .exclude(put_back=[])
        .annotate(seen=Coalesce(Subquery(mark.values("number")), Value(0)))
    )
    if since.us is None:
        is_new = Q(seen__gt=0, number__gt=F("seen")) | Q(seen=0, current_of__isnull=False)
    else:
        is_new = Q(created_at__gt=from_micros(since.us))
    rows = versions.filter(is_new).order_by("number").values_list("memory", "pk", "put_back")
    newest = {
        memory: Look(
            "put_back", reverse("versions-detail", args=[pk]), by_key[memory], len(put_back)
        )
        for memory, pk, put_back in rows
    }
    return list(newest.values())


def _unanswered(place: WorkspaceContext, now: datetime) -> list[Look]:
    """Questions that have stood for long in the texts that hold now: nothing that was said since
    has answered them. Of the memories that changed last."""
    newest = place.followed.order_by("-current")[:LOOKED_THROUGH]
    memories = {memory.current_id: memory for memory in newest}
    stated_in = MemoryVersion.objects.filter(
        memory=OuterRef("version__memory"), number=OuterRef("since")
    )
    lines = (
        Line.objects.filter(version__in=list(memories), version__memory__current=F("version"))
        .annotate(asked_at=Subquery(stated_in.values("created_at")[:1]))
        .filter(asked_at__lte=now - UNANSWERED_AFTER, masked=False)
        .order_by("version", "position")
    )
    open_lines = Counter(
        version
        for version, text in lines.values_list("version", "text")
        if has_question(words_of(text))
    )
    asking = with_places((memories[key] for key in memories if open_lines.get(key or 0)), place)
    return [
        Look("question", card_path(memory), memory, open_lines[memory.current_id or 0])
        for memory in asking
    ]


def with_places(memories: Iterable[Memory], place: WorkspaceContext) -> list[Memory]:
    """The memories with the rows that their names are told from. One query."""
    loaded = list(memories)
    keys = {memory.channel_id for memory in loaded if memory.channel_id}
    rows = place.placed(place.readable_channels.filter(pk__in=keys))
    channels = {channel.pk: channel for channel in rows}
    for memory in loaded:
        memory.workspace = place.workspace
        memory.channel = channels.get(memory.channel_id or 0)
    return loaded


def _proposed(place: WorkspaceContext) -> list[Look]:
    """Texts that wait for a person's word, over the text that stands now."""
    proposed = Job.objects.of_workspace(place.workspace).proposed()
    if not proposed.exists():  # mostly so, and who may read them is the longest rule there is
        return []
    restricted = Q(read__version__audience__in=("members", "nobody"))
    waiting = (
        proposed.visible_to(place.reader)
        .filter(Q(base=F("memory__current")) | Q(trigger__reason=REBUILD))
        .exclude(restricted)
        .with_memory()
        .order_by("memory", "-pk")
    )
    by_memory = {job.memory_id: job.memory for job in waiting}
    return [
        Look("proposal", reverse("proposals-detail", args=[key]), memory)
        for key, memory in by_memory.items()
    ]
