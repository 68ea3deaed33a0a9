"""Build a context from the database (S2, rule 10).

The number of queries does not depend on the number of channels or the length of their history.
There is one query each for channels, messages, people, versions with their lines, and notes. The
archive adds one.

Within a budget only channels are read whose memories changed last or have protected lines: the best
lines for the budget are among them.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import (
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    TextField,
    Value,
    Window,
)
from django.db.models.functions import Coalesce, RowNumber

from memories.models import (
    Channel,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Person,
    Reader,
    Workspace,
)
from memories.models.ingest.messages import MessageQuerySet, author_name
from memories.models.ingest.names import Names
from memories.models.memory.memories import MemoryQuerySet
from memories.pipeline.context.channels import ReadableChannels, precedes_messages
from memories.pipeline.context.memory_texts import (
    apply_earlier_wordings,
    archived_lines,
    line_facts,
    line_rows,
    memory_texts,
    published,
)
from memories.pipeline.context.notes import context_notes
from memories.pipeline.search.finding import most_relevant, question_hits
from memories.rules.context import contents as rules
from memories.rules.context.blocks import Part
from memories.rules.context.contents import Context
from memories.rules.context.material import LONG_TERM, THREAD, WORKSPACE, Material, MessageLine
from memories.rules.generate.prompts import clean_for_model, format_message
from memories.rules.ingest.markup import mentions_in, render_plain
from memories.rules.ingest.timestamps import from_micros, micros, to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.notes.fields import NoteText

logger = logging.getLogger(__name__)

WINDOW = 500  # messages; one older by so many is worth a thirtieth (`recency_factor`)

CONVERSATION, NEWEST, HIT = range(3)  # why a message was read
_COLUMNS = ("pk", "micros", "ts", "thread_ts", "text", "username", "author__name", "channel_id")


def build_context(
    workspace: Workspace,
    reader: Reader,
    *,
    channel: str | None = None,
    thread_ts: str | None = None,
    budget: int | None = None,
    question: str = "",
    persona: str = "",
    with_notes: bool = False,
    with_archive: bool = False,
    without: Collection[Part] = (),
    now: datetime,
    at: datetime | None = None,
) -> Context:
    """Return the context of a workspace for a reader at ``now`` (S2's build_context_with_memory).

    With ``at`` it holds what the hub held at that time and the reader may read now. What was
    deleted since stays out. Names, settings and edited messages are those of now. If the hub held no
    message yet, the messages that it got later count from their own time.

    ``channel`` is an id or a name. It adds the channel's conversation and its threads, or only the
    thread ``thread_ts``. ``without`` names sections to leave out. ``with_archive`` adds lines that
    left long-term memories for want of room. ``budget`` is in tokens, 0 for no limit; None limits
    the text to DEFAULT_BUDGET and nothing else. With a ``question``, lines and messages about it
    come first.

    Raises NoSuchChannel for an unknown or unreadable channel, NoThread for an unknown thread.
    """
    if thread_ts is not None:
        _check_thread(thread_ts, channel)
    at = min(at, now) if at else None
    if at is not None and precedes_messages(workspace, at):
        now, at = at, None
    rows = _Rows(
        workspace,
        reader,
        channel,
        thread_ts,
        to_micros(at or now),
        at,
        question,
        persona,
        with_notes=with_notes,
        with_archive=with_archive,
        has_budget=budget != 0,
        reads_all=not budget,
    )
    material = rows.material()
    if thread_ts is not None and not (
        any(memory.kind == THREAD for memory in material.memories)
        or any(message.thread_ts == thread_ts for message in material.messages)
    ):
        raise rules.UnknownThread(f"There is no thread {thread_ts} in this channel.")
    if budget is None:
        whole = rows.material(is_whole=True)
        return rules.assemble(material, rules.DEFAULT_BUDGET, without, whole=whole)
    return rules.assemble(material, budget or None, without)


def _check_thread(thread_ts: str, channel: str | None) -> None:
    try:
        micros(thread_ts)
    except ValueError as error:
        raise rules.NoThread(f"Not the ts of a thread: {thread_ts!r}.") from error
    if not channel:
        raise rules.NoThread("A thread is found in its channel: name that too.")


@dataclass(frozen=True)
class _Rows:
    """The rows of one context that the reader may read. Each table is read once."""

    workspace: Workspace
    reader: Reader
    channel_name: str | None
    thread_ts: str | None
    now_us: int
    at: datetime | None
    question: str
    persona: str
    with_notes: bool
    with_archive: bool
    has_budget: bool
    reads_all: bool  # the memories of all channels

    @cached_property
    def channels(self) -> ReadableChannels:
        return ReadableChannels(self.workspace, self.reader, self.at)

    @property
    def at_us(self) -> int | None:
        return None if self.at is None else self.now_us

    @cached_property
    def channel(self) -> int | None:
        """The key of the named channel."""
        return self.channels.find(self.channel_name) if self.channel_name else None

    @cached_property
    def chosen_channels(self) -> set[int]:
        """The channels of whose memories a budget chooses lines."""
        return self.channels.newest() | ({self.channel} if self.channel else set())

    def material(self, *, is_whole: bool = False) -> Material:
        """Return the material for the budget; with ``is_whole`` of all channels."""
        settings, conversation, earlier = self.workspace.memory_settings, *self.messages
        if is_whole or not self.has_budget:
            chosen, earlier, unread = set(self.channels.by_key), [], 0
        else:
            chosen = self.chosen_channels
            unread = self.channels.count_others(chosen)
        read = {None, *chosen}
        versions = [version for version in self.versions if version.memory.channel_id in read]
        archive = [line for line in self.archive if line.version.memory.channel_id in read]
        listed = chosen.union(row.channel_id for row in earlier)
        channels = {k: n for pk, (k, n) in self.channels.by_key.items() if pk in listed}
        memories = memory_texts(versions, archive, list(channels))
        has_long_term = any(x.kind == LONG_TERM and x.scope_key == WORKSPACE for x in memories)
        return Material(
            settings=settings,
            persona=self.persona,
            channel_id=self.channels.by_key[self.channel][0] if self.channel else "",
            target_thread_ts=self.thread_ts,
            channels=channels,
            memories=memories,
            workspace_includes=self.channels.opted_in if has_long_term else (),
            unread_channels=unread,
            messages=[self.message_line(row) for row in conversation],
            notes=self.notes,
            earlier=[self.message_line(row) for row in earlier],
            facts=line_facts(versions, archive),
            question=self.question,
        )

    @cached_property
    def versions(self) -> list[Any]:
        """Current versions, and the newest few of channels' short-term memories.

        ``line_rows`` are the facts of each version's lines. One query, or two with ``at``.
        """
        of_workspace = Q(scope=MemoryScope.WORKSPACE)
        if not self.workspace.memory_settings.workspace_short_term:
            of_workspace &= Q(memory_type=MemoryType.LONG_TERM)
        of_channels = Q(scope=MemoryScope.CHANNEL)
        if not self.reads_all:
            of_channels &= Q(channel__in=self.chosen_channels)
        memories = Memory.objects.filter(workspace=self.workspace)
        current = memories.filter(
            of_workspace | of_channels & Q(memory_type=MemoryType.LONG_TERM) | self._of_threads()
        )
        short_term = memories.filter(of_channels, memory_type=MemoryType.SHORT_TERM)
        readable = MemoryVersion.objects.visible_to(self.reader).with_text()
        keys: Any = current.values("current")
        if self.at is not None:
            keys = MemoryVersion.objects.with_text().current_at(current, self.at).values("pk")
        # A union: with two lists in an OR PostgreSQL reads all versions.
        keys = keys.union(self._history(short_term).values("pk"))
        versions = list(
            readable.filter(pk__in=keys)
            .select_related("memory")
            .defer("trigger", "put_back", "kept", "dropped")
            .annotate(line_rows=line_rows(self.at_us))
        )
        versions = published(versions, self.workspace.memory_settings)
        return versions if self.at is None else apply_earlier_wordings(versions, self.at)

    def _history(self, memories: MemoryQuerySet) -> QuerySet[MemoryVersion]:
        """Return the newest few versions of each memory, without those that a later one replaces."""
        # The subqueries compare no memory: a segment and a chain of edits have one memory each.
        # With that comparison PostgreSQL, before ANALYZE, reads a whole memory for each version.
        later = MemoryVersion.objects.filter(number__gt=OuterRef("number"))
        readable = MemoryVersion.objects.visible_to(self.reader).with_text()
        period_end = F("until_us")
        if self.at is not None:
            later = later.filter(created_at__lte=self.at)
            readable, period_end = readable.as_of(self.at), F("until_then")
        is_replaced = Exists(later.filter(segment=OuterRef("segment"))) | Q(
            # Without a closed segment only the chain of edits connects two versions.
            Exists(later.filter(base=OuterRef("pk"))),
            segment__isnull=True,
        )
        ranked = readable.filter(~is_replaced, memory__in=memories.values("pk")).annotate(
            rank=Window(
                RowNumber(),
                partition_by="memory",
                order_by=[period_end.desc(), F("number").desc()],
            )
        )
        return ranked.filter(rank__lte=rules.history_limit(self.workspace.memory_settings))

    def _of_threads(self) -> Q:
        """Match the target thread, or the named channel's threads with a message in the window."""
        if not self.channel:
            return Q(pk__in=())
        of_threads = Q(scope=MemoryScope.THREAD, channel=self.channel)
        if self.thread_ts is not None:
            return of_threads & Q(thread_ts=self.thread_ts)
        recent = self._stored(Message.objects.all()).filter(
            ~Q(thread_ts=""),
            channel=OuterRef("channel"),
            thread_ts=OuterRef("thread_ts"),
            micros__gte=self._window_us,
            micros__lte=self.now_us,
        )
        return of_threads & Q(Exists(recent))

    @property
    def _window_us(self) -> int:
        return self.now_us - self.workspace.memory_settings.window_us

    def _stored(self, messages: MessageQuerySet) -> MessageQuerySet:
        return messages if self.at is None else messages.filter(stored_at__lte=self.at)

    def _in_conversation(self) -> Q:
        """Match the messages of the named channel that are in no segment.

        Before the first pass the conversation begins where that pass would set the start mark
        (rule 3).
        """
        if self.at is None:
            start = Coalesce("channel__start_us", Value(self._window_us))
            return Q(segment__isnull=True, micros__gte=start)
        was_open = (
            Q(segment__isnull=True)
            | Q(segment__created_us__gt=self.now_us)
            | Q(segment__created_us=0, segment__closed_us__gt=self.now_us)
        )
        start_us = Channel.objects.get(pk=self.channel or 0).start_mark_at(self.now_us)
        return was_open & Q(micros__gte=self._window_us if start_us is None else start_us)

    @cached_property
    def messages(self) -> tuple[list[Any], list[Any]]:
        """The conversation of the named channel, and earlier messages. One query.

        The conversation is every message that no closed segment holds, and the target thread.
        Earlier messages are the newest WINDOW of the channel and the hits of the question.
        """
        readable = (
            self._stored(Message.objects.visible_to(self.reader))
            .filter(channel__workspace=self.workspace)
            .rememberable()
            .until(self.now_us)
        )
        queries: list[tuple[int, Any]] = []
        if self.channel:
            in_channel = readable.filter(channel=self.channel)
            conversation = self._in_conversation()
            if self.thread_ts is not None:
                conversation |= Q(thread_ts=self.thread_ts) | Q(ts=self.thread_ts)
            queries.append((CONVERSATION, in_channel.filter(conversation)))
            if self.has_budget:
                newest = in_channel.order_by("-micros").values("pk")[:WINDOW]
                queries.append((NEWEST, Message.objects.filter(pk__in=newest)))
        if self.question and self.has_budget:
            keys = self.channels.message_keys()
            hits = question_hits(self.question, readable, keys, self.now_us)
            queries.append((HIT, hits))
        if not queries:
            return [], []
        # A union: with conditions in one WHERE no index serves all of them.
        first, *others = [
            rows.annotate(
                why=Value(why),
                **({} if why == HIT else {"tokens": Value("", TextField())}),
            )
            .order_by()
            .values_list(*_COLUMNS, "why", "tokens", named=True)
            for why, rows in queries
        ]
        by_key: dict[int, dict[int, Any]] = {CONVERSATION: {}, NEWEST: {}, HIT: {}}
        for row in first.union(*others, all=True) if others else first:
            if row.channel_id in self.channels.by_key:
                by_key[row.why][row.pk] = row
        hits = by_key[HIT]
        best = most_relevant(self.question, ((x.pk, x.micros, x.tokens) for x in hits.values()))
        earlier = by_key[NEWEST] | {pk: hits[pk] for pk in best}
        return (
            sorted(by_key[CONVERSATION].values(), key=_time),
            sorted(
                (row for pk, row in earlier.items() if pk not in by_key[CONVERSATION]), key=_time
            ),
        )

    @cached_property
    def names(self) -> Names:
        """The names that the messages mention, as the reader may see them. One query."""
        people, _ = mentions_in(row.text for rows in self.messages for row in rows)
        if not people:
            return Names({}, self.channels.names)
        mentioned = Person.objects.filter(workspace=self.workspace, slack_id__in=people)
        return Names(mentioned.order_by().names(), self.channels.names)

    def message_line(self, row: Any) -> MessageLine:
        author = author_name(row.author__name or "", row.username)
        sent_at = from_micros(row.micros).astimezone(self.workspace.memory_settings.zone)
        line = format_message(
            sent_at, clean_for_model(author), clean_for_model(render_plain(row.text, self.names))
        )
        # A root without a known reply has no thread_ts.
        thread_ts = row.ts if row.ts == self.thread_ts else row.thread_ts
        return MessageLine(row.micros, line, thread_ts, self.channels.by_key[row.channel_id][0])

    @cached_property
    def archive(self) -> list[Line]:
        """The archived lines of the long-term memories, if they are wanted. One query."""
        return archived_lines(self.versions, self.at_us) if self.with_archive else []

    @cached_property
    def notes(self) -> list[NoteText]:
        """Notes of the workspace and of the named channel, or all notes without a channel."""
        mode = self.workspace.memory_settings.notes_inject
        if not rules.injects(mode, is_requested=self.with_notes):
            return []
        channel_id = self.channels.by_key[self.channel][0] if self.channel else ""
        notes = context_notes(self.workspace, self.reader, channel_id, self.at)
        logger.info("workspace %s: %d notes loaded", self.workspace.pk, len(notes))
        return notes


def _time(row: Any) -> tuple[int, int]:
    return (row.micros, row.pk)
