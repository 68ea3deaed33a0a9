"""Reads the history of one channel, from the newest message to older ones.

A read ends at ``synced_ts`` or at the start of the hot window. If a resync is due, it continues to
the very beginning. It may take many runs: each page saves its position, and ``synced_ts`` moves to
the first message at the end. A stored message that its page lacks was deleted. If a page lacks
many, a second call confirms one of the deletions.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Count, F, Max, Q

from memories.pipeline.ingest.store import add_placeholders
from memories.pipeline.sync.channel_fetcher import ChannelFetcher
from memories.rules.ingest.messages import parse_reply_info
from memories.rules.ingest.timestamps import micros, micros_or_0, ts_from_micros
from memories.rules.json_values import as_dict
from memories.rules.sync import resync_schedule
from memories.rules.sync.covered_range import (
    history_range,
    message_ts,
    needs_confirmation,
    page_times,
)
from memories.slack.web import Page, SlackError

_Replies = tuple[int, int]  # their number, and the time of the last one in microseconds
_IN_CHANNEL = Q(thread_ts="") | Q(thread_ts=F("ts")) | Q(broadcast=True)


class HistoryReader:
    """Read the history of one channel.

    Methods raise `SlackError` or `OutOfTime`; everything stored before stays.
    """

    def __init__(self, fetcher: ChannelFetcher) -> None:
        self.fetcher = fetcher
        self.channel, self.sync = fetcher.channel, fetcher.sync
        self.now = fetcher.now

    def read(self, *, resume: bool = False) -> None:
        """Finish a read in progress and start a new one.

        With ``resume`` a complete read of the last minutes counts as the new one.
        """
        sync = self.sync
        if sync.is_reading_history:
            self._read_down(
                sync.history_reached_ts,
                sync.history_until_ts,
                sync.history_newest_ts,
                sync.history_started_at,
            )
        if not (resume and resync_schedule.is_fresh(sync.history_complete_as_of, self.now)):
            end_us = resync_schedule.history_end(sync.synced_ts, self.fetcher.now_us)
            self._read_down("", ts_from_micros(end_us) if end_us else "", "", self.now)

    def continue_resync(self) -> None:
        """Continue a resync that an earlier read started."""
        if self.sync.resync_reached_ts:
            for page in self._pages(self.sync.resync_reached_ts, ""):
                with transaction.atomic():
                    self._save_resync(page.save(), is_last=page.is_last)

    def _read_down(
        self, reached_ts: str, until_ts: str, newest_ts: str, started_at: datetime | None
    ) -> None:
        """Read from ``reached_ts`` ("": the newest) to ``until_ts``, and below it as a resync."""
        sync, stats = self.sync, self.fetcher.stats
        stats.start_ts = until_ts
        is_resync_due = resync_schedule.is_resync_due(sync.resynced_at, self.now)
        is_resync = not until_ts or (is_resync_due and not sync.resync_reached_ts)
        is_complete = False
        for page in self._pages(reached_ts, "" if is_resync else until_ts):
            with transaction.atomic():
                reached_ts = page.save()
                if not newest_ts and page.times.moments:
                    newest_ts = ts_from_micros(max(page.times.moments))
                passed = bool(until_ts and reached_ts) and (
                    micros_or_0(reached_ts) <= micros_or_0(until_ts)
                )
                if not is_complete and (page.is_last or passed):
                    is_complete = True
                    sync.finish_history(newest_ts, started_at)
                elif not is_complete and newest_ts:
                    sync.save_history_progress(
                        newest_ts=newest_ts,
                        reached_ts=reached_ts,
                        until_ts=until_ts,
                        started_at=started_at,
                    )
                if is_resync and is_complete:
                    self._save_resync(reached_ts, is_last=page.is_last)
            stats.end_ts = sync.synced_ts

    def _save_resync(self, reached_ts: str, *, is_last: bool) -> None:
        if is_last:
            self.sync.finish_resync(self.now)
        else:
            self.sync.save_resync_progress(reached_ts)

    def _pages(self, latest_ts: str, oldest_ts: str) -> Iterator["_Page"]:
        """Yield the pages between two positions. The caller saves each before the next."""
        answers = self.fetcher.client.history(self.channel.slack_id, oldest_ts or "0", latest_ts)
        for answer, newest in self.fetcher.fetch(answers):
            page = _Page(self.fetcher, answer, newest, latest_ts, oldest_ts)
            self._confirm_deletions(page)
            yield page
            latest_ts = page.reached_ts

    def _confirm_deletions(self, page: "_Page") -> None:
        """Raise `SlackError` if a page lacks a message that exists. The next sync reads it again."""
        missing = page.missing
        if not needs_confirmation(len(missing), len(page.times.moments)):
            return
        # People delete new messages, and Slack's retention deletes old ones. A message at either
        # end may be deleted although the page is wrong.
        ts = missing[len(missing) // 2]
        if self._exists_in_slack(ts):
            text = f"conversations.history: a page lacks {ts} and other messages that still exist."
            raise SlackError("malformed", text, permanent=False)

    def _exists_in_slack(self, ts: str) -> bool:
        """Read the message as a thread. Slack returns it even if it has no replies."""
        answers = self.fetcher.client.replies(self.channel.slack_id, ts)
        try:
            page, _ = next(self.fetcher.fetch(answers))
        except SlackError as error:
            if error.code != "thread_not_found":
                raise
            return False
        raws = map(as_dict, page.messages)
        return any(raw.get("ts") == ts and raw.get("subtype") != "tombstone" for raw in raws)


class _Page:
    """A page of history below ``latest_ts``. ``newest``: see `ChannelFetcher.fetch`."""

    def __init__(
        self,
        fetcher: ChannelFetcher,
        answer: Page,
        newest: int,
        latest_ts: str,
        oldest_ts: str,
    ) -> None:
        self.fetcher = fetcher
        self.rows = fetcher.channel.messages
        self.messages = answer.messages
        self.is_last = answer.is_last
        self.times = page_times(answer.messages, fetcher.now_us)
        moments = self.times.moments
        self.reached_ts = ts_from_micros(min(moments)) if moments else latest_ts
        covered = history_range(
            self.times,
            before_us=micros(latest_ts) if latest_ts else None,
            end_us=micros_or_0(oldest_ts),
            is_last=answer.is_last,
            is_limited=answer.is_limited,
        )
        stored = self.rows.filter(_IN_CHANNEL)
        self.missing = fetcher.find_missing(covered, self.times.ts, stored, newest)

    def save(self) -> str:
        """Store the page, delete missing messages and mark changed threads as unread.

        The caller opens the transaction. Return the ts of the oldest message.
        """
        before = self._replies_before()
        self.fetcher.store(reversed(self.messages))
        self.fetcher.delete(self.missing)
        if changed := self._changed_threads(before) | self._threads_without_root(self.missing):
            add_placeholders(self.fetcher.channel, changed)  # the hub's own messages have no row
            self.rows.filter(ts__in=changed).mark_threads_unread()
        return self.reached_ts

    def _replies_before(self) -> dict[str, tuple[bool, _Replies]]:
        """Return if each root's thread is unread or read, and the replies that were reported last."""
        rows = self.rows.filter(ts__in=self.times.ts).values_list(
            "ts", "has_unread_replies", "replies_read_at", "reply_count", "latest_reply"
        )
        return {
            ts: (is_unread or read_at is not None, (count, micros_or_0(latest)))
            for ts, is_unread, read_at, count, latest in rows
        }

    def _changed_threads(self, before: dict[str, tuple[bool, _Replies]]) -> set[str]:
        """Return roots whose replies in Slack differ from the stored ones.

        An export may report more replies than it contains, so only stored rows count. A repeated
        report counts only if the thread is neither unread nor read since the report, and has more
        replies than are stored. Of a read one some are never stored, such as a forgotten person's.
        """
        reported: dict[str, _Replies] = {}
        for raw in self.messages:
            if ts := message_ts(raw, self.fetcher.now_us):
                count, latest = parse_reply_info(as_dict(raw))
                reported[ts] = (count, micros_or_0(latest))
        replies = self.rows.existing_in_slack().filter(thread_ts__in=reported)
        counted = (
            replies.exclude(ts=F("thread_ts"))
            .values_list("thread_ts")
            .annotate(Count("pk"), Max("micros"))
        )
        all_stored = {ts: (count, latest_us) for ts, count, latest_us in counted}
        changed = set()
        for ts, now in reported.items():
            stored = all_stored.get(ts, (0, 0))
            is_seen, reported_before = before.get(ts, (False, None))
            is_known = now == reported_before and (is_seen or stored[0] >= now[0])
            if stored != now and not is_known:
                changed.add(ts)
        return changed

    def _threads_without_root(self, deleted: Sequence[str]) -> set[str]:
        """Return deleted roots that still have stored replies."""
        if not deleted:
            return set()
        replies = self.rows.existing_in_slack().filter(thread_ts__in=deleted)
        return set(
            replies.exclude(ts=F("thread_ts")).values_list("thread_ts", flat=True).distinct()
        )
