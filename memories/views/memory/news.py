"""The news of "Catch up": the opening, the new lines of each channel, and what needs attention.

The number of queries does not depend on the number of texts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from django.db.models import Count, Exists, F, OuterRef, Q, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memories.models import Channel, ChannelPreference, Line, Memory, MemoryVersion, Message
from memories.models.memory.memories import MemoryQuerySet
from memories.models.memory.seen import unseen_memories
from memories.rules.ingest.timestamps import from_micros, to_micros
from memories.rules.memory.briefing import NewsLine, choose_opening, count_kinds, importance_of
from memories.rules.memory.catch_up import (
    Since,
    compare_unmoved,
    loses_many_lines,
)
from memories.rules.memory.compare import ChangeKind, DiffPiece, DiffRow
from memories.rules.memory.digests import REMEMBERED_WITHIN
from memories.rules.memory.identity import MemoryType
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.display import (
    ComparedRow,
    VersionDisplay,
    add_lines,
    display_versions,
    for_display,
)
from memories.views.memory.line_display import LineDisplay
from memories.views.memory.seen import load_keys, with_marks

DIGEST_CHANNELS = 20


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
    is_followed: bool = False
    since_us: int | None = None  # the start of a period
    shown: VersionDisplay | None = None
    messages: int = 0  # new ones

    @cached_property
    def rows(self) -> list[DiffRow]:
        return compare_unmoved(self.base.content if self.base else "", self.version.content)

    @cached_property
    def new_rows(self) -> list[ComparedRow]:
        """The new lines with their sources.

        In a period these are the lines with messages of the period. Since a mark they are the added and
        changed rows of the comparison.
        """
        lines = self.shown.lines if self.shown else []
        if self.since_us is not None:
            return [
                ComparedRow(
                    ChangeKind.ADDED, (DiffPiece(ChangeKind.ADDED, line.text),), new_line=line
                )
                for line in lines
                if line.at_us > self.since_us and not line.is_replaced
            ]
        rows = (row for row in self.rows if row.kind is not ChangeKind.REMOVED)
        return add_lines(rows, (), lines)

    @cached_property
    def removed_rows(self) -> list[DiffRow]:
        """The removed and changed rows since a mark."""
        if self.since_us is not None:
            return []
        return [row for row in self.rows if row.kind is not ChangeKind.ADDED]

    @cached_property
    def news_lines(self) -> list[NewsLine]:
        channel = self.memory.channel_id
        return [_news_line(row.new_line, channel) for row in self.new_rows if row.new_line]

    @property
    def counts(self) -> str:
        """The new lines by kind, in words: "2 decisions, 1 open question"."""
        return _(", ").join(count_words(kind, n) for kind, n in count_kinds(self.news_lines))

    @property
    def loses_many_lines(self) -> bool:
        return self.base is not None and loses_many_lines(self.base.content, self.rows)


@dataclass(frozen=True)
class OpeningLine:
    """A line that Catch up opens with. ``channel`` is None for a line of the workspace's memory."""

    line: LineDisplay
    channel: Channel | None

    @property
    def origin(self) -> str:
        """The person who wrote the line, and the channel: "Ann Lee, #launch"."""
        return _(", ").join(filter(None, (self.line.author, str(self.channel or ""))))


@dataclass(frozen=True)
class Briefing:
    """Catch up on one page: the opening lines, and the entries with new lines in their order."""

    news: "News"
    opening_lines: list[OpeningLine]
    entries: list[NewsEntry]


@dataclass
class News:
    """The changed memories of channels, and ``digest``: the workspace's own memory.

    ``keys`` are the sort keys (`seen.load_keys`) of all of them; ``entries`` are the first ones.
    """

    keys: list[tuple[int, int, int]]
    entries: list[NewsEntry] = field(default_factory=list)
    digest: NewsEntry | None = None

    @property
    def all_entries(self) -> list[NewsEntry]:
        return [*([self.digest] if self.digest else []), *self.entries]


def load_news(
    access: WorkspaceAccess,
    since: Since,
    folded: int | None = None,
    *,
    cursor: tuple[int, int, int] | None,
    limit: int,
) -> News:
    """Load the memories that changed, behind a ``cursor``, with the texts of the ``limit`` newest.

    ``folded`` is the primary key of a memory to include although it is seen.
    """
    if since.us is None:
        changed = unseen_memories(access.unmuted_memories, access.reader.user_id)
    else:
        changed = _with_new_lines(access, since)
    if folded is not None:
        changed |= access.unmuted_memories.filter(pk=folded)
    choices = access.preferences.items()
    follows = [channel for channel, choice in choices if choice == ChannelPreference.Choice.FOLLOW]
    keys = load_keys(changed.filter(channel__isnull=False), follows)
    if cursor is not None:
        keys = [key for key in keys if key < cursor]
    digest = changed.filter(channel__isnull=True)
    shown = Q(pk__in=[pk for *_order, pk in keys[:limit]]) | Q(pk__in=digest.values("pk"))
    news = News(keys)
    positions = {pk: position for position, (*_order, pk) in enumerate(keys)}
    for entry in load_entries(access.unmuted_memories.filter(shown), access, since, folded):
        if entry.memory.channel_id is None:
            news.digest = entry
        else:
            entry.is_followed = bool(keys[positions[entry.memory.pk]][0])
            news.entries.append(entry)
    news.entries.sort(key=lambda entry: positions[entry.memory.pk])
    return news


