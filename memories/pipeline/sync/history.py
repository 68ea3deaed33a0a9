"""The history of one channel, read from its newest message down.

A walk goes to the mark, or through the hot window; where a sweep is due it goes on to the very
beginning. It may take many runs: its place is kept with each page, and the mark moves to its top
only when it came to its end. A message that we hold and that its page lacks was deleted; where a
page lacks many, Slack is asked about one of them first.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Count, F, Max, Q

from memories.pipeline.sync.channel_fetcher import ChannelFetcher, highest, lowest, us_or_none
from memories.rules.ingest.message_text import as_dict
from memories.rules.ingest.messages import parse_reply_info
from memories.rules.ingest.timestamps import micros_or_0, ts_from_micros
from memories.rules.sync import resync_schedule
from memories.rules.sync.covered_range import Seen, going_down, key_of, see, takes_much
from memories.slack.web import Page, SlackError

_Replies = tuple[int, int]  # how many, and the moment of the last one
_IN_CHANNEL = Q(thread_ts="") | Q(thread_ts=F("ts")) | Q(broadcast=True)


class HistoryReader:
    def __init__(self, reading: ChannelFetcher) -> None:
        self.reading = reading
        self.channel, self.sync = reading.channel, reading.sync
        self.now = reading.now

    def run(self, *, goes_on: bool = False) -> None:
        """Raises `SlackError` or `OutOfTime`; what was stored until then is right and stays.
        ``goes_on``: a walk of minutes ago is as good as one now."""
        if self.sync.is_reading_history:
            self._go_on()
        if not (goes_on and resync_schedule.is_fresh(self.sync.history_complete_as_of, self.now)):
            self._begin()

    def sweep_on(self) -> None:
        """Go on with a sweep that was begun below an earlier walk."""
        if self.sync.resync_reached_ts:
            for page in self._pages(self.sync.resync_reached_ts, ""):
                with transaction.atomic():
                    at_ts = page.keep()
                    self._sweep_to(at_ts, is_last=page.is_last)

    def _begin(self) -> None:
        end_us = resync_schedule.end_of_walk(self.sync.synced_ts, self.reading.now_us)
        self._descend("", ts_from_micros(end_us) if end_us else "", "", self.now)

    def _go_on(self) -> None:
        sync = self.sync
        self._descend(
            sync.history_reached_ts,
            sync.history_until_ts,
            sync.history_newest_ts,
            sync.history_started_at,
        )

    def _descend(self, at_ts: str, end_ts: str, top_ts: str, began_at: datetime | None) -> None:
        """From ``at_ts`` ("": the newest) down to ``end_ts``, and as a sweep below it."""
        self.reading.walked.asked_from = end_ts
        is_sweep = not end_ts or self._sweep_is_due()
        sync = self.sync
        walking = True
        for page in self._pages(at_ts, "" if is_sweep else end_ts):
            with transaction.atomic():
                at_ts = page.keep()
                top_ts = top_ts or highest(page.seen.moments, "")
                passed = bool(end_ts and at_ts) and micros_or_0(at_ts) <= micros_or_0(end_ts)
                if walking and (page.is_last or passed):
                    walking = False
                    sync.finish_history(top_ts, began_at)
                elif walking and top_ts:
                    sync.save_history_progress(
                        newest_ts=top_ts, reached_ts=at_ts, until_ts=end_ts, started_at=began_at
                    )
                if is_sweep and not walking:
                    self._sweep_to(at_ts, is_last=page.is_last)
            self.reading.walked.mark = sync.synced_ts

    def _sweep_is_due(self) -> bool:
        """None is under way, and the last one was long ago."""
        sync = self.sync
        return not sync.resync_reached_ts and resync_schedule.sweep_is_due(
            sync.resynced_at, self.now
        )

    def _sweep_to(self, at_ts: str, *, is_last: bool) -> None:
        if is_last:
            self.sync.finish_resync(self.now)
        else:
            self.sync.save_resync_progress(at_ts)

    def _pages(self, at_ts: str, end_ts: str) -> Iterator["_Page"]:
        """Every page between the two places, to be kept one after the other."""
        answers = self.reading.client.history(self.channel.slack_id, end_ts or "0", at_ts)
        for answer, newest in self.reading.each(answers):
            page = _Page(self.reading, answer, newest, at_ts, end_ts)
            self._doubt(page)
            yield page
            at_ts = lowest(page.seen.moments, at_ts)

    def _doubt(self, page: "_Page") -> None:
        """Raises `SlackError` where a page lacks what is there: it is asked for again by the next sync,
        and until then nothing is concluded from it."""
        missing = page.missing
        if not takes_much(len(missing), len(page.seen.moments)):
            return
        # People take back what is new, and Slack's retention what is old: at either end a message may
        # be gone although the page is wrong.
        ts = missing[len(missing) // 2]
        if self._is_there(ts):
            what = f"conversations.history: a page lacks {ts} and more that is still there."
            raise SlackError("malformed", what, permanent=False)

    def _is_there(self, ts: str) -> bool:
        """Asked of the method for threads: of a message without replies it gives the message."""
        answers = self.reading.client.replies(self.channel.slack_id, ts)
        try:
            page, _ = next(self.reading.each(answers))
        except SlackError as error:
            if error.code != "thread_not_found":
                raise
            return False
        raws = map(as_dict, page.messages)
        return any(raw.get("ts") == ts and raw.get("subtype") != "tombstone" for raw in raws)


class _Page:
    """A page of history below ``at_ts``; ``newest``: see `Reading.each`."""

    def __init__(
        self, reading: ChannelFetcher, answer: Page, newest: int, at_ts: str, end_ts: str
    ) -> None:
        self.reading = reading
        self.messages = answer.messages
        self.is_last = answer.is_last
        self.seen: Seen = see(answer.messages, reading.now_us)
        self._at_ts = at_ts
        covered = going_down(
            self.seen,
            before_us=us_or_none(at_ts),
            end_us=micros_or_0(end_ts),
            is_last=answer.is_last,
            is_limited=answer.is_limited,
        )
        stored = reading.channel.messages.filter(_IN_CHANNEL)
        self.missing = reading.missing(covered, self.seen.ts, stored, newest)

    def keep(self) -> str:
        """Store it, delete what it lacks, and note which threads have to be read; in a transaction of
        the caller's. Returns how far down it goes."""
        reading = self.reading
        rows = reading.channel.messages
        before = self._told_before()
        reading.store(reversed(self.messages))
        reading.delete(self.missing)
        if moved := self._moved(before) | self._alive_below(self.missing):
            rows.filter(ts__in=moved).mark_threads_unread()
        return lowest(self.seen.moments, self._at_ts)

    def _told_before(self) -> dict[str, tuple[bool, _Replies]]:
        """By root: whether it owes its thread, and how many replies Slack gave it when it last told."""
        rows = self.reading.channel.messages.filter(ts__in=self.seen.ts).values_list(
            "ts", "thread_moved", "reply_count", "latest_reply"
        )
        return {ts: (owed, (count, micros_or_0(latest))) for ts, owed, count, latest in rows}

    def _moved(self, told_before: dict[str, tuple[bool, _Replies]]) -> set[str]:
        """Roots whose threads differ from what we hold.

        What counts are the replies that are here: an export may know of more replies than it
        holds. Where Slack counts fewer than it once gave, and said so before, it has nothing new;
        nor where it says what made us owe the thread already.
        """
        now_us = self.reading.now_us
        slack_counts: dict[str, _Replies] = {}
        for raw in self.messages:
            if ts := key_of(raw, now_us):
                count, latest = parse_reply_info(as_dict(raw))
                slack_counts[ts] = (count, micros_or_0(latest))
        there = self.reading.channel.messages.existing_in_slack().filter(thread_ts__in=slack_counts)
        counted = (
            there.exclude(ts=F("thread_ts"))
            .values_list("thread_ts")
            .annotate(Count("pk"), Max("micros"))
        )
        stored_counts = {ts: (count, latest_us) for ts, count, latest_us in counted}
        moved = set()
        for ts, now in slack_counts.items():
            here = stored_counts.get(ts, (0, 0))
            owed, before = told_before.get(ts, (False, None))
            is_old_news = now == before and (owed or here[0] >= now[0])
            if here != now and not is_old_news:
                moved.add(ts)
        return moved

    def _alive_below(self, deleted: Sequence[str]) -> set[str]:
        """Of roots that are gone, those whose replies we still hold."""
        if not deleted:
            return set()
        there = self.reading.channel.messages.existing_in_slack().filter(thread_ts__in=deleted)
        return set(there.exclude(ts=F("thread_ts")).values_list("thread_ts", flat=True).distinct())
