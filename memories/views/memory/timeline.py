"""The timeline of a channel: messages, segments, versions and decisions on each of the last days."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from memories.models import Channel, Memory, MemoryVersion, Message, Segment
from memories.models.ingest.messages import MessageQuerySet
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.kinds import Kind
from memories.rules.memory.timeline import Day, bar_heights, last_days
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.display import VersionDisplay, visible_versions
from memories.views.memory.seen import text_time

DAYS = 14
HEIGHT = 16
STEP = 10  # the distance of two bars


@dataclass(frozen=True)
class TimelineRow:
    """The numbers of one kind of thing by day."""

    label: str
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def bars(self) -> list[tuple[int, int, int]]:
        """The x, y and height of each bar."""
        heights = bar_heights(self.counts, HEIGHT)
        return [(i * STEP, HEIGHT - height, height) for i, height in enumerate(heights)]


@dataclass(frozen=True)
class Timeline:
    days: list[date]
    rows: list[TimelineRow]
    width: int = DAYS * STEP
    height: int = HEIGHT

    @property
    def is_empty(self) -> bool:
        return not any(row.total for row in self.rows)

    @property
    def counts_by_day(self) -> list[tuple[date, list[int]]]:
        return [(day, [row.counts[i] for row in self.rows]) for i, day in enumerate(self.days)]


def load_timeline(
    access: WorkspaceAccess,
    channel: Channel,
    long_term: Memory | None,
    shown: VersionDisplay | None,
    now: datetime,
) -> Timeline:
    """Count by day in the reader's zone, the decisions among the ``shown`` lines. Three queries.

    A version by a model counts at the end of its period, another one when it was saved.
    """
    days = last_days(now, access.zone, DAYS)
    messages = Message.objects.visible_to(access.reader).filter(
        channel=channel, state=Message.State.LIVE, is_notice=False
    )
    segments = Segment.objects.visible_to(access.reader).of_channel().filter(channel=channel)
    versions = visible_versions(long_term, access) if long_term else MemoryVersion.objects.none()
    begin_us = days[0].begin_us
    segment_times = segments.filter(last_us__gte=begin_us).values_list("last_us", flat=True)
    recent = versions.filter(Q(until_us__gte=begin_us) | Q(created_at__gte=from_micros(begin_us)))
    version_times = (
        text_time(*values) for values in recent.values_list("origin", "until_us", "created_at")
    )
    decided = [line.at_us for line in (shown.lines if shown else ()) if line.kind == Kind.DECISION]
    return Timeline(
        [day.date for day in days],
        [
            TimelineRow(_("Messages"), _count_messages(messages, days)),
            TimelineRow(_("Segments"), _count_by_day(segment_times, days)),
            TimelineRow(_("Versions"), _count_by_day(version_times, days)),
            TimelineRow(_("Decisions"), _count_by_day(decided, days)),
        ],
    )


def _count_messages(messages: MessageQuerySet, days: Sequence[Day]) -> list[int]:
    """Count in the database: there may be thousands."""
    sums = {
        f"day_{i}": Count("pk", filter=Q(micros__gte=day.begin_us, micros__lt=day.end_us))
        for i, day in enumerate(days)
    }
    totals = messages.filter(micros__gte=days[0].begin_us).aggregate(**sums)
    return [totals[name] for name in sums]


def _count_by_day(times_us: Iterable[int], days: Sequence[Day]) -> list[int]:
    times = list(times_us)
    return [sum(day.begin_us <= us < day.end_us for us in times) for day in days]