def _with_new_lines(access: WorkspaceAccess, since: Since) -> MemoryQuerySet:
    """Return the memories with lines after `Since.start_of_news`.

    The time of the messages counts: an import today may bring lines of last year.
    """
    start_us = since.us if since.late_us is None else since.late_us
    lines = Line.objects.filter(version=OuterRef("current"), at_us__gt=start_us, redacted=False)
    changed = access.unmuted_memories.filter(Exists(lines))
    if since.late_us is None:
        return changed
    changed = changed.alias(
        newest_us=Subquery(lines.order_by("-at_us").values("at_us")[:1]),
        known_until_us=_base(access, since, "until_us"),
    )
    late = Q(known_until_us__gt=0, newest_us__gt=F("known_until_us"))
    return changed.filter(Q(newest_us__gt=since.us) | late)


def load_entries(
    memories: MemoryQuerySet, access: WorkspaceAccess, since: Since, folded: int | None = None
) -> list[NewsEntry]:
    """Load memories with the reader's marks, their current texts and their bases. Two queries."""
    marked = with_marks(memories, access.reader, base_id=_base(access, since, "pk"))
    version_ids = {key for memory in marked for key in (memory.current_id, memory.base_id)}
    versions = for_display(
        MemoryVersion.objects.filter(pk__in=[pk for pk in version_ids if pk is not None])
    )
    by_pk = {version.pk: version for version in versions}
    entries = []
    for memory in marked:
        if memory.current_id not in by_pk:  # a text may be withdrawn between two queries
            continue
        base = by_pk.get(memory.base_id or 0)
        entries.append(
            NewsEntry(
                memory,
                by_pk[memory.current_id or 0],
                base,
                is_folded=memory.pk == folded and not memory.news,
                since_us=since.start_of_news(base.until_us if base else 0),
            )
        )
    return entries


def _base(access: WorkspaceAccess, since: Since, column: str) -> Subquery:
    """Return a column of the version of a memory that the reader saw last, or could read then.

    A version that they may no longer read is replaced by the one before it.
    """
    versions = (
        MemoryVersion.objects.visible_to(access.reader).with_text().filter(memory=OuterRef("pk"))
    )
    if since.us is None:
        seen = versions.filter(number__lte=OuterRef("seen")).order_by("-number")
    else:
        seen = versions.filter(created_at__lte=from_micros(since.us))
        seen = seen.order_by("-until_us", "-number")
    return Subquery(seen.values(column)[:1])


def load_details(entries: Sequence[NewsEntry], access: WorkspaceAccess, since: Since) -> None:
    """Load the lines and message counts of the entries on a page. Four queries."""
    if not entries:
        return
    displays = display_versions([entry.version for entry in entries], access)
    message_counts = _count_messages(entries, access, since)
    for entry, display in zip(entries, displays, strict=True):
        entry.shown = display
        entry.messages = message_counts.get(entry.memory.channel_id, 0)


def mark_new_lines(
    shown: VersionDisplay | None, access: WorkspaceAccess, since: Since | None
) -> None:
    """Set the new lines of a current text. They are all lines if the reader saw no version."""
    if shown is None or since is None:
        return
    shown.new_lines, shown.since = [], since.choice
    readable = Memory.objects.visible_to(access.reader).filter(pk=shown.version.memory_id)
    for entry in load_entries(readable, access, since):
        if entry.memory.news or not since.is_seen:
            entry.shown = shown
            shown.new_lines = [row.new_line for row in entry.new_rows if row.new_line]


