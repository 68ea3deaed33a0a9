"""A bar chart of the messages in a channel on each of the last days. One query."""

from dataclasses import dataclass
from datetime import date, datetime

from django.db.models import Count, Q

from memories.models import Channel, Message
from memories.rules.memory.activity import bar_heights, last_days
from memories.views.access.access import WorkspaceContext

DAYS = 14
HEIGHT = 32
STEP = 10  # the distance of two bars


@dataclass(frozen=True)
class Bar:
    date: date
    count: int
    x: int
    y: int
    height: int


@dataclass(frozen=True)
class Activity:
    bars: list[Bar]
    width: int = DAYS * STEP
    height: int = HEIGHT

    @property
    def total(self) -> int:
        return sum(bar.count for bar in self.bars)

    @property
    def most(self) -> Bar:
        return max(self.bars, key=lambda bar: bar.count)


def load_activity(place: WorkspaceContext, channel: Channel, now: datetime) -> Activity:
    """Count the existing messages of people and bots by day in the workspace's zone."""
    days = last_days(now, place.workspace.memory_settings.zone, DAYS)
    messages = Message.objects.visible_to(place.reader).filter(
        channel=channel, state=Message.State.LIVE, is_notice=False, micros__gte=days[0].begin_us
    )
    sums = {
        f"day_{i}": Count("pk", filter=Q(micros__gte=day.begin_us, micros__lt=day.end_us))
        for i, day in enumerate(days)
    }
    totals = messages.aggregate(**sums)
    counts = [totals[name] for name in sums]
    return Activity(
        [
            Bar(day.date, count, i * STEP, HEIGHT - height, height)
            for i, (day, count, height) in enumerate(
                zip(days, counts, bar_heights(counts, HEIGHT), strict=True)
            )
        ]
    )
