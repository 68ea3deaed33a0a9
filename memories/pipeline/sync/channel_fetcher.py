"""What walks and threads have in common: a page is asked for, stored, and what it lacks is gone.

Each page is one transaction, with the place up to which was read: a reading may be stopped anywhere
and goes on from there. No call is made inside of one.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Max

from memories.models import Channel, ChannelSync, Message
from memories.models.ingest.messages import MessageQuerySet
from memories.pipeline.ingest.store import store_messages
from memories.rules.ingest.outcomes import ObjectType, Result, Tally
from memories.rules.ingest.timestamps import micros, to_micros, ts_from_micros
from memories.rules.sync.covered_range import CoveredRange
from memories.slack.web import SlackClient

_Page = TypeVar("_Page")


class OutOfTime(Exception):
    """The caller's time is up; what is stored is kept, and the next reading goes on from there."""


@dataclass
class Walked:
    """What was read of one channel. ``asked_from``, ``mark``: ts texts, "" when from the very
    beginning. ``pages``: calls of history and replies that were answered.

    ``failures``: of single threads that Slack would not give; the next sync asks again.
    """

    asked_from: str = ""
    mark: str = ""
    threads: int = 0
    deleted: int = 0
    pages: int = 0
    failures: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    @property
    def new(self) -> int:
        return self.tally.count(ObjectType.MESSAGE, Result.STORED)

    @property
    def updated(self) -> int:
        return self.tally.count(ObjectType.MESSAGE, Result.UPDATED) - self.deleted


class ChannelFetcher:
    """Of one channel in one run. ``in_time`` says whether another call may be made."""

    def __init__(
        self,
        channel: Channel,
        client: SlackClient,
        now: datetime,
        in_time: Callable[[], bool] = lambda: True,
    ) -> None:
        self.channel = channel
        self.sync = ChannelSync.objects.of(channel)
        self.client = client
        self.now = now
        self.now_us = to_micros(now)
        self.walked = Walked(mark=self.sync.synced_ts)
        self._in_time = in_time

    def each(self, pages: Iterator[_Page]) -> Iterator[tuple[_Page, int]]:
        """The pages, each with the row id of the newest message that was here before Slack was asked
        for it: what came in meanwhile, by an event, may well be missing on the page."""
        while True:
            if not self._in_time():
                raise OutOfTime
            newest = Message.objects.aggregate(newest=Max("pk"))["newest"] or 0
            page = next(pages, None)
            if page is None:
                return
            self.walked.pages += 1
            yield page, newest

    def missing(
        self,
        covered: CoveredRange | None,
        met: frozenset[str],
        stored: MessageQuerySet,
        newest: int,
    ) -> list[str]:
        """The ts of those rows of ``held`` that the page should hold and does not."""
        if covered is None:
            return []
        rows = stored.existing_in_slack().filter(micros__gt=covered.after_us, pk__lte=newest)
        if covered.before_us is not None:
            rows = rows.filter(micros__lt=covered.before_us)
        return sorted(set(rows.values_list("ts", flat=True)) - met)

    def store(self, raws: Iterable[Any]) -> None:
        self.walked.tally.add(store_messages(self.channel, raws, self.now, live=True))

    def delete(self, deleted: Sequence[str]) -> None:
        """Told to the storing code in Slack's own words for it."""
        if deleted:
            self.walked.deleted += len(deleted)
            self.store({"subtype": "message_deleted", "deleted_ts": ts} for ts in deleted)


def lowest(moments: Sequence[int], otherwise: str) -> str:
    return ts_from_micros(min(moments)) if moments else otherwise


def highest(moments: Sequence[int], otherwise: str) -> str:
    return ts_from_micros(max(moments)) if moments else otherwise


def us_or_none(ts: str) -> int | None:
    return micros(ts) if ts else None


def stop_watch(
    seconds: float | None, clock: Callable[[], float] = time.monotonic
) -> Callable[[], bool]:
    """Whether ``seconds`` from now on have not passed yet; None is for ever."""
    if seconds is None:
        return lambda: True
    until = clock() + seconds
    return lambda: clock() <= until
