"""messages → segments, and the job rows that they want (rules 1, 2, 3 and 7)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, Q

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
from memories.rules.generate.segments import (
    Trigger,
    UpdateDecision,
    cut_waiting_messages,
    should_update_short_term_memory,
)
from memories.rules.ingest.timestamps import SECOND, to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.settings import MemorySettings


@dataclass(frozen=True)
class Waiting:
    """A message in no segment yet."""

    pk: int
    micros: int
    ts: str
    edited_ts: str
    has_text: bool


@dataclass(frozen=True)
class Window:
    """Messages that make one new segment, and why now."""

    messages: Sequence[Waiting]
    reason: Trigger
    closed_us: int


@dataclass(frozen=True)
class Planned:
    """What a pass found in one channel: new segments, and the answer about what stays open."""

    channel: Channel
    segments: Sequence[Segment]
    due: UpdateDecision


def channels_to_plan(workspace: Workspace, now_us: int) -> list[Channel]:
    """Channels in which the rules can have something to say; quiet ones cost no more than this."""
    waiting = Message.objects.waiting().until(now_us).filter(channel=OuterRef("pk"))
    is_due = Q(start_us__isnull=True) | Q(Exists(waiting))
    if workspace.memory_settings.thread_memories:
        is_due |= Q(pk__in={channel for channel, _ in _threads_to_plan(workspace, now_us)})
    stale = Segment.objects.filter(channel=OuterRef("pk"), stale=True)
    return list(workspace.channels.past_first_sync().filter(is_due | Exists(stale)).order_by("pk"))


def _threads_to_plan(workspace: Workspace, now_us: int, **place: Channel) -> set[tuple[int, str]]:
    """(channel, thread) of every thread with something new that was remembered before, or that is
    long enough to be. The others wait unread: there may be very many small ones."""
    waiting = Message.objects.waiting_in_threads().until(now_us)
    long_enough = (
        waiting.filter(channel__workspace=workspace, **place)
        .values_list("channel", "thread_ts")
        .annotate(waiting=Count("pk"))
        .filter(waiting__gte=workspace.memory_settings.thread_min_messages)
    )
    replies = waiting.filter(channel=OuterRef("channel"), thread_ts=OuterRef("thread_ts"))
    segments = Segment.objects.filter(Exists(replies), channel__workspace=workspace, **place)
    threads = segments.exclude(thread_ts="").values_list("channel", "thread_ts")
    return {*threads, *((channel, thread_ts) for channel, thread_ts, _ in long_enough)}


@transaction.atomic
def plan_channel(channel_id: int, now: datetime, *, close_now: str | None = None) -> Planned | None:
    """Fix the start mark, close what is due as of ``now``, and owe its jobs.

    ``close_now``: a person wants this thread, or "" for the channel itself, to be closed as it is now.
    None when the channel is gone. The row lock makes two passes take turns.
    """
    channel = (
        Channel.objects.select_for_update(of=("self",), no_key=True)
        .select_related("workspace")
        .filter(pk=channel_id)
        .first()
    )
    if channel is None:
        return None
    settings, now_us = channel.workspace.memory_settings, to_micros(now)
    if channel.start_us is None:
        channel.remember_from(now_us - settings.window_us)
    memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    waiting = _read(Message.objects.waiting().filter(channel=channel).until(now_us))
    frontier = channel.segments.of_channel().aggregate(last=Max("last_us"))["last"]
    due = _due(waiting, frontier, memory, now_us, settings)
    closed = _windows(waiting, channel, frontier, due, now_us, settings, close_now=close_now == "")
    segments = _make_segments(channel, "", closed)
    if closed:  # from here on the answer is about what stays open
        in_windows = {m.pk for window in closed for m in window.messages}
        frontier = max(frontier or 0, *(window.messages[-1].micros for window in closed))
        due = _due(
            [m for m in waiting if m.pk not in in_windows], frontier, memory, now_us, settings
        )
    _owe_again_for_edits(channel, memory, now_us)
    backfill = Backfill.objects.of_channel(channel) if closed else None
    for segment, window in zip(segments, closed, strict=True):
        order = backfill if backfill is not None and backfill.owns(segment) else None
        _owe_segment(memory, segment, window.messages, now_us, order)
    if not segments and due.reason is Trigger.FIRST and memory.head == 0:
        _owe_provisional(memory, waiting, due, now_us)
    if settings.thread_memories:
        _plan_threads(channel, now_us, settings, close_now)
    if channel.cut_from_us != channel.start_us:
        channel.mark_cut_from_start()
    return Planned(channel, segments, due)


def _read(messages: Any) -> list[Waiting]:
    rows = messages.in_order().values_list("pk", "micros", "ts", "edited_ts", "text")
    return [Waiting(pk, us, ts, edited, bool(text.strip())) for pk, us, ts, edited, text in rows]


def _due(
    waiting: Sequence[Waiting],
    frontier: int | None,
    memory: Memory,
    now_us: int,
    settings: MemorySettings,
) -> UpdateDecision:
    return should_update_short_term_memory(
        max((m.micros for m in waiting), default=None)
        if frontier is None
        else max((frontier, *(m.micros for m in waiting))),
        len(waiting),
        now_us,
        settings,
        has_memory=memory.head > 0 or frontier is not None,
    )


def _windows(
    waiting: Sequence[Waiting],
    channel: Channel,
    frontier: int | None,
    due: UpdateDecision,
    now_us: int,
    settings: MemorySettings,
    *,
    close_now: bool,
) -> list[Window]:
    times = [m.micros for m in waiting]
    cuts = cut_waiting_messages(
        times, channel.cut_from_us, frontier, due, now_us, settings, is_requested=close_now
    )
    return [Window(waiting[c.begin : c.end], c.reason, c.closed_us) for c in cuts]


def _make_segments(channel: Channel, thread_ts: str, closed: Sequence[Window]) -> list[Segment]:
    if not closed:
        return []
    newest_number = (
        channel.segments.filter(thread_ts=thread_ts).aggregate(n=Max("number"))["n"] or 0
    )
    segments = Segment.objects.bulk_create(
        Segment(
            channel=channel,
            thread_ts=thread_ts,
            number=newest_number + i,
            first_us=window.messages[0].micros,
            last_us=window.messages[-1].micros,
            closed_us=window.closed_us,
            message_count=len(window.messages),
            reason=window.reason,
        )
        for i, window in enumerate(closed, start=1)
    )
    column = "thread_segment" if thread_ts else "segment"
    for segment, window in zip(segments, closed, strict=True):
        for begin in range(0, len(window.messages), 500):
            pks = [m.pk for m in window.messages[begin : begin + 500]]
            Message.objects.filter(pk__in=pks).update(**{column: segment})
    return segments


def _owe_segment(
    memory: Memory,
    segment: Segment,
    messages: Sequence[Waiting],
    now_us: int,
    backfill: Backfill | None = None,
    *,
    again: bool = False,
) -> None:
    if not any(m.has_text for m in messages):
        segment.settle(Segment.Outcome.SKIPPED)
        return
    job, made = Job.objects.get_or_create(
        input_key=segment_key(memory, segment, ((m.ts, m.edited_ts) for m in messages)),
        defaults={
            "memory": memory,
            "segment": segment,
            "backfill": backfill,
            "as_of_us": now_us,
            "trigger": {
                "reason": segment.reason,
                "new": segment.message_count,
                "quiet_s": (segment.closed_us - segment.last_us) // SECOND,
            },
        },
    )
    if again and not made:
        job.make_again()


def _owe_provisional(
    memory: Memory, waiting: Sequence[Waiting], due: UpdateDecision, now_us: int
) -> None:
    """A channel's first memory, at once and once (rule 2)."""
    if any(m.has_text for m in waiting):
        Job.objects.get_or_create(
            input_key=provisional_key(memory),
            defaults={
                "memory": memory,
                "provisional": True,
                "as_of_us": now_us,
                "trigger": {
                    "reason": due.reason,
                    "new": due.new_count,
                    "quiet_s": due.quiet_us // SECOND,
                },
            },
        )


