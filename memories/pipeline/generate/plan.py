"""messages → segments and jobs: close what is due in a channel (rules 1, 2, 3 and 7)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from memories.models import (
    Backfill,
    Channel,
    Job,
    Memory,
    MemoryVersion,
    Message,
    Segment,
    Workspace,
)
from memories.pipeline.generate import followups
from memories.pipeline.generate.input_keys import provisional_key, segment_key
from memories.rules.batches import in_batches
from memories.rules.generate.segments import (
    Trigger,
    UpdateDecision,
    cut_waiting_messages,
    find_waiting_decision,
    should_update_short_term_memory,
)
from memories.rules.ingest.timestamps import SECOND, to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.settings import MemorySettings


@dataclass(frozen=True)
class WaitingMessage:
    """A message in no segment yet, or one whose segment is summarised again."""

    pk: int
    micros: int
    ts: str
    edited_ts: str
    has_text: bool
    thread_ts: str


class Window(NamedTuple):
    """The messages of a new segment."""

    messages: Sequence[WaitingMessage]
    reason: Trigger
    closed_us: int


def channels_to_plan(
    workspace: Workspace, now_us: int
) -> list[tuple[Channel, UpdateDecision | None]]:
    """Return channels with something new, and the decision of those that have to wait.

    Of these nothing can be closed. A quiet one, or one that has to wait, costs no other query.
    """
    settings = workspace.memory_settings
    waiting = Message.objects.waiting().until(now_us).filter(channel=OuterRef("pk")).order_by()
    counts = waiting.values("channel").annotate(
        first=Min("micros"), latest=Max("micros"), new=Count("pk")
    )
    threads = threads_to_plan(workspace, now_us) if settings.thread_memories else set()
    with_threads = {channel for channel, _ in threads}
    segments = Segment.objects.filter(channel=OuterRef("pk"))
    channels = (
        workspace.channels.past_first_sync()
        .annotate(
            **{name: Subquery(counts.values(name)) for name in ("first", "latest", "new")},
            has_memory=Exists(segments.of_channel()),
            is_stale=Exists(segments.filter(stale=True)),
        )
        # PostgreSQL turns EXISTS into a scan of all old messages that are in no segment.
        .filter(
            Q(start_us__isnull=True)
            | Q(new__isnull=False)
            | Q(pk__in=with_threads)
            | Q(is_stale=True)
        )
    )
    return [
        (
            channel,
            None if channel.pk in with_threads else _find_wait(channel, now_us, settings),
        )
        for channel in channels.order_by("pk")
    ]


def _find_wait(channel: Any, now_us: int, settings: MemorySettings) -> UpdateDecision | None:
    """Return the decision to wait for a row of `channels_to_plan`, or None.

    A channel without a segment may get its first memory. One with a new start mark may close what is
    before its segments.
    """
    is_cut = channel.start_us is not None and channel.segments_from_us == channel.start_us
    if not (is_cut and channel.has_memory and channel.new) or channel.is_stale:
        return None
    return find_waiting_decision(channel.first, channel.latest, channel.new, now_us, settings)


def threads_to_plan(workspace: Workspace, now_us: int, **lookups: Channel) -> set[tuple[int, str]]:
    """Return (channel key, thread ts) of threads with new messages that are long enough.

    A thread that has a segment is. Others are not read: there may be very many short ones.
    """
    waiting = Message.objects.waiting_in_threads().until(now_us)
    long_enough = (
        waiting.filter(channel__workspace=workspace, **lookups)
        .values_list("channel", "thread_ts")
        .annotate(waiting=Count("pk"))
        .filter(waiting__gte=workspace.memory_settings.thread_min_messages)
    )
    replies = waiting.filter(channel=OuterRef("channel"), thread_ts=OuterRef("thread_ts"))
    segments = Segment.objects.filter(Exists(replies), channel__workspace=workspace, **lookups)
    threads = segments.exclude(thread_ts="").values_list("channel", "thread_ts")
    return {*threads, *((channel, thread_ts) for channel, thread_ts, _ in long_enough)}


@transaction.atomic
def plan_channel(
    channel_id: int, now: datetime, *, close_now: str | None = None
) -> tuple[list[Segment], UpdateDecision] | None:
    """Close the segments of a channel that are due as of ``now``, and schedule their jobs.

    ``close_now`` closes this thread, or the channel itself with "", though it is not due. Returns
    None for a deleted channel. The row lock makes two passes take turns.
    """
    channel = (
        Channel.objects.select_for_update(of=("self",), no_key=True)
        .select_related("workspace")
        .filter(pk=channel_id)
        .first()
    )
    return None if channel is None else _Planner(channel, to_micros(now), close_now).plan()


@dataclass
class _Planner:
    """Plans one channel, whose row is locked.

    ``segments_until_us`` is the time of the last message in a segment of the channel or thread.
    """

    channel: Channel
    now_us: int
    close_now: str | None

    def plan(self) -> tuple[list[Segment], UpdateDecision]:
        channel = self.channel
        self.settings = channel.workspace.memory_settings
        if channel.start_us is None:
            channel.remember_from(self.now_us - self.settings.window_us)
        self.memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
        waiting = _read_messages(
            Message.objects.waiting().filter(channel=channel).until(self.now_us)
        )
        segments_until_us = channel.segments.of_channel().aggregate(last=Max("last_us"))["last"]
        decision = self._decide(waiting, segments_until_us)
        closed = self._cut("", waiting, segments_until_us, decision)
        segments = self._create_segments("", closed)
        if closed:
            in_windows = {m.pk for window in closed for m in window.messages}
            still_open = [m for m in waiting if m.pk not in in_windows]
            segments_until_us = max(
                segments_until_us or 0, *(window.messages[-1].micros for window in closed)
            )
            decision = self._decide(still_open, segments_until_us)
        self._schedule_edited()
        backfill = Backfill.objects.find_unfinished(channel) if closed else None
        for segment, window in zip(segments, closed, strict=True):
            is_covered = backfill is not None and backfill.covers(segment)
            self._schedule_segment(segment, window.messages, backfill if is_covered else None)
        if not segments and decision.reason is Trigger.FIRST and self.memory.head == 0:
            self._schedule_provisional(waiting, decision)
        if self.settings.thread_memories:
            self._plan_threads()
        if channel.segments_from_us != channel.start_us:
            channel.mark_segments_complete()
        return segments, decision

    def _decide(
        self, waiting: Sequence[WaitingMessage], segments_until_us: int | None
    ) -> UpdateDecision:
        times = [m.micros for m in waiting]
        return should_update_short_term_memory(
            max(times if segments_until_us is None else [segments_until_us, *times], default=None),
            len(waiting),
            self.now_us,
            self.settings,
            has_memory=self.memory.head > 0 or segments_until_us is not None,
        )

    def _cut(
        self,
        thread_ts: str,
        waiting: Sequence[WaitingMessage],
        segments_until_us: int | None,
        decision: UpdateDecision,
    ) -> list[Window]:
        cuts = cut_waiting_messages(
            [m.micros for m in waiting],
            self.channel.segments_from_us,
            segments_until_us,
            decision,
            self.now_us,
            self.settings,
            is_requested=self.close_now == thread_ts,
        )
        return [Window(waiting[c.begin : c.end], c.reason, c.closed_us) for c in cuts]

    def _create_segments(self, thread_ts: str, closed: Sequence[Window]) -> list[Segment]:
        if not closed:
            return []
        earlier = self.channel.segments.filter(thread_ts=thread_ts)
        newest_number = earlier.aggregate(n=Max("number"))["n"] or 0
        created_us = to_micros(timezone.now())
        segments = Segment.objects.bulk_create(
            Segment(
                channel=self.channel,
                thread_ts=thread_ts,
                number=newest_number + i,
                first_us=window.messages[0].micros,
                last_us=window.messages[-1].micros,
                closed_us=window.closed_us,
                created_us=created_us,
                message_count=len(window.messages),
                reason=window.reason,
            )
            for i, window in enumerate(closed, start=1)
        )
        column = "thread_segment" if thread_ts else "segment"
        for segment, window in zip(segments, closed, strict=True):
            for keys in in_batches(m.pk for m in window.messages):
                Message.objects.filter(pk__in=keys).update(**{column: segment})
        return segments

    def _schedule_segment(
        self,
        segment: Segment,
        messages: Sequence[WaitingMessage],
        backfill: Backfill | None = None,
        *,
        is_edited: bool = False,
    ) -> None:
        if not any(m.has_text for m in messages):
            segment.settle(Segment.Outcome.SKIPPED)
            return
        job, is_new = Job.objects.get_or_create(
            input_key=segment_key(self.memory, segment, ((m.ts, m.edited_ts) for m in messages)),
            defaults={
                "memory": self.memory,
                "segment": segment,
                "backfill": backfill,
                "as_of_us": self.now_us,
                "trigger": {
                    "reason": segment.reason,
                    "new": segment.message_count,
                    "quiet_s": (segment.closed_us - segment.last_us) // SECOND,
                },
            },
        )
        if is_edited and not is_new:
            # The messages are as they were when this job read them, but its text was taken away.
            job.reopen(Job.State.SUPERSEDED, Job.State.DONE)

    def _schedule_provisional(
        self, waiting: Sequence[WaitingMessage], decision: UpdateDecision
    ) -> None:
        """Schedule a channel's first memory at once, but only once (rule 2)."""
        if any(m.has_text for m in waiting):
            Job.objects.get_or_create(
                input_key=provisional_key(self.memory),
                defaults={
                    "memory": self.memory,
                    "provisional": True,
                    "as_of_us": self.now_us,
                    "trigger": {
                        "reason": decision.reason,
                        "new": decision.new_count,
                        "quiet_s": decision.quiet_us // SECOND,
                    },
                },
            )

    # Edits (rule 3)

    def _schedule_edited(self) -> None:
        """Make the versions of segments with edited or deleted messages again."""
        stale = self.channel.segments.filter(stale=True)
        for thread_ts in set(stale.exclude(thread_ts="").values_list("thread_ts", flat=True)):
            self._schedule_edited_thread(Memory.objects.of_thread(self.channel, thread_ts))
        for segment in stale.of_channel():
            segment.clear_stale()
            if segment.outcome == Segment.Outcome.CANCELLED:
                continue  # a retry reads the messages as they are then
            if segment.outcome == Segment.Outcome.REMEMBERED and not segment.versions.exists():
                continue  # a later text replaced it: disabled history keeps one
            if segment.messages.filter(state=Message.State.EXPIRED).exists():
                continue  # a new text would lack the expired messages; deleted words are redacted
            segment.reason = Trigger.EDITED
            messages = _read_messages(segment.messages.rememberable())
            self._schedule_segment(segment, messages, is_edited=True)
            if not any(m.has_text for m in messages):
                _withdraw_versions(self.memory, self.memory.versions.filter(segment=segment))

    def _schedule_edited_thread(self, memory: Memory) -> None:
        """Make a thread's one text again, from all of its segments."""
        with_model = (Job.State.CLAIMED, Job.State.REPLIED)
        if memory.jobs.filter(state__in=with_model).exists():
            return  # the segments stay stale, so a pass comes back once this job is closed
        segments = self.channel.segments.filter(thread_ts=memory.thread_ts)
        messages = self.channel.messages.filter(thread_segment__in=segments)
        if messages.filter(state=Message.State.EXPIRED).exists():
            segments.update(stale=False)  # as with a channel's segments
            return
        if not any(m.has_text for m in _read_messages(messages.rememberable())):
            segments.update(stale=False, outcome=Segment.Outcome.SKIPPED)
            _withdraw_versions(memory, memory.versions.all())
            return
        segments.filter(outcome=Segment.Outcome.CANCELLED).update(stale=False)
        segments.exclude(outcome=Segment.Outcome.CANCELLED).update(
            stale=False, outcome=Segment.Outcome.WAITING
        )
        followups.schedule_thread(memory, self.now_us)

    # Threads (rule 7)

    def _plan_threads(self) -> None:
        """Apply the same rule to each thread with at least ``thread_min_messages``."""
        channel = self.channel
        threads = threads_to_plan(channel.workspace, self.now_us, channel=channel)
        messages = Message.objects.waiting_in_threads().filter(channel=channel).until(self.now_us)
        by_thread: dict[str, list[WaitingMessage]] = defaultdict(list)
        for message in _read_messages(messages.filter(thread_ts__in=[ts for _, ts in threads])):
            by_thread[message.thread_ts].append(message)
        until_by_thread: dict[str, int] = dict(
            channel.segments.filter(thread_ts__in=list(by_thread))
            .values_list("thread_ts")
            .annotate(last=Max("last_us"))
        )
        for thread_ts, replies in by_thread.items():
            segments_until_us = until_by_thread.get(thread_ts)
            if segments_until_us is None and len(replies) < self.settings.thread_min_messages:
                continue
            decision = should_update_short_term_memory(
                max(replies[-1].micros, segments_until_us or 0),
                len(replies),
                self.now_us,
                self.settings,
                has_memory=True,
            )
            closed = self._cut(thread_ts, replies, segments_until_us, decision)
            if self._create_segments(thread_ts, closed):
                followups.schedule_thread(Memory.objects.of_thread(channel, thread_ts), self.now_us)


def _read_messages(messages: QuerySet[Message]) -> list[WaitingMessage]:
    rows = messages.order_by("micros", "pk").values_list(
        "pk", "micros", "ts", "edited_ts", "text", "thread_ts"
    )
    return [
        WaitingMessage(pk, us, ts, edited, bool(text.strip()), thread_ts)
        for pk, us, ts, edited, text, thread_ts in rows
    ]


def _withdraw_versions(memory: Memory, versions: Iterable[MemoryVersion]) -> None:
    """Withdraw versions whose messages are all deleted. Pins and a person's lines stay."""
    memory.lock()
    for version in versions:
        version.withdraw()
    memory.update_current()
