"""rows → quote: what a backfill would cost, read from the messages and written nowhere (rule 3)."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from django.conf import settings
from django.db.models import Max, Q, QuerySet

from memories.models import (
    Call,
    Channel,
    Generation,
    Memory,
    MemoryVersion,
    Message,
    Price,
    Segment,
    Workspace,
)
from memories.models.messages import MessageQuerySet, name_of_author
from memories.models.names import Names
from memories.pipeline.ask import Asker
from memories.pipeline.owe import MOST_INPUT_TOKENS
from memories.rules import prompts
from memories.rules.bounds import INPUT_LIMIT
from memories.rules.markup import plain
from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.quote import OFFLINE_RATES, Quote, Rates, Sample, measured_rates, quote_of
from memories.rules.segments import Cut, should_update_short_term_memory
from memories.rules.slacktime import to_micros
from memories.rules.summary import Request
from memories.rules.tokens import estimate
from memories.rules.windows import windows
from memories.rules.workload import (
    REPLY,
    Limits,
    Lines,
    Load,
    Size,
    Text,
    expected_output,
    line_size,
)

MOST_SAMPLES = 24
AT_ONCE = 2000  # rows read at a time
ABOVE = "workspace memory"  # as `ask` calls it


def quote_backfill(
    workspace: Workspace, channels: Iterable[Channel], since_us: int, now: datetime
) -> Quote:
    """What remembering these channels from ``since_us`` on would cost now. Writes nothing."""
    reader = _Reader(workspace, since_us, to_micros(now))
    in_order = sorted(channels, key=lambda channel: channel.pk)  # as passes plan them
    return _quote(reader, (reader.load(channel) for channel in in_order))


def _quote(reader: "_Reader", loads: Iterable[Load]) -> Quote:
    model = settings.MEMORYHUB_MODEL
    price = Price.objects.of_model(model) if model else None
    side_by_side = settings.MEMORYHUB_LLM_CONCURRENCY if model else 1
    return quote_of(
        loads,
        reader.settings,
        Limits(INPUT_LIMIT, MOST_INPUT_TOKENS, side_by_side),
        rates_of(model) if model else OFFLINE_RATES,
        price.micros if price else None,
        workspace_memory=reader.background,
        is_free=not model,
    )


def quote_update(memory: Memory, now: datetime) -> Quote:
    """What it costs to remember at once what waits in the memory's channel, or in its thread."""
    assert memory.channel is not None
    channel, thread_ts = memory.channel, memory.thread_ts
    workspace = memory.workspace
    as_of_us = since_us = to_micros(workspace.known_until(now) or now)
    if channel.start_us is None:  # as a first pass would fix it
        since_us -= workspace.memory_settings.window_us
    reader = _Reader(workspace, since_us, as_of_us, asked=thread_ts)
    load = reader.load(channel)
    wanted = replace(load, segments=()) if thread_ts else replace(load, threads=())
    return _quote(reader, [wanted])


def rates_of(model: str) -> Rates:
    """How this model answered lately: its newest calls against what is expected of such."""
    samples = []
    askers: dict[int, Asker] = {}
    calls = (
        Call.objects.filter(model=model, requests=1, fault="", ended_at__isnull=False)
        .filter(generation__state=Generation.State.DONE)
        .order_by("-pk")[:MOST_SAMPLES]
    )
    for call in calls:
        generation = Generation.objects.with_memory().get(claims=call)
        workspace = generation.memory.workspace
        asker = askers.setdefault(workspace.pk, Asker(workspace))
        request = _as_then(asker.question(generation).request, generation, call.began_at)
        if request.is_empty or call.ended_at is None:
            continue
        data = estimate(prompts.data_text(request, "0" * 8))
        samples.append(
            Sample(
                expected_in=estimate(prompts.instructions(request)) + data,
                tokens_in=call.prompt_tokens,
                expected_out=expected_output(request.max_tokens, data),
                tokens_out=call.completion_tokens,
                seconds=(call.ended_at - call.began_at).total_seconds(),
            )
        )
    return measured_rates(samples)


def _as_then(request: Request, generation: Generation, at: datetime) -> Request:
    """The request with those references only that were there when it was asked."""
    memory = generation.memory
    there = MemoryVersion.objects.filter(memory__workspace=memory.workspace_id, created_at__lt=at)
    above = there.filter(
        memory__scope=MemoryScope.WORKSPACE, memory__memory_type=MemoryType.LONG_TERM
    )
    of_channel = there.filter(memory__channel=memory.channel, memory__scope=MemoryScope.CHANNEL)
    types = of_channel.values_list("memory__memory_type", flat=True).distinct().order_by()
    kept = [r for r in request.references if r.title == ABOVE and above.exists()]
    kept += [r for r in request.references if r.title != ABOVE][: len(types)]
    return replace(request, references=kept)


@dataclass
class _Waiting:
    """The messages of a conversation that would be cut: their times and sizes, not their texts."""

    times: "array[int]" = field(default_factory=lambda: array("q"))
    wide: "array[int]" = field(default_factory=lambda: array("l"))
    narrow: "array[int]" = field(default_factory=lambda: array("l"))
    has_text: bytearray = field(default_factory=bytearray)

    def add(self, us: int, size: Size, mark: int = 0) -> None:
        wide, narrow, has_text = size
        self.times.append(us)
        self.wide.append(wide)
        self.narrow.append(narrow + mark)
        self.has_text.append(has_text)

    def texts(self, cuts: Iterable[Cut]) -> Iterator[Text]:
        """What a summary of each would read; those without any text cost nothing."""
        for one in cuts:
            lines = Lines()
            for i in range(one.begin, one.end):
                lines.add((self.wide[i], self.narrow[i], bool(self.has_text[i])))
            if lines.has_text:
                yield lines.text


