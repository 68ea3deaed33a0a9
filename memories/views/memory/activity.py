"""How much was said in a channel on each of the last days: one query, drawn and told."""

from dataclasses import dataclass
from datetime import date, datetime

from django.db.models import Count, Q

from memories.models import Channel, Message
from memories.rules.memory.activity import bar_heights, last_days
from memories.views.access.access import WorkspaceContext

DAYS = 14
HEIGHT = 32
STEP = 10  # from one bar to the next


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


def activity_of(place: WorkspaceContext, channel: Channel, now: datetime) -> Activity:
    """Messages of people and bots that are there still, by day in the workspace's zone."""
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
    high = bar_heights(counts, HEIGHT)
    return Activity(
        [
            Bar(day.date, count, i * STEP, HEIGHT - tall, tall)
            for i, (day, count, tall) in enumerate(zip(days, counts, high, strict=True))
        ]
    )
