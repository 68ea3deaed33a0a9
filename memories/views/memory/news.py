"""The news of "Catch up": the memories that changed, and the new lines of each.

The number of queries does not depend on the number of texts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.db.models import (
    BigIntegerField,
    Case,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memories.models import Channel, ChannelPreference, Line, Memory, MemoryVersion, Message, Seen
from memories.models.memory.memories import MemoryQuerySet
from memories.models.memory.seen import unseen_memories
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.briefing import DEFAULT_KIND, VALUES, NewsLine, count_kinds
from memories.rules.memory.catch_up import NewsKey, Since, compare_unmoved
from memories.rules.memory.compare import ChangeKind, DiffPiece, DiffRow
from memories.views.access.access import COUNTED, WorkspaceAccess, format_count
from memories.views.memory.display import (
    ComparedRow,
    VersionDisplay,
    add_lines,
    display_versions,
    for_display,
)
from memories.views.memory.line_display import LineDisplay
from memories.views.memory.seen import load_keys, with_marks


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
    since_us: int | None = None  # the start of a period
    shown: VersionDisplay | None = None
    messages: int = 0  # new ones, exact up to COUNTED

    @property
    def message_count(self) -> str:
        return format_count(self.messages)

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
        return [news_line(row.new_line, channel) for row in self.new_rows if row.new_line]

    @property
    def counts(self) -> str:
        """The new lines by kind, in words: "2 decisions, 1 open question"."""
        return _(", ").join(count_words(kind, n) for kind, n in count_kinds(self.news_lines))


@dataclass
class News:
    """The changed memories of channels, and ``of_workspace``: that of the workspace itself.

    ``keys`` are the sort keys of all of them; ``entries`` are the first ones.
    """

    keys: list[NewsKey]
    entries: list[NewsEntry] = field(default_factory=list)
    of_workspace: NewsEntry | None = None

    @property
    def all_entries(self) -> list[NewsEntry]:
        return [*([self.of_workspace] if self.of_workspace else []), *self.entries]


def load_news(
    access: WorkspaceAccess,
    since: Since,
    folded: int | None = None,
    *,
    cursor: NewsKey | None,
    limit: int,
) -> News:
    """Load the memories that changed, behind a ``cursor``, with the first ``limit`` texts.

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
    keys = load_keys(_with_value(changed.filter(channel__isnull=False), access, since), follows)
    if cursor is not None:
        keys = [key for key in keys if key < cursor]
    of_workspace = changed.filter(channel__isnull=True)
    shown = Q(pk__in=[key.memory for key in keys[:limit]]) | Q(pk__in=of_workspace.values("pk"))
    news = News(keys)
    positions = {key.memory: position for position, key in enumerate(keys)}
    for entry in load_entries(access.unmuted_memories.filter(shown), access, since, folded):
        if entry.memory.channel_id is None:
            news.of_workspace = entry
        else:
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


def _with_value(memories: MemoryQuerySet, access: WorkspaceAccess, since: Since) -> MemoryQuerySet:
    """Annotate memories with ``value``: the sum of the values of their new lines by kind.

    The database counts, because no page loads the texts of all channels. Since a mark, a line is new
    if it was added after the marked version. Lines from before the period of a digest do not count.
    """
    if since.us is None:
        mark = Seen.objects.filter(memory=OuterRef("pk"), user=access.reader.user_id)
        memories = memories.alias(seen_number=Coalesce(Subquery(mark.values("number")), 0))
        is_new = Q(since__gt=OuterRef("seen_number"))
    else:
        is_new = Q(at_us__gt=since.us)
    lines = Line.objects.filter(is_new, version=OuterRef("current"), redacted=False)
    kinds = (When(kind=kind, then=value) for kind, value in VALUES.items())
    value = Sum(Case(*kinds, default=VALUES[DEFAULT_KIND], output_field=IntegerField()))
    in_force = lines.exclude(outcome=Line.Outcome.SUPERSEDED).order_by().values("version")
    return memories.annotate(
        value=Coalesce(Subquery(in_force.annotate(sum=value).values("sum")), 0)
    )


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
        entry.messages = message_counts.get(entry.memory.channel_id or 0, 0)


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


def news_line(line: LineDisplay, channel: int | None) -> NewsLine:
    return NewsLine(line.text, line.kind, line.at_us, channel or 0)


def count_words(kind: str, n: int) -> str:
    words = {
        "decision": ngettext("%(n)s decision", "%(n)s decisions", n),
        "task": ngettext("%(n)s task", "%(n)s tasks", n),
        "question": ngettext("%(n)s open question", "%(n)s open questions", n),
        "status": ngettext("%(n)s status update", "%(n)s status updates", n),
        "event": ngettext("%(n)s event", "%(n)s events", n),
    }
    return words[kind] % {"n": n}


class _Count(Subquery):
    """The number of rows of a subquery with a limit."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


def _count_messages(
    entries: Iterable[NewsEntry], access: WorkspaceAccess, since: Since
) -> dict[int, int]:
    """Count the messages since the end of the base's period, or since the moment, by channel.

    The counts are exact up to `COUNTED`.
    """
    after_us = {
        entry.memory.channel_id or 0: (entry.base.until_us if entry.base else 0)
        if since.us is None
        else since.us
        for entry in entries
    }
    moments = [When(pk=channel, then=Value(us)) for channel, us in after_us.items()]
    messages = Message.objects.visible_to(access.reader).filter(
        channel=OuterRef("pk"),
        micros__gt=OuterRef("after_us"),
        state=Message.State.LIVE,
        is_notice=False,
    )
    counts = Channel.objects.filter(pk__in=after_us).annotate(
        after_us=Case(*moments, output_field=BigIntegerField()),
        n=_Count(messages.order_by().values("pk")[: COUNTED + 1]),
    )
    return dict(counts.values_list("pk", "n"))


def with_channels(memories: Iterable[Memory], access: WorkspaceAccess) -> list[Memory]:
    """Set the workspace and channel of memories, for their names. At most one query."""
    loaded = list(memories)
    channels = access.channels_by_key({m.channel_id for m in loaded if m.channel_id})
    for memory in loaded:
        memory.workspace = access.workspace
        memory.channel = channels.get(memory.channel_id or 0)
    return loaded