@dataclass(frozen=True)
class _Row:
    """A message, as far as it counts."""

    us: int
    thread_ts: str
    is_reply: bool
    segment: int | None
    thread_segment: int | None
    size: Size


class _Reader:
    """Reads channel after channel; of each only numbers are kept. ``asked``: as `plan_channel`."""

    def __init__(
        self, workspace: Workspace, since_us: int, now_us: int, *, asked: str | None = None
    ) -> None:
        self.asked = asked
        self.settings = workspace.memory_settings
        self.since_us = since_us
        self.now_us = now_us
        self.names = Names.public(workspace)
        long_term = Memory.objects.filter(workspace=workspace, scope=MemoryScope.WORKSPACE)
        self.background = _lengths(long_term).get(MemoryType.LONG_TERM, 0)

    def load(self, channel: Channel) -> Load:
        talk, threads = self._uncut(channel)
        segments = [*self._left_out(channel, "segment"), *self._cut(channel, "", talk)]
        of_threads = [*self._left_out(channel, "thread_segment")]
        for thread_ts, replies in threads.items():
            of_threads += self._cut(channel, thread_ts, replies)
        known = _lengths(Memory.objects.filter(channel=channel, scope=MemoryScope.CHANNEL))
        return Load(
            channel.slack_id,
            channel.name,
            segments,
            of_threads,
            is_public=channel.is_public,
            background=0 if channel.has_guests() else self.background,
            short_term=known.get(MemoryType.SHORT_TERM, 0),
            long_term=known.get(MemoryType.LONG_TERM, 0),
            is_recent=max(talk.times, default=0) >= self.now_us - self.settings.window_us,
        )

    def _uncut(self, channel: Channel) -> tuple[_Waiting, dict[str, _Waiting]]:
        """What is in no segment yet, of the channel and of its threads."""
        start_us = (
            self.since_us if channel.start_us is None else min(self.since_us, channel.start_us)
        )
        uncut = Q(segment=None)
        if self.settings.thread_memories:
            uncut |= Q(thread_segment=None) & ~Q(thread_ts="")
        found = Message.objects.rememberable().filter(uncut, channel=channel, micros__gte=start_us)
        talk, threads = _Waiting(), defaultdict[str, _Waiting](_Waiting)
        for row in self._rows(found.until(self.now_us).in_order()):
            if row.segment is None:
                talk.add(row.us, row.size, REPLY if row.is_reply else 0)
            if row.thread_ts and row.thread_segment is None and self.settings.thread_memories:
                threads[row.thread_ts].add(row.us, row.size)
        return talk, threads

    def _cut(self, channel: Channel, thread_ts: str, waiting: _Waiting) -> list[Text]:
        """The summaries of what would be cut: one a segment, or one of all that a thread has."""
        times = waiting.times
        segments = channel.segments.filter(thread_ts=thread_ts)
        frontier = segments.aggregate(last=Max("last_us"))["last"] if times else None
        if not times or (thread_ts and not self._is_remembered(frontier, len(times))):
            return []
        due = should_update_short_term_memory(
            max(times[-1], frontier or 0), len(times), self.now_us, self.settings, has_memory=True
        )
        cuts = windows(
            times,
            channel.cut_from_us,
            frontier,
            due,
            self.now_us,
            self.settings,
            asked=self.asked == thread_ts,
        )
        if thread_ts and cuts:
            cuts = [replace(cuts[-1], begin=cuts[0].begin)]
        return list(waiting.texts(cuts))

    def _is_remembered(self, frontier: int | None, replies: int) -> bool:
        return frontier is not None or replies >= self.settings.thread_min_messages

    def _left_out(self, channel: Channel, column: str) -> Iterator[Text]:
        """What somebody cancelled in this period is wanted again."""
        cancelled = Segment.objects.filter(
            channel=channel, outcome=Segment.Outcome.CANCELLED, last_us__gte=self.since_us
        )
        if not cancelled.exists():
            return
        found = Message.objects.rememberable().filter(**{f"{column}__in": cancelled.values("pk")})
        mark = REPLY if column == "segment" else 0
        rows = self._rows(found.order_by(column, "micros", "pk"))
        for _, messages in groupby(rows, key=attrgetter(column)):
            lines = Lines()
            for row in messages:
                wide, narrow, has_text = row.size
                lines.add((wide, narrow + (mark if row.is_reply else 0), has_text))
            if lines.has_text:
                yield lines.text

    def _rows(self, messages: MessageQuerySet) -> Iterator[_Row]:
        columns = messages.values_list(
            "micros",
            "ts",
            "thread_ts",
            "segment",
            "thread_segment",
            "text",
            "author__name",
            "username",
        )
        for us, ts, thread_ts, segment, in_thread, text, person, username in columns.iterator(
            AT_ONCE
        ):
            author = name_of_author(person or "", username) or prompts.UNKNOWN
            size = line_size(plain(text, self.names), author)
            yield _Row(us, thread_ts, thread_ts not in ("", ts), segment, in_thread, size)


def _lengths(memories: "QuerySet[Memory]") -> dict[str, int]:
    """Tokens of the current texts, by type."""
    current = memories.filter(current__isnull=False, current__provisional=False)
    return {
        memory_type: estimate(content)
        for memory_type, content in current.values_list("memory_type", "current__content")
    }
