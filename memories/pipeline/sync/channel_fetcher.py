"""Reading pages of one channel: time limit, storing, and deletion of missing messages.

A page and the position after it are saved in one transaction, so a read may stop anywhere and
continue later. No transaction spans a call to Slack.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Max

from memories.models import Channel, ChannelSync, Message
from memories.models.ingest.messages import MessageQuerySet
from memories.pipeline.ingest.store import store_messages
from memories.rules.ingest.outcomes import ObjectType, Result, Tally
from memories.rules.ingest.timestamps import to_micros
from memories.rules.sync.covered_range import CoveredRange
from memories.slack.web import SlackClient

_Page = TypeVar("_Page")


class OutOfTime(Exception):
    """The time limit is over. Everything stored is kept, and the next sync continues."""


@dataclass
class ReadStats:
    """What one sync read of a channel. A ts is "" for the very beginning."""

    start_ts: str = ""
    end_ts: str = ""
    threads: int = 0
    deleted: int = 0
    pages: int = 0  # answered calls for history and replies
    failures: list[str] = field(default_factory=list)  # sentences about single threads
    tally: Tally = field(default_factory=Tally)

    @property
    def new(self) -> int:
        return self.tally.count(ObjectType.MESSAGE, Result.STORED)

    @property
    def updated(self) -> int:
        return self.tally.count(ObjectType.MESSAGE, Result.UPDATED) - self.deleted


class ChannelFetcher:
    """Fetches and stores pages of one channel while ``has_time`` returns True."""

    def __init__(
        self,
        channel: Channel,
        client: SlackClient,
        now: datetime,
        has_time: Callable[[], bool],
    ) -> None:
        self.channel = channel
        self.sync = ChannelSync.objects.of(channel)
        self.client = client
        self.now = now
        self.now_us = to_micros(now)
        self.stats = ReadStats(end_ts=self.sync.synced_ts)
        self._has_time = has_time

    def fetch(self, pages: Iterator[_Page]) -> Iterator[tuple[_Page, int]]:
        """Yield each page with the id of the newest message row before the call.

        A row with a higher id came from an event meanwhile. The page may lack it.
        """
        while True:
            if not self._has_time():
                raise OutOfTime
            newest = Message.objects.aggregate(newest=Max("pk"))["newest"] or 0
            page = next(pages, None)
            if page is None:
                return
            self.stats.pages += 1
            yield page, newest

    def find_missing(
        self,
        covered: CoveredRange | None,
        shown: frozenset[str],
        stored: MessageQuerySet,
        newest: int,
    ) -> list[str]:
        """Return the ts of stored messages in the covered range that the page does not show."""
        if covered is None:
            return []
        rows = stored.existing_in_slack().filter(micros__gt=covered.after_us, pk__lte=newest)
        if covered.before_us is not None:
            rows = rows.filter(micros__lt=covered.before_us)
        return sorted(set(rows.values_list("ts", flat=True)) - shown)

    def store(self, raws: Iterable[Any]) -> None:
        self.stats.tally.add(store_messages(self.channel, raws, self.now, live=True))

    def delete(self, deleted: Sequence[str]) -> None:
        """Store deletions, in the form of Slack's own events."""
        if deleted:
            self.stats.deleted += len(deleted)
            self.store({"subtype": "message_deleted", "deleted_ts": ts} for ts in deleted)


def time_limit(seconds: float | None, clock: Callable[[], float]) -> Callable[[], bool]:
    """Return a function that returns False after so many seconds. None: no limit."""
    if seconds is None:
        return lambda: True
    until = clock() + seconds
    return lambda: clock() <= until