def load_opening(
    entries: Sequence[NewsEntry], access: WorkspaceAccess, since: Since
) -> list[OpeningLine]:
    """Return the lines that the page opens with, oldest first. Private channels give none.

    The candidates are the new lines of the entries and, in a period, those of the workspace's short-term
    memory.
    """
    candidates = [
        OpeningLine(row.new_line, entry.version.memory.channel)
        for entry in entries
        if not entry.is_folded
        and (entry.version.memory.channel is None or entry.version.memory.channel.is_public)
        for row in entry.new_rows
        if row.new_line and not row.new_line.is_redacted
    ]
    if since.us is not None:
        versions = MemoryVersion.objects.visible_to(access.reader).filter(
            current_of__workspace=access.workspace,
            current_of__scope="workspace",
            current_of__memory_type=MemoryType.SHORT_TERM,
        )
        for display in display_versions(for_display(versions), access):
            lines = (
                line for line in display.lines if line.at_us > since.us and not line.is_redacted
            )
            candidates += [OpeningLine(line, None) for line in lines]
    candidates = _without_muted(candidates, access)
    values = [
        _news_line(item.line, item.channel.pk if item.channel else None) for item in candidates
    ]
    chosen_lines = []
    for number, i in enumerate(choose_opening(values), start=1):
        item = candidates[i]
        # One source is enough to check a sentence. The channel's row has the others.
        chips = [replace(chip, number=number) for chip in item.line.chips[:1]]
        chosen_lines.append(replace(item, line=replace(item.line, chips=chips)))
    return chosen_lines


def _without_muted(candidates: list[OpeningLine], access: WorkspaceAccess) -> list[OpeningLine]:
    """Return the lines without those of the workspace that rest on muted and private channels alone."""
    sources = [chip.message for item in candidates if not item.channel for chip in item.line.chips]
    muted = [
        pk for pk, choice in access.preferences.items() if choice == ChannelPreference.Choice.MUTE
    ]
    messages = Message.objects.filter(pk__in=sources, channel__kind=Channel.Kind.PUBLIC)
    shown = set(messages.exclude(channel__in=muted).values_list("pk", flat=True))
    return [
        item
        for item in candidates
        if item.channel
        or not item.line.chips
        or any(chip.message in shown for chip in item.line.chips)
    ]


def _news_line(line: LineDisplay, channel: int | None) -> NewsLine:
    return NewsLine(line.text, line.kind, line.at_us, channel or 0)


def most_important_first(entries: Iterable[NewsEntry]) -> list[NewsEntry]:
    """Sort the entries of followed channels before all others."""
    return sorted(
        entries, key=lambda entry: (not entry.is_followed, -importance_of(entry.news_lines))
    )


def load_briefing(access: WorkspaceAccess, since: Since, limit: int) -> Briefing:
    """Load the news of a period with at most ``limit`` channels, for texts outside of the hub."""
    news = load_news(access, since, cursor=None, limit=limit)
    load_details(news.all_entries, access, since)
    opening_lines = load_opening(news.all_entries, access, since)
    return Briefing(news, opening_lines, most_important_first(news.all_entries))


def load_digest(access: WorkspaceAccess, start: datetime) -> Briefing | None:
    """Load what a digest since ``start`` says: channels with counted lines only. None without news.

    The digest before it could not have the messages that were remembered only after ``start``.
    """
    since = Since("digest", to_micros(start), to_micros(start - REMEMBERED_WITHIN))
    briefing = load_briefing(access, since, DIGEST_CHANNELS)
    entries = [entry for entry in briefing.entries if entry.counts]
    return replace(briefing, entries=entries) if briefing.opening_lines or entries else None


def count_words(kind: str, n: int) -> str:
    words = {
        "decision": ngettext("%(n)s decision", "%(n)s decisions", n),
        "task": ngettext("%(n)s task", "%(n)s tasks", n),
        "question": ngettext("%(n)s open question", "%(n)s open questions", n),
        "status": ngettext("%(n)s status update", "%(n)s status updates", n),
        "event": ngettext("%(n)s event", "%(n)s events", n),
    }
    return words[kind] % {"n": n}


def _count_messages(
    entries: Iterable[NewsEntry], access: WorkspaceAccess, since: Since
) -> dict[int | None, int]:
    """Count the messages since the end of the base's period, or since the moment, by channel."""
    after_us: dict[int | None, int] = {}
    later = Q(pk__in=[])
    for entry in entries:
        channel = entry.memory.channel_id
        base_until_us = entry.base.until_us if entry.base else 0
        after_us[channel] = base_until_us if since.us is None else since.us
        later |= Q(channel=channel, micros__gt=after_us[channel])
    messages = Message.objects.visible_to(access.reader).filter(
        later, state=Message.State.LIVE, is_notice=False
    )
    # For an index: SQLite would read all messages in the order of their channels.
    messages = messages.filter(channel__in=after_us, micros__gt=min(after_us.values(), default=0))
    counts = messages.order_by().values("channel").annotate(n=Count("pk"))
    return dict(counts.values_list("channel", "n"))


def with_channels(memories: Iterable[Memory], access: WorkspaceAccess) -> list[Memory]:
    """Set the workspace and channel of memories, for their names. At most one query."""
    loaded = list(memories)
    channels = access.channels_by_key({m.channel_id for m in loaded if m.channel_id})
    for memory in loaded:
        memory.workspace = access.workspace
        memory.channel = channels.get(memory.channel_id or 0)
    return loaded
