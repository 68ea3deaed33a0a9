"""Estimate the costs of a backfill from the stored messages. Nothing is written (rule 3)."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from statistics import mean

from django.conf import settings
from django.db.models import Max, Prefetch, Q, QuerySet
from django.utils import timezone

from memories.models import (
    Channel,
    Job,
    Memory,
    Message,
    ModelCall,
    ModelServer,
    Price,
    Segment,
    Workspace,
)
from memories.rules.costs.estimate import (
    LINE,
    OFFLINE_STATISTICS,
    CallStatistics,
    Estimate,
    Range,
    Workload,
    estimate_costs,
    reply_tokens,
)
from memories.rules.generate.segments import cut_waiting_messages, should_update_short_term_memory
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.settings import MemorySettings
from memories.rules.tokens import count_characters, estimate_tokens, tokens_of_counts

MAX_SAMPLES = 24
AT_ONCE = 2000  # rows read at a time


def estimate_backfill(
    workspace: Workspace, channels: Iterable[Channel], since_us: int, now: datetime
) -> Estimate:
    """Return the estimate for remembering these channels from ``since_us`` on."""
    background = _workspace_memory(workspace)
    in_order = sorted(channels, key=lambda channel: channel.pk)  # the order of a pass
    workloads = (
        measure_workload(channel, workspace.memory_settings, since_us, to_micros(now), background)
        for channel in in_order
    )
    return _estimate(workloads, workspace.memory_settings, background)


def estimate_update(memory: Memory, now: datetime) -> Estimate:
    """Return the estimate for the waiting messages of a memory's channel or thread."""
    assert memory.channel is not None
    channel, thread_ts, workspace = memory.channel, memory.thread_ts, memory.workspace
    as_of_us = since_us = to_micros(workspace.synced_until(now) or now)
    if channel.start_us is None:  # the start that a first pass would set
        since_us -= workspace.memory_settings.window_us
    background = _workspace_memory(workspace)
    load = measure_workload(
        channel, workspace.memory_settings, since_us, as_of_us, background, close_now=thread_ts
    )
    load = replace(load, segments=(), messages=0) if thread_ts else replace(load, threads=())
    return _estimate([load], workspace.memory_settings, background)


def _estimate(
    workloads: Iterable[Workload], memory_settings: MemorySettings, background: int
) -> Estimate:
    model = ModelServer.objects.in_use().model
    price = Price.objects.of_model(model) if model else None
    return estimate_costs(
        workloads,
        memory_settings,
        measure_calls(model) if model else OFFLINE_STATISTICS,
        price.micros if price else None,
        concurrency=settings.MEMORYHUB_LLM_CONCURRENCY if model else 1,
        workspace_memory=background,
        is_free=not model,
    )


def measure_calls(model: str) -> CallStatistics:
    """Return statistics of this model's newest calls for segments and threads, with repeated ones."""
    calls = ModelCall.objects.filter(model=model, prompt_tokens__gt=0, ended_at__isnull=False)
    jobs = list(
        Job.objects.filter(state=Job.State.DONE, segment__isnull=False)
        .filter(pk__in=calls.values("job"))
        .select_related("memory__workspace")
        .prefetch_related(Prefetch("model_calls", queryset=calls))
        .order_by("-pk")[:MAX_SAMPLES]
    )
    if not jobs:
        return CallStatistics()
    segments = [job.segment_id for job in jobs]
    sizes = Counter[int]()
    messages = Message.objects.filter(Q(segment__in=segments) | Q(thread_segment__in=segments))
    for *keys, text in messages.values_list("segment", "thread_segment", "text"):
        for key in keys:
            sizes[key] += estimate_tokens(text) + LINE
    overheads, reply_ratios, seconds = [], [], []
    for job in jobs:
        assert job.segment_id
        tokens = sizes[job.segment_id]
        limit = job.memory.workspace.memory_settings.short_term_max_tokens
        for call in job.model_calls.all():
            assert call.ended_at
            overheads.append(call.prompt_tokens - tokens)
            reply_ratios.append(call.completion_tokens / reply_tokens(limit, tokens))
            seconds.append((call.ended_at - call.began_at).total_seconds())
    return CallStatistics(
        overhead=max(0.0, mean(overheads)),
        reply_ratio=mean(reply_ratios),
        seconds=Range(0.75, 1.0, 1.5).times(mean(seconds)),
        attempts=len(seconds) / len(jobs),
        sample=len(seconds),
    )