def _owe_again_for_edits(channel: Channel, memory: Memory, now_us: int) -> None:
    """An edit or deletion re-makes the text of its own version (rule 3)."""
    stale = channel.segments.filter(stale=True)
    for thread_ts in set(stale.exclude(thread_ts="").values_list("thread_ts", flat=True)):
        _owe_thread_again(channel, Memory.objects.of_thread(channel, thread_ts), now_us)
    for segment in stale.of_channel():
        segment.is_read_again()
        if segment.outcome == Segment.Outcome.CANCELLED:
            continue  # when it is wanted again, it is read as it is then
        if segment.outcome == Segment.Outcome.REMEMBERED and not segment.versions.exists():
            continue  # overwritten since by a later text: disabled history keeps one
        if segment.messages.filter(state=Message.State.EXPIRED).exists():
            continue  # made again it would lose what they said; what was deleted is masked
        segment.reason = Trigger.EDITED
        messages = _read(segment.messages.rememberable())
        if any(m.has_text for m in messages):
            _owe_segment(memory, segment, messages, now_us, again=True)
        else:
            segment.settle(Segment.Outcome.SKIPPED)
            _nothing_is_left(memory, memory.versions.filter(segment=segment))


def _nothing_is_left(memory: Memory, versions: Iterable[MemoryVersion]) -> None:
    """All that these were made from was deleted: their text goes, but for what people hold."""
    memory.lock()
    for version in versions:
        version.withdraw()
    memory.update_current()


