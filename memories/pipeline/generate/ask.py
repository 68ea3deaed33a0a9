"""job → request: what the summariser is shown, read from the rows as they are now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from memories.models import (
    Channel,
    Job,
    Memory,
    MemoryVersion,
    Message,
    Segment,
    Workspace,
)
from memories.models.ingest.names import Names
from memories.rules.generate.prompts import clean_for_model, speaker_name
from memories.rules.generate.summariser import (
    Addition,
    Kind,
    MemoryLine,
    MessageLine,
    Reference,
    Request,
)
from memories.rules.ingest.markup import mention_labels, render_plain
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Line, rests_only_on, words_of
from memories.rules.settings import MemorySettings


class MixedAudience(RuntimeError):
    """A prompt would hold text that not all readers of its answer may read."""


@dataclass(frozen=True)
class Question:
    """A request, and for each of its refs (from 1 on) the keys of the messages it stands for."""

    request: Request
    cites: Sequence[Sequence[int]]
    until_us: int  # the end of what the answer will cover
    message_count: int
    latest_ts: str | None
    base_lines: Sequence[Line] = ()


@dataclass
class Asker:
    """Builds the questions of one pass over one workspace. Who reads a channel, and what may be
    called by name, is looked up for each: it may change in the middle of a pass."""

    workspace: Workspace

    @property
    def settings(self) -> MemorySettings:
        return self.workspace.memory_settings

    def question(self, job: Job) -> Question:
        memory = job.memory
        if memory.scope == MemoryScope.WORKSPACE or memory.memory_type == MemoryType.LONG_TERM:
            return self._merge(job)
        if memory.scope == MemoryScope.THREAD:
            return self._thread(job)
        return self._segment(job)

    # -- short-term: a channel's segment (rule 4)

    def _segment(self, job: Job) -> Question:
        channel = _channel(job.memory)
        messages = self._segment_messages(job, channel)
        references = self._workspace_reference(job.memory)
        previous = job.memory.current
        if previous and not previous.provisional and previous.segment_id != job.segment_id:
            references.append(self._refer("previous memory", job.memory, job.memory))
        return self._of_messages(
            job.memory, messages, self.settings.short_term_max_tokens, references
        )

    def _segment_messages(self, job: Job, channel: Channel) -> list[Message]:
        if job.segment is None:  # provisional: everything that waits, as of then
            found = Message.objects.waiting().filter(channel=channel).until(job.as_of_us)
        else:
            found = Message.objects.rememberable().filter(segment=job.segment)
        if not self.settings.history_enabled:  # S1: the window, and what is not yet remembered
            window_us = self.settings.window_us
            found = found | Message.objects.rememberable().filter(
                channel=channel,
                micros__gte=job.as_of_us - window_us,
                micros__lte=job.as_of_us,
            )
        return list(found.in_order().select_related("author"))

    # -- threads (rule 7)

    def _thread(self, job: Job) -> Question:
        memory = job.memory
        channel = _channel(memory)
        segments = channel.segments.filter(
            thread_ts=memory.thread_ts,
            outcome=Segment.Outcome.WAITING,
            number__lte=job.segment.number if job.segment else 0,
        )
        read = Message.objects.rememberable().filter(
            channel=channel,
            thread_ts=memory.thread_ts,
            thread_segment__number__lte=job.segment.number if job.segment else 0,
        )
        messages = read.filter(thread_segment__in=segments)
        base, base_lines = job.base, list[Line]()
        if base is not None:
            # After an edit all is read again: then only what people hold is carried on.
            grows = read.exclude(thread_segment__in=segments).exists()
            base_lines = base.line_values() if grows else base.protected_lines()
        references = self._workspace_reference(memory)
        known = Memory.objects.with_current().filter(
            channel=channel, scope=MemoryScope.CHANNEL, current__isnull=False
        )
        references += [
            self._refer(f"memory of #{safe_name(channel.name)}", m, memory)
            for m in known.order_by("memory_type")
        ]
        question = self._of_messages(
            memory,
            list(messages.in_order().select_related("author")),
            self.settings.short_term_max_tokens,
            references,
            base_lines=base_lines,
        )
        latest = read.in_order().last()
        return replace(
            question,
            until_us=max(latest.micros if latest else 0, base.until_us if base else 0),
            message_count=read.count(),
            latest_ts=latest.ts if latest else None,
        )

    def _of_messages(
        self,
        memory: Memory,
        messages: Sequence[Message],
        max_tokens: int,
        references: Sequence[Reference],
        base_lines: Sequence[Line] = (),
    ) -> Question:
        channel = _channel(memory)
        refs = count(1)
        existing, cites = _memory_lines(base_lines, refs)
        # Guests, who may be among its readers, do not know the names of other channels.
        known = Names.public(self.workspace)
        others = {} if channel.has_guests() else known.channels
        names = Names(known.people, {**others, channel.slack_id: channel.name})
        lines = [
            MessageLine(
                ref=next(refs),
                at=from_micros(message.micros).astimezone(self.settings.zone),
                author=speaker_name(clean_for_model(message.author_name)),
                text=clean_for_model(render_plain(message.text, names)),
                thread=message.thread_ts if message.is_reply else "",
                mentions=mention_labels(message.text, names),
                is_bot=message.is_bot,
            )
            for message in messages
        ]
        latest = messages[-1] if messages else None
        request = Request(
            scope=MemoryScope(memory.scope),
            memory_type=MemoryType(memory.memory_type),
            max_tokens=max_tokens,
            language=self.settings.output_language,
            zone=self.settings.time_zone,
            place=f"#{safe_name(channel.name)}",
            messages=lines,
            existing=existing,
            references=references,
        )
        return Question(
            request,
            [*cites, *([message.pk] for message in messages)],
            latest.micros if latest else 0,
            len(messages),
            latest.ts if latest else None,
            base_lines,
        )

    # -- merges (rules 5 and 6)

    def _merge(self, job: Job) -> Question:
        memory = job.memory
        read = MemoryVersion.objects.filter(merges=job).in_order()
        inputs = list(read.select_related("memory__channel", "segment"))
        grows = memory.memory_type == MemoryType.LONG_TERM
        refs = count(1)
        base, base_lines = job.base, list[Line]()
        references = self._workspace_reference(memory)
        if job.is_rebuild:
            references += self._held_reference(memory)
        elif base is not None:
            base_lines = base.line_values() if grows else base.protected_lines()
        existing, cites = _memory_lines(base_lines, refs)
        existing = _without(existing, self._held_back(memory, base_lines))
        additions = []
        for version in inputs:
            values = version.line_values()
            lines, more = _memory_lines(values, refs)
            flowing = _without(lines, self._held_back(memory, values, version.memory.channel))
            additions.append(Addition(self._title(memory, version), flowing))
            cites += more
        channel = memory.channel
        request = Request(
            scope=MemoryScope(memory.scope),
            memory_type=MemoryType(memory.memory_type),
            max_tokens=self.settings.long_term_max_tokens
            if grows
            else self.settings.short_term_max_tokens,
            language=self.settings.output_language,
            zone=self.settings.time_zone,
            place=f"#{safe_name(channel.name)}" if channel else safe_name(self.workspace.name),
            existing=existing,
            additions=additions,
            references=references,
            operations=self.settings.merge_mode == "operations",
        )
        until_us = max((v.until_us for v in inputs), default=0)
        if job.base and grows:
            until_us = max(until_us, job.base.until_us)
        return Question(request, cites, until_us, 0, None, base_lines)

    def _held_back(
        self, output: Memory, lines: Sequence[Line], channel: Channel | None = None
    ) -> set[int]:
        """Positions of lines that have no place in the workspace's memory: those that rest on the
        word of guests and strangers alone, or, as lines of this channel, may do so. Whoever opted
        a channel in let all of it in."""
        if output.channel_id is not None:
            return set()
        cited = Message.objects.filter(pk__in={pk for line in lines for pk in line.sources})
        said = cited.exclude(channel__in_workspace_memory=True).from_outsiders()
        outside = frozenset(said.values_list("pk", flat=True))
        found = {n for n, line in enumerate(lines) if rests_only_on(line, outside)}
        untold = {n for n, line in enumerate(lines) if not (line.sources or line.is_protected)}
        may_be_theirs = (
            untold
            and channel is not None
            and not channel.in_workspace_memory
            and channel.messages.from_outsiders().exists()
        )
        return found | untold if may_be_theirs else found

    def _title(self, memory: Memory, version: MemoryVersion) -> str:
        if memory.scope == MemoryScope.WORKSPACE:
            return f"#{safe_name(version.memory.channel.name)}" if version.memory.channel else ""
        if version.segment is None:
            return f"v{version.number}"
        first, last = (
            from_micros(us).astimezone(self.settings.zone)
            for us in (version.segment.first_us, version.segment.last_us)
        )
        return f"{first:%Y-%m-%d %H:%M} – {last:%Y-%m-%d %H:%M}"

    # -- references (S3's table), readable by every reader of the output

    def _workspace_reference(self, output: Memory) -> list[Reference]:
        channel = output.channel
        if channel is None or channel.has_guests():
            return []
        memory = (
            Memory.objects.with_current()
            .filter(
                workspace=self.workspace,
                scope=MemoryScope.WORKSPACE,
                memory_type=MemoryType.LONG_TERM,
                current__isnull=False,
            )
            .first()
        )
        return [self._refer("workspace memory", memory, output)] if memory else []

    def _held_reference(self, memory: Memory) -> list[Reference]:
        """What people hold of a memory that is made anew: code puts it back, beside what is said."""
        held = memory.current.protected_lines() if memory.current else []
        text = "\n".join(clean_for_model(line.text) for line in held)
        return [Reference("lines that stay", text, same_memory=True)] if held else []

    def _refer(self, name: str, source: Memory, output: Memory) -> Reference:
        """A memory's text beside what is summarised. Raises MixedAudience, whoever asked for it,
        unless each reader of the output may read it: guests do not know the workspace's memory."""
        version, channel = source.current, output.channel
        is_own = channel is not None and source.channel_id == channel.pk
        is_wider = source.channel_id is None and channel is not None and not channel.has_guests()
        if (
            version is None
            or version.audience != MemoryVersion.Audience.SCOPE
            or not (is_own or is_wider)
        ):
            raise MixedAudience(f"{source.pk} for {output.pk}")
        return Reference(name, clean_for_model(version.content), same_memory=source.pk == output.pk)


def _channel(memory: Memory) -> Channel:
    if memory.channel is None:
        raise ValueError(f"{memory} has no channel")
    return memory.channel


def _without(shown: Sequence[MemoryLine], positions: set[int]) -> list[MemoryLine]:
    """None is numbered otherwise for it: the reply may be read when people have changed."""
    return [line for n, line in enumerate(shown) if n not in positions]


def _memory_lines(
    lines: Iterable[Line], refs: "count[int]"
) -> tuple[list[MemoryLine], list[Sequence[int]]]:
    """Lines as the request shows them, and the messages of each."""
    shown: list[MemoryLine] = []
    cites: list[Sequence[int]] = []
    for line in lines:
        text = clean_for_model(words_of(line.text))
        kind = Kind(line.kind) if line.kind else None
        shown.append(MemoryLine(next(refs), text, line.is_protected, kind, line.at_us))
        cites.append(line.sources)
    return shown, cites