def measure_workload(
    channel: Channel,
    settings: MemorySettings,
    since_us: int,
    now_us: int,
    background: int,
    *,
    close_now: str | None = None,
) -> Workload:
    """Return the messages of a channel without a memory, cut into segments as a pass does.

    ``close_now`` is the ts of a thread, or "" for the channel, whose open segment ends now.
    """
    waiting, is_japanese = _waiting(channel, settings, since_us, now_us)
    messages, segments = _cancelled(channel, since_us, "segment")
    _, threads = _cancelled(channel, since_us, "thread_segment")
    last_cuts = channel.segments.values_list("thread_ts").annotate(Max("last_us")).order_by()
    until_by_thread = dict(last_cuts)
    for thread_ts, (times, tokens) in waiting.items():
        segments_until_us = until_by_thread.get(thread_ts)
        if thread_ts and segments_until_us is None and len(times) < settings.thread_min_messages:
            continue
        latest_us = max(times[-1], segments_until_us or 0)
        decision = should_update_short_term_memory(
            latest_us, len(times), now_us, settings, has_memory=True
        )
        is_closed_now = close_now == thread_ts
        from_us = channel.segments_from_us
        cuts = cut_waiting_messages(
            times,
            from_us,
            segments_until_us,
            decision,
            now_us,
            settings,
            is_requested=is_closed_now,
        )
        if thread_ts and cuts:  # a thread has one version of all its messages
            cuts = [replace(cuts[-1], begin=cuts[0].begin)]
        for cut in cuts:
            if length := sum(tokens[cut.begin : cut.end]):
                (threads if thread_ts else segments).append(length)
                messages += 0 if thread_ts else cut.end - cut.begin
    lengths = _lengths(Memory.objects.filter(channel=channel, scope=MemoryScope.CHANNEL))
    return Workload(
        channel.slack_id,
        channel.name,
        messages,
        segments,
        threads,
        background=0 if channel.may_have_guests(timezone.now()) else background,
        short_term=lengths.get(MemoryType.SHORT_TERM, 0),
        long_term=lengths.get(MemoryType.LONG_TERM, 0),
        is_public=channel.is_public,
        latest_us=max(waiting[""][0], default=0),
        is_japanese=is_japanese,
    )


def _waiting(
    channel: Channel, settings: MemorySettings, since_us: int, now_us: int
) -> tuple[dict[str, tuple["array[int]", "array[int]"]], bool]:
    """Return the times and tokens of messages without a segment, by thread ("" for the channel).

    Also return whether most of their text is Japanese.
    """
    waiting: dict[str, tuple[array[int], array[int]]] = defaultdict(
        lambda: (array("q"), array("l"))
    )
    start_us = since_us if channel.start_us is None else min(since_us, channel.start_us)
    uncut = Q(segment=None)
    if settings.thread_memories:
        uncut |= Q(thread_segment=None) & ~Q(thread_ts="")
    messages = Message.objects.rememberable().filter(uncut, channel=channel, micros__gte=start_us)
    columns = ("micros", "thread_ts", "segment", "thread_segment", "text")
    rows = messages.until(now_us).in_order().values_list(*columns)
    wide = others = 0
    for us, thread_ts, segment, in_thread, text in rows.iterator(AT_ONCE):
        size = count_characters(text)
        wide, others = wide + size[0], others + size[1]
        keys = [] if segment else [""]
        if thread_ts and in_thread is None and settings.thread_memories:
            keys.append(thread_ts)
        for key in keys:
            times, tokens = waiting[key]
            times.append(us)
            tokens.append(tokens_of_counts(*size) + LINE if text.strip() else 0)
    return waiting, 2 * wide > others


def _cancelled(channel: Channel, since_us: int, column: str) -> tuple[int, list[int]]:
    """Return the number of messages in cancelled segments, and the tokens of each segment."""
    cancelled = Segment.objects.filter(
        channel=channel, outcome=Segment.Outcome.CANCELLED, last_us__gte=since_us
    )
    messages = Message.objects.rememberable().filter(**{f"{column}__in": cancelled.values("pk")})
    sizes, numbers = Counter[int](), Counter[int]()
    for key, text in messages.values_list(column, "text").iterator(AT_ONCE):
        sizes[key] += estimate_tokens(text) + LINE if text.strip() else 0
        numbers[key] += 1
    filled = [key for key in sizes if sizes[key]]
    return sum(numbers[key] for key in filled), [sizes[key] for key in filled]


def _workspace_memory(workspace: Workspace) -> int:
    of_workspace = Memory.objects.filter(workspace=workspace, scope=MemoryScope.WORKSPACE)
    return _lengths(of_workspace).get(MemoryType.LONG_TERM, 0)


def _lengths(memories: "QuerySet[Memory]") -> dict[str, int]:
    """Return the tokens of the current texts by memory type."""
    current = memories.filter(current__isnull=False, current__provisional=False)
    return {
        memory_type: estimate_tokens(content)
        for memory_type, content in current.values_list("memory_type", "current__content")
    }