def _owe_thread_again(channel: Channel, memory: Memory, now_us: int) -> None:
    """A thread has one text: an edit anywhere makes it anew, from all of its segments."""
    with_model = (Job.State.CLAIMED, Job.State.REPLIED)
    if memory.jobs.filter(state__in=with_model).exists():
        return  # perhaps before the edit: once that is written, a pass comes here again
    segments = channel.segments.filter(thread_ts=memory.thread_ts)
    messages = channel.messages.filter(thread_segment__in=segments)
    if messages.filter(state=Message.State.EXPIRED).exists():
        segments.update(stale=False)
        return  # as with a channel's segments
    if not any(m.has_text for m in _read(messages.rememberable())):
        segments.update(stale=False, outcome=Segment.Outcome.SKIPPED)
        _nothing_is_left(memory, memory.versions.all())
        return
    segments.filter(outcome=Segment.Outcome.CANCELLED).update(stale=False)
    segments.exclude(outcome=Segment.Outcome.CANCELLED).update(
        stale=False, outcome=Segment.Outcome.WAITING
    )
    followups.thread(memory, now_us)


def _plan_threads(
    channel: Channel, now_us: int, settings: MemorySettings, close_now: str | None
) -> None:
    """The same rule over each thread's own messages, from ``thread_min_messages`` on (rule 7)."""
    waiting: dict[str, list[Waiting]] = defaultdict(list)
    threads = _threads_to_plan(channel.workspace, now_us, channel=channel)
    messages = Message.objects.waiting_in_threads().filter(channel=channel).until(now_us)
    messages = messages.filter(thread_ts__in=[thread_ts for _, thread_ts in threads])
    rows = messages.in_order().values_list("thread_ts", "pk", "micros", "ts", "edited_ts", "text")
    for thread_ts, pk, us, ts, edited, text in rows:
        waiting[thread_ts].append(Waiting(pk, us, ts, edited, bool(text.strip())))
    frontiers: dict[str, int] = dict(
        channel.segments.filter(thread_ts__in=list(waiting))
        .values_list("thread_ts")
        .annotate(last=Max("last_us"))
    )
    for thread_ts, replies in waiting.items():
        frontier = frontiers.get(thread_ts)
        if frontier is None and len(replies) < settings.thread_min_messages:
            continue
        due = should_update_short_term_memory(
            max(replies[-1].micros, frontier or 0),
            len(replies),
            now_us,
            settings,
            has_memory=True,
        )
        closed = _windows(
            replies, channel, frontier, due, now_us, settings, close_now=close_now == thread_ts
        )
        if _make_segments(channel, thread_ts, closed):
            followups.thread(Memory.objects.of_thread(channel, thread_ts), now_us)
