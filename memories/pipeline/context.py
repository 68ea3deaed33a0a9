"""Rows → context: four queries, however many channels there are (S2, rule 10)."""

import logging
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value, Window
from django.db.models.functions import Coalesce, RowNumber

from memories.models import Channel, MemoryVersion, Message, Note, Reader, Workspace
from memories.models.names import Names
from memories.rules import context as rules
from memories.rules import context_text
from memories.rules.context import Context
from memories.rules.context_text import ChannelTexts, Material, Part, Version
from memories.rules.markup import plain
from memories.rules.memory import MemoryScope, MemoryType, parse_thread_scope_id
from memories.rules.notes import NoteText
from memories.rules.prompts import UNKNOWN, for_model, message_line
from memories.rules.settings import MemorySettings
from memories.rules.slacktime import from_micros, micros, to_micros

logger = logging.getLogger(__name__)


def build_context(
    workspace: Workspace,
    reader: Reader,
    *,
    channel: str | None = None,
    thread_ts: str | None = None,
    budget: int | None = None,
    persona: str = "",
    with_notes: bool = False,
    without: Collection[Part] = (),
    now: datetime,
) -> Context:
    """What the reader may know of the workspace at ``now`` (S2's build_context_with_memory).

    ``channel`` is an id or a name: with it come its conversation and its threads, or the one of
    ``thread_ts``. ``budget`` is in tokens, ``without`` names sections that are not
    wanted. Raises NoSuchChannel for a channel that the reader may
    not see just as for an unknown one, and NoThread for a thread that is no ts or has no channel.
    """
    if thread_ts is not None:
        _check_thread(thread_ts, channel)
    rows = _Rows(workspace, reader, channel, thread_ts, to_micros(now))
    return rules.assemble(rows.material(persona, with_notes=with_notes), budget, without)


def _check_thread(thread_ts: str, channel: str | None) -> None:
    try:
        micros(thread_ts)
    except ValueError as error:
        raise rules.NoThread(f"Not the ts of a thread: {thread_ts!r}.") from error
    if not channel:
        raise rules.NoThread("A thread is found in its channel: name that too.")


