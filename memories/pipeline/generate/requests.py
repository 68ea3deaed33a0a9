"""job → request: the text that a summariser gets, read from the rows as they are now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from django.utils import timezone

from memories.models import Channel, Job, Memory, MemoryVersion, Message, Segment, Workspace
from memories.models.ingest.names import Names
from memories.rules.generate.prompts import clean_for_model, speaker_name
from memories.rules.ingest.markup import mention_labels, mentions_in, render_plain
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.kinds import Kind
from memories.rules.memory.lines import Line, rests_only_on, strip_bullet
from memories.rules.settings import MemorySettings
from memories.rules.summariser import Addition, MemoryLine, MessageLine, Reference, Request


class MixedAudience(RuntimeError):
    """A prompt would hold text that not all readers of its output may read."""


@dataclass(frozen=True)
class JobRequest:
    """The request of a job, and facts that the version made from its reply needs.

    ``sources`` are the keys of the messages behind each reference of the request, from 1 on.
    ``base_lines`` are the lines of the base that the request shows, ``input_lines`` those of the
    versions to merge.
    """

    request: Request
    sources: Sequence[Sequence[int]]
    until_us: int
    message_count: int
    latest_ts: str | None
    base_lines: Sequence[Line] = ()
    input_lines: Sequence[Line] = ()


@dataclass
class RequestBuilder:
    """Builds the requests of one pass over a workspace."""

    workspace: Workspace
    may_have_guests: bool = True  # the channel of the job at hand; it may change meanwhile

    @property
    def settings(self) -> MemorySettings:
        return self.workspace.memory_settings

    def build(self, job: Job) -> JobRequest:
        memory = job.memory
        channel = memory.channel
        self.may_have_guests = channel is not None and channel.may_have_guests(timezone.now())
        if memory.scope == MemoryScope.WORKSPACE or memory.memory_type == MemoryType.LONG_TERM:
            return self._build_merge(job)
        if memory.scope == MemoryScope.THREAD:
            return self._build_thread(job)
        return self._build_segment(job)

    def _request(self, memory: Memory, **values: Any) -> Request:
        channel, settings = memory.channel, self.settings
        is_long_term = memory.memory_type == MemoryType.LONG_TERM
        return Request(
            scope=MemoryScope(memory.scope),
            memory_type=MemoryType(memory.memory_type),
            max_tokens=settings.long_term_max_tokens
            if is_long_term
            else settings.short_term_max_tokens,
            language=settings.output_language,
            zone=settings.time_zone,
            scope_name=f"#{safe_name(channel.name)}" if channel else safe_name(self.workspace.name),
            **values,
        )

    # Short-term memories of a channel (rule 4)

    def _build_segment(self, job: Job) -> JobRequest:
        channel = _channel_of(job.memory)
        if job.segment is None:  # provisional: all that waits at that time
            messages = Message.objects.waiting().filter(channel=channel).until(job.as_of_us)
        else:
            messages = Message.objects.rememberable().filter(segment=job.segment)
        if not self.settings.history_enabled:  # S1: the window, and what is not yet remembered
            window_us = self.settings.window_us
            messages = messages | Message.objects.rememberable().filter(
                channel=channel,
                micros__gte=job.as_of_us - window_us,
                micros__lte=job.as_of_us,
            )
        references = self._workspace_reference(job.memory)
        previous = job.memory.current
        if previous and not previous.provisional and previous.segment_id != job.segment_id:
            references.append(self._reference("previous memory", job.memory, job.memory))
        rows = list(messages.in_order().select_related("author"))
        return self._build_from_messages(job.memory, rows, references)

    # Threads (rule 7)

    def _build_thread(self, job: Job) -> JobRequest:
        memory = job.memory
        channel = _channel_of(memory)
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
            # After an edit all messages are read again; then the base gives its pinned lines only.
            is_growing = read.exclude(thread_segment__in=segments).exists()
            base_lines = base.line_values() if is_growing else base.protected_lines()
        references = self._workspace_reference(memory)
        channel_memories = Memory.objects.with_current().filter(
            channel=channel, scope=MemoryScope.CHANNEL, current__isnull=False
        )
        references += [
            self._reference(f"memory of #{safe_name(channel.name)}", channel_memory, memory)
            for channel_memory in channel_memories.order_by("memory_type")
        ]
        rows = list(messages.in_order().select_related("author"))
        job_request = self._build_from_messages(memory, rows, references, base_lines)
        latest = read.in_order().last()
        return replace(
            job_request,
            until_us=max(latest.micros if latest else 0, base.until_us if base else 0),
            message_count=read.count(),
            latest_ts=latest.ts if latest else None,
        )

    def _build_from_messages(
        self,
        memory: Memory,
        messages: Sequence[Message],
        references: Sequence[Reference],
        base_lines: Sequence[Line] = (),
    ) -> JobRequest:
        channel = _channel_of(memory)
        refs = count(1)
        existing, sources = _memory_lines(base_lines, refs)
        people_ids, channel_ids = mentions_in(message.text for message in messages)
        people = self.workspace.people.filter(slack_id__in=people_ids)
        public = self.workspace.channels.public().filter(slack_id__in=channel_ids)
        # Guests, who may be among its readers, may not learn the names of other channels.
        channel_names = {} if self.may_have_guests else public.names()
        names = Names(people.names(), {**channel_names, channel.slack_id: channel.name})
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
        return JobRequest(
            self._request(memory, messages=lines, existing=existing, references=references),
            [*sources, *([message.pk] for message in messages)],
            latest.micros if latest else 0,
            len(messages),
            latest.ts if latest else None,
            base_lines,
        )

    # Merges (rules 5 and 6)

    def _build_merge(self, job: Job) -> JobRequest:
        memory = job.memory
        read = MemoryVersion.objects.filter(merges=job).in_order()
        inputs = list(read.select_related("memory__channel", "segment"))
        is_long_term = memory.memory_type == MemoryType.LONG_TERM
        refs = count(1)
        base, base_lines = job.base, list[Line]()
        references = self._workspace_reference(memory)
        if job.is_rebuild:
            references += self._pinned_reference(memory)
        elif base is not None:
            base_lines = base.line_values() if is_long_term else base.protected_lines()
        existing, sources = _memory_lines(base_lines, refs)
        existing = _without(existing, self._withheld(memory, base_lines))
        additions, input_lines = [], list[Line]()
        for version in inputs:
            values = version.line_values()
            input_lines += values
            lines, line_sources = _memory_lines(values, refs)
            shown = _without(lines, self._withheld(memory, values, version.memory.channel))
            additions.append(Addition(self._title(memory, version), shown))
            sources += line_sources
        request = self._request(
            memory,
            existing=existing,
            additions=additions,
            references=references,
            operations=self.settings.merge_mode == "operations",
        )
        until_us = max((version.until_us for version in inputs), default=0)
        if base and is_long_term:
            until_us = max(until_us, base.until_us)
        return JobRequest(request, sources, until_us, 0, None, base_lines, input_lines)

    def _withheld(
        self, output: Memory, lines: Sequence[Line], channel: Channel | None = None
    ) -> set[int]:
        """Return the positions of lines that the workspace's memory may not take.

        These rest on messages of guests and outsiders alone. A line of ``channel`` without sources
        may do so. A channel that was opted in gives all its lines.
        """
        if output.channel_id is not None:
            return set()
        read = Message.objects.filter(pk__in={pk for line in lines for pk in line.sources})
        from_outside = read.exclude(channel__in_workspace_memory=True).from_outsiders()
        outside = frozenset(from_outside.values_list("pk", flat=True))
        withheld = {n for n, line in enumerate(lines) if rests_only_on(line, outside)}
        without_sources = {
            n for n, line in enumerate(lines) if not (line.sources or line.is_protected)
        }
        if (
            without_sources
            and channel is not None
            and not channel.in_workspace_memory
            and channel.messages.from_outsiders().exists()
        ):
            return withheld | without_sources
        return withheld

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

    # References (S3's table), which every reader of the output may read

    def _workspace_reference(self, output: Memory) -> list[Reference]:
        if output.channel is None or self.may_have_guests:
            return []
        memories = Memory.objects.with_current().filter(
            workspace=self.workspace,
            scope=MemoryScope.WORKSPACE,
            memory_type=MemoryType.LONG_TERM,
            current__isnull=False,
        )
        return [self._reference("workspace memory", memory, output) for memory in memories[:1]]

    def _pinned_reference(self, memory: Memory) -> list[Reference]:
        """Show a rebuild the lines that a person wrote or pinned: they are restored into its text."""
        pinned = memory.current.protected_lines() if memory.current else []
        text = "\n".join(clean_for_model(line.text) for line in pinned)
        return [Reference("lines that stay", text, same_memory=True)] if pinned else []

    def _reference(self, title: str, source: Memory, output: Memory) -> Reference:
        """Return a memory's text as background. Raises MixedAudience unless all readers of the
        output may read it; guests may not read the workspace's memory."""
        version, channel = source.current, output.channel
        is_own = channel is not None and source.channel_id == channel.pk
        is_wider = (
            source.channel_id is None
            and channel is not None
            and not channel.may_have_guests(timezone.now())
        )
        if (
            version is None
            or version.audience != MemoryVersion.Audience.SCOPE
            or not (is_own or is_wider)
        ):
            raise MixedAudience(f"{source.pk} for {output.pk}")
        return Reference(
            title, clean_for_model(version.content), same_memory=source.pk == output.pk
        )


def _channel_of(memory: Memory) -> Channel:
    if memory.channel is None:
        raise ValueError(f"memory {memory.pk} has no channel")
    return memory.channel


def _without(lines: Sequence[MemoryLine], positions: set[int]) -> list[MemoryLine]:
    """Leave lines out without renumbering: people may change before the reply is read."""
    return [line for n, line in enumerate(lines) if n not in positions]


def _memory_lines(
    lines: Iterable[Line], refs: "count[int]"
) -> tuple[list[MemoryLine], list[Sequence[int]]]:
    """Return lines as the request shows them, and the keys of each one's messages."""
    shown: list[MemoryLine] = []
    sources: list[Sequence[int]] = []
    for line in lines:
        text = clean_for_model(strip_bullet(line.text))
        kind = Kind(line.kind) if line.kind else None
        shown.append(
            MemoryLine(next(refs), text, line.is_protected, kind, line.at_us, line.unverified)
        )
        sources.append(line.sources)
    return shown, sources
