"""Rows → context: twelve queries at most, three more with a question and one with the archive, however
many channels there are and however long their history is (S2, rule 10).

Under a budget only the channels whose memories changed last are read, and those with lines that
people wrote or pinned: what a budget has room for is among them.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value, Window
from django.db.models.functions import Coalesce, RowNumber

from memories.models import (
    Channel,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Person,
    Reader,
    Workspace,
)
from memories.models.ingest.channels import ChannelQuerySet
from memories.models.ingest.messages import MessageQuerySet
from memories.models.ingest.names import Names
from memories.models.memory.memories import MemoryQuerySet
from memories.pipeline.search.finding import best_for, keys_of
from memories.rules.context import contents as rules
from memories.rules.context import context_text
from memories.rules.context.contents import Context
from memories.rules.context.context_text import ChannelTexts, LineFacts, Material, Part, Version
from memories.rules.generate.prompts import clean_for_model, format_message
from memories.rules.ingest.markup import mentions_in, render_plain
from memories.rules.ingest.timestamps import from_micros, micros, to_micros
from memories.rules.memory.identity import (
    WORKSPACE_SCOPE_ID,
    MemoryScope,
    MemoryType,
    parse_thread_scope_id,
)
from memories.rules.memory.lines import Origin, words_of
from memories.rules.notes.fields import NoteText
from memories.rules.settings import MemorySettings

logger = logging.getLogger(__name__)

MOST_KEYS = 30_000  # what SQLite takes in one query
WINDOW = 1_000  # messages; a message older by so many is worth a thousandth (`salience.recency`)
NEWEST = 200  # memories of channels that changed last, of whose channels a budget chooses lines
HELD = 50  # the same of those where people wrote or pinned lines


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
) -> Context:
    """What the reader may know of the workspace at ``now`` (S2's build_context_with_memory).

    ``channel`` is an id or a name: with it come its conversation and its threads, or the one of
    ``thread_ts``. ``without`` names sections that are not wanted; ``with_archive`` adds the lines that
    left long-term memories for want of room. ``budget`` is in tokens, 0 for
    none; without one the text has DEFAULT_BUDGET, and everything else is whole. With a
    ``question`` the lines and messages about it come first. Raises NoSuchChannel for a channel that
    the reader may not see just as for an unknown one, and NoThread for a thread that is no ts, has
    no channel or is unknown.
    """
    if thread_ts is not None:
        _check_thread(thread_ts, channel)
    rows = _Rows(
        workspace,
        reader,
        channel,
        thread_ts,
        to_micros(now),
        question,
        with_archive,
        is_whole=budget == 0,
    )
    material = rows.material(persona, with_notes=with_notes)
    if thread_ts is not None and not rows.knows_thread(material):
        raise rules.UnknownThread(f"There is no thread {thread_ts} in this channel.")
    if budget is None:
        whole = replace(material, **replace(rows, is_whole=True).texts())
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
    """The queries: names, versions and their lines, messages, notes. All of them see with the
    reader's eyes."""

    workspace: Workspace
    reader: Reader
    channel: str | None
    thread_ts: str | None
    now_us: int
    question: str = ""
    with_archive: bool = False
    is_whole: bool = False  # of all channels, and without what only a choice needs

    @property
    def settings(self) -> MemorySettings:
        return self.workspace.memory_settings

    @property
    def window_us(self) -> int:
        return self.now_us - self.settings.window_us

    @cached_property
    def own(self) -> str:
        """The named channel's id, "" without one."""
        if not self.channel:
            return ""
        return rules.find_channel(self._readable_channels.named(self.channel).names(), self.channel)

    @property
    def _readable_channels(self) -> ChannelQuerySet:
        return Channel.objects.filter(workspace=self.workspace).visible_to(self.reader).order_by()

    @cached_property
    def channels(self) -> list[Channel]:
        """The channels whose memories are read."""
        found = self._readable_channels.only("slack_id", "name")
        if self.is_whole:
            return list(found)
        newest = self._remembered.order_by("-current").values("channel")
        held = newest.filter(
            Exists(Line.objects.pinned_or_by_person().filter(version=OuterRef("current")))
        )
        of_those = Q(pk__in=newest[:NEWEST]) | Q(pk__in=held[:HELD])
        return list(found.filter(of_those | Q(slack_id=self.own)))

    @property
    def _remembered(self) -> MemoryQuerySet:
        """The memories of channels with a text."""
        readable = Memory.objects.visible_to(self.reader).filter(workspace=self.workspace)
        return readable.filter(scope=MemoryScope.CHANNEL, current__isnull=False)

    def further(self) -> int:
        """How many channels with a memory are not read."""
        if self.is_whole or 2 * len(self.channels) < NEWEST:  # two memories of each
            return 0
        others = self._remembered.exclude(channel__in=self.channels)
        return others.values("channel").distinct().count()

    def names_in(self, messages: Sequence[Message]) -> Names:
        """The names that these messages mention, as far as the reader may see them."""
        people, channels = mentions_in(message.text for message in messages)
        if not (people or channels):
            return Names()
        named = Person.objects.filter(workspace=self.workspace, slack_id__in=people).order_by()
        found = named.values_list("slack_id", "name", Value(0)).union(
            self._readable_channels.filter(slack_id__in=channels).values_list(
                "slack_id", "name", Value(1)
            ),
            all=True,
        )
        names: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for slack_id, name, is_channel in found:
            names[is_channel][slack_id] = name
        return Names(*names)

    def material(self, persona: str, *, with_notes: bool) -> Material:
        messages = self.messages() if self.own else []
        earlier = [] if self.is_whole else self.earlier({message.pk for message in messages})
        names = self.names_in([*messages, *earlier])
        return Material(
            settings=self.settings,
            persona=persona,
            own=self.own,
            target_thread_ts=self.thread_ts,
            messages=[self._line(message, names) for message in messages],
            notes=self.notes(asked=with_notes),
            earlier=[self._line(message, names) for message in earlier],
            question=self.question,
            **self.texts(said_in=[message.channel for message in earlier]),
        )

    def texts(self, said_in: Iterable[Channel] = ()) -> dict[str, Any]:
        """What is remembered: of the workspace, of channels and of threads. ``said_in`` are channels
        that are named whatever is remembered of them."""
        workspace: dict[str, str] = {}
        long_term: dict[str, str] = {}
        history: dict[str, list[Version]] = defaultdict(list)
        threads: dict[str, Version] = {}
        versions = list(self.versions())
        archive = self.archive(versions) if self.with_archive else {}
        for version in versions:
            memory = version.value
            numbered = Version(version.number, memory.content, version.until_us)
            if memory.scope is MemoryScope.WORKSPACE:
                workspace[memory.memory_type] = memory.content
            elif memory.scope is MemoryScope.THREAD:
                _, thread_ts = parse_thread_scope_id(memory.scope_id)
                threads[thread_ts] = numbered
            elif memory.memory_type is MemoryType.LONG_TERM:
                long_term[memory.scope_id] = memory.content
            else:
                history[memory.scope_id].append(numbered)
        names = {channel.slack_id: channel.name for channel in (*self.channels, *said_in)}
        return {
            "workspace_long_term": workspace.get(MemoryType.LONG_TERM),
            "workspace_short_term": workspace.get(MemoryType.SHORT_TERM),
            "workspace_archive": _text_of(archive, WORKSPACE_SCOPE_ID),
            "workspace_includes": self._included() if MemoryType.LONG_TERM in workspace else (),
            "channels": [
                ChannelTexts(
                    slack_id,
                    name,
                    long_term.get(slack_id),
                    history[slack_id],
                    _text_of(archive, slack_id),
                )
                for slack_id, name in names.items()
            ],
            "further": self.further(),
            "threads": dict(sorted(threads.items())),
            "facts": self.facts(versions) | _facts_of(archive),
        }

    def _included(self) -> list[str]:
        """The channels whose text is in the workspace's memory by opt-in."""
        return sorted(self.workspace.channels.opted_in().values_list("name", flat=True))

    def versions(self) -> QuerySet[MemoryVersion]:
        """Current ones, and of channels' short-term memories the newest few."""
        of_workspace = Q(scope=MemoryScope.WORKSPACE)
        if not self.settings.workspace_short_term:
            of_workspace &= Q(memory_type=MemoryType.LONG_TERM)
        of_channels = Q(scope=MemoryScope.CHANNEL)
        if not self.is_whole:
            of_channels &= Q(channel__in=self.channels)
        memories = Memory.objects.filter(workspace=self.workspace)
        current = memories.filter(
            of_workspace | of_channels & Q(memory_type=MemoryType.LONG_TERM) | self._of_threads()
        )
        short_term = memories.filter(of_channels, memory_type=MemoryType.SHORT_TERM)
        readable = MemoryVersion.objects.visible_to(self.reader).with_text()
        return readable.filter(
            Q(pk__in=current.values("current")) | Q(pk__in=self._history(short_term).values("pk"))
        ).select_related("memory")

    def _history(self, memories: MemoryQuerySet) -> QuerySet[MemoryVersion]:
        """The newest few versions of each."""
        # A segment is of one memory, and so is a chain of edits. Nothing more is asked of either:
        # PostgreSQL, before it has analysed the table, would go through a memory for each version.
        later = MemoryVersion.objects.filter(number__gt=OuterRef("number"))
        replaced = Exists(later.filter(segment=OuterRef("segment"))) | Q(
            # Before a segment has closed there is nothing but the chain of edits to tell it by.
            Exists(later.filter(base=OuterRef("pk"))),
            segment__isnull=True,
        )
        ranked = (
            MemoryVersion.objects.visible_to(self.reader)
            .with_text()
            .filter(~replaced, memory__in=memories.values("pk"))
            .annotate(
                rank=Window(
                    RowNumber(),
                    partition_by="memory",
                    order_by=[F("until_us").desc(), F("number").desc()],
                )
            )
        )
        return ranked.filter(rank__lte=rules.history_limit(self.settings))

    def _of_threads(self) -> Q:
        """The target thread, else those of the named channel with a message in the window."""
        if not self.own:
            return Q(pk__in=())
        of_threads = Q(scope=MemoryScope.THREAD, channel__slack_id=self.own)
        if self.thread_ts is not None:
            return of_threads & Q(thread_ts=self.thread_ts)
        recent = Message.objects.filter(
            ~Q(thread_ts=""),
            channel=OuterRef("channel"),
            thread_ts=OuterRef("thread_ts"),
            micros__gte=self.window_us,
            micros__lte=self.now_us,
        )
        return of_threads & Q(Exists(recent))

    def messages(self) -> list[Message]:
        """What no closed segment holds, and the target thread; before its first pass a channel's
        start mark is where that pass would set it (rule 3)."""
        start = Coalesce("channel__start_us", Value(self.window_us))
        wanted = Q(segment__isnull=True, micros__gte=start)
        if self.thread_ts is not None:
            wanted |= Q(thread_ts=self.thread_ts) | Q(ts=self.thread_ts)
        return list(self._readable_messages().filter(wanted, channel__slack_id=self.own).in_order())

    def earlier(self, shown: set[int]) -> list[Message]:
        """What a budget may have room for beyond the messages that are ``shown`` anyway: the newest
        WINDOW of the named channel and, with a question, what the search finds for it anywhere."""
        rows: dict[int, Message] = {}
        if self.own:
            newest = self._readable_messages().filter(channel__slack_id=self.own)
            rows |= {row.pk: row for row in newest.order_by("-micros")[:WINDOW]}
        if self.question:
            keys = keys_of(self.workspace, self.reader, None)
            found = best_for(self.question, self._readable_messages(), keys)
            rows |= {row.pk: row for row in found}
        in_order = sorted(rows.values(), key=lambda row: (row.micros, row.pk))
        return [row for row in in_order if row.pk not in shown]

    def _readable_messages(self) -> MessageQuerySet:
        return (
            Message.objects.visible_to(self.reader)
            .filter(channel__workspace=self.workspace)
            .rememberable()
            .until(self.now_us)
            .select_related("author", "channel")
            .defer("raw")
        )

    def _line(self, message: Message, names: Names) -> context_text.Message:
        return context_text.Message(
            message.micros,
            format_message(
                from_micros(message.micros).astimezone(self.settings.zone),
                clean_for_model(message.author_name),
                clean_for_model(render_plain(message.text, names)),
            ),
            # A root may not say yet that it has become one.
            message.ts if message.ts == self.thread_ts else message.thread_ts,
            message.channel.slack_id,
        )

    def facts(self, versions: Sequence[MemoryVersion]) -> dict[str, LineFacts]:
        """When what a line says was said, whether it is held, its kind, and whether it was
        replaced; of equal lines the newest."""
        found: dict[str, LineFacts] = {}
        newest = sorted(versions, key=lambda version: version.until_us, reverse=True)
        rows = Line.objects.filter(version__in=newest[:MOST_KEYS], masked=False)
        columns = ("text", "origin", "pinned", "kind", "at_us", "version__until_us", "fate")
        for text, origin, pinned, kind, at_us, until_us, fate in rows.values_list(*columns):
            words = words_of(text)
            before = found.get(words, LineFacts())
            is_held = before.is_held or pinned or origin == Origin.PERSON
            found[words] = LineFacts(
                max(before.at_us, at_us or until_us),
                is_held,
                kind or before.kind,
                before.is_replaced or fate == Line.Fate.SUPERSEDED,
            )
        return found

    def archive(self, versions: Sequence[MemoryVersion]) -> dict[str, list[Line]]:
        """The newest archived lines of the long-term memories with these current versions, oldest
        first, by the scope id of the memory."""
        memories = [v.memory_id for v in versions if v.memory.memory_type == MemoryType.LONG_TERM]
        rows = Line.objects.archived().filter(version__memory__in=memories[:MOST_KEYS])
        newest = rows.select_related("version__memory").newest_first()[:WINDOW]
        found: dict[str, list[Line]] = defaultdict(list)
        for line in reversed(newest):
            found[line.version.memory.scope_id].append(line)
        return found

    def knows_thread(self, material: Material) -> bool:
        """Whether the wanted thread is one: with a message that the reader may read, or a memory."""
        return bool(material.threads) or any(
            message.thread_ts == self.thread_ts for message in material.messages
        )

    def notes(self, *, asked: bool) -> list[NoteText]:
        """The workspace's and the named channel's; without a channel all that the reader sees."""
        if not rules.injects(self.settings.notes_inject, asked=asked):
            return []
        found = Note.objects.in_use(self.workspace).visible_to(self.reader).for_contexts()
        if self.own:
            found = found.for_channel(self.own)
        notes = [note.value for note in found]
        logger.info("workspace %s: %d notes loaded", self.workspace.pk, len(notes))
        return notes


def _text_of(archive: Mapping[str, Sequence[Line]], scope_id: str) -> str | None:
    return "\n".join(line.text for line in archive.get(scope_id, ())) or None


def _facts_of(archive: Mapping[str, Sequence[Line]]) -> dict[str, LineFacts]:
    lines = (line for of_memory in archive.values() for line in of_memory)
    return {words_of(line.text): LineFacts(line.at_us) for line in lines}