@dataclass(frozen=True)
class _Rows:
    """The four queries: names, versions, messages, notes. All of them see with the reader's eyes."""

    workspace: Workspace
    reader: Reader
    channel: str | None
    thread_ts: str | None
    now_us: int

    @property
    def settings(self) -> MemorySettings:
        return self.workspace.memory_settings

    @property
    def window_us(self) -> int:
        return self.now_us - self.settings.window_us

    @cached_property
    def own(self) -> str:
        """The named channel's id, "" without one."""
        return rules.find_channel(self.names.channels, self.channel) if self.channel else ""

    @property
    def names(self) -> Names:
        return Names(self._named["person"], self._named["channel"])

    @cached_property
    def _named(self) -> dict[str, dict[str, str]]:
        """The channels that the reader sees, those that the workspace's memory includes by opt-in,
        and the people whom messages mention."""
        channels = Channel.objects.filter(workspace=self.workspace).visible_to(self.reader)
        found = channels.order_by().values_list("slack_id", "name", Value("channel"))
        included = self.workspace.channels.opted_in().order_by()
        found = found.union(included.values_list("slack_id", "name", Value("included")), all=True)
        if self.channel:
            people = self.workspace.people.order_by()
            found = found.union(people.values_list("slack_id", "name", Value("person")), all=True)
        by_kind: dict[str, dict[str, str]] = {"channel": {}, "person": {}, "included": {}}
        for slack_id, name, kind in found:
            by_kind[kind][slack_id] = name
        return by_kind

    def material(self, persona: str, *, with_notes: bool) -> Material:
        own = self.own
        workspace: dict[str, str] = {}
        long_term: dict[str, str] = {}
        history: dict[str, list[Version]] = defaultdict(list)
        threads: dict[str, Version] = {}
        for version in self.versions():
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
        return Material(
            settings=self.settings,
            persona=persona,
            own=own,
            target_thread_ts=self.thread_ts,
            workspace_long_term=workspace.get(MemoryType.LONG_TERM),
            workspace_short_term=workspace.get(MemoryType.SHORT_TERM),
            workspace_includes=sorted(self._named["included"].values())
            if MemoryType.LONG_TERM in workspace
            else (),
            channels=[
                ChannelTexts(slack_id, name, long_term.get(slack_id), history[slack_id])
                for slack_id, name in self.names.channels.items()
            ],
            threads=dict(sorted(threads.items())),
            messages=self.messages() if own else (),
            notes=self.notes(asked=with_notes),
        )

    def versions(self) -> QuerySet[MemoryVersion]:
        """Current ones, and of channels' short-term memories the newest few."""
        # A segment is of one memory, and so is a chain of edits. Nothing more is asked of either:
        # PostgreSQL, before it has analysed the table, would go through a memory for each version.
        later = MemoryVersion.objects.filter(number__gt=OuterRef("number"))
        replaced = Exists(later.filter(segment=OuterRef("segment"))) | Q(
            # Before a segment has closed there is nothing but the chain of edits to tell it by.
            Exists(later.filter(base=OuterRef("pk"))),
            segment__isnull=True,
        )
        is_history = Q(memory__scope=MemoryScope.CHANNEL, memory__memory_type=MemoryType.SHORT_TERM)
        of_workspace = Q(memory__scope=MemoryScope.WORKSPACE)
        if not self.settings.workspace_short_term:
            of_workspace &= Q(memory__memory_type=MemoryType.LONG_TERM)
        of_channel = Q(memory__scope=MemoryScope.CHANNEL, memory__memory_type=MemoryType.LONG_TERM)
        current = Q(memory__current=F("pk")) & (of_workspace | of_channel | self._of_threads())
        ranked = (
            MemoryVersion.objects.visible_to(self.reader)
            .saying_something()
            .filter((is_history & ~replaced) | current, memory__workspace=self.workspace)
            .annotate(
                rank=Window(
                    RowNumber(),
                    partition_by="memory",
                    order_by=[F("until_us").desc(), F("number").desc()],
                )
            )
            .filter(rank__lte=rules.history_limit(self.settings))
        )
        return MemoryVersion.objects.filter(pk__in=ranked.values("pk")).select_related("memory")

    def _of_threads(self) -> Q:
        """The target thread, else those of the named channel with a message in the window."""
        of_threads = Q(
            memory__scope=MemoryScope.THREAD,
            memory__channel__slack_id=self.own,
        )
        if self.thread_ts is not None:
            return of_threads & Q(memory__thread_ts=self.thread_ts)
        recent = Message.objects.filter(
            channel=OuterRef("memory__channel"),
            thread_ts=OuterRef("memory__thread_ts"),
            micros__gte=self.window_us,
            micros__lte=self.now_us,
        )
        return of_threads & Q(Exists(recent))

    def messages(self) -> list[context_text.Message]:
        """What no closed segment holds, and the target thread; before its first pass a channel's
        start mark is where that pass would set it (rule 3)."""
        start = Coalesce("channel__start_us", Value(self.window_us))
        wanted = Q(segment__isnull=True, micros__gte=start)
        if self.thread_ts is not None:
            wanted |= Q(thread_ts=self.thread_ts) | Q(ts=self.thread_ts)
        found = (
            Message.objects.visible_to(self.reader)
            .filter(wanted, channel__workspace=self.workspace, channel__slack_id=self.own)
            .rememberable()
            .until(self.now_us)
            .in_order()
            .select_related("author")
        )
        return [
            context_text.Message(
                message.micros,
                message_line(
                    from_micros(message.micros).astimezone(self.settings.zone),
                    for_model(message.author_name) or UNKNOWN,
                    for_model(plain(message.text, self.names)),
                ),
                # A root may not say yet that it has become one.
                message.ts if message.ts == self.thread_ts else message.thread_ts,
            )
            for message in found
        ]

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
