"""Reads the threads of one channel: changed ones first, and every thread within 30 days.

A thread is read from its oldest reply and may take many runs. A changed thread stays unread until
it is read completely. Slack reports no edit of a reply, so the others are read again in turn
(rules/sync/resync_schedule.py).
"""

from django.db import transaction
from django.db.models import F, Q

from memories.models import Message
from memories.models.ingest.messages import MessageQuerySet
from memories.pipeline.sync.channel_fetcher import ChannelFetcher
from memories.rules.ingest.timestamps import micros_or_0, ts_from_micros
from memories.rules.sync import resync_schedule
from memories.rules.sync.covered_range import message_ts, page_times, thread_range
from memories.slack.web import SlackError

CHUNK = 500  # roots in memory at a time


class ThreadReader:
    """Read the threads of one channel.

    Methods raise `SlackError` or `OutOfTime`; everything stored before stays.
    """

    def __init__(self, fetcher: ChannelFetcher) -> None:
        self.fetcher = fetcher
        self.channel, self.sync = fetcher.channel, fetcher.sync
        self.now = fetcher.now

    @property
    def has_unread(self) -> bool:
        return self.channel.messages.with_unread_replies().exists()

    def read_changed(self) -> None:
        """Read changed threads, newest first."""
        tried: set[int] = set()
        unread = self.channel.messages.with_unread_replies().defer("raw")
        while roots := list(unread.exclude(pk__in=tried)[:CHUNK]):
            for root in roots:
                tried.add(root.pk)
                self._read(root)

    def resync(self) -> None:
        """Read the threads that are due, those with the oldest read first."""
        roots, sync = self.channel.messages.roots(), self.sync
        due_count, interval = resync_schedule.due_threads(
            roots.count(), sync.threads_resynced_to, self.now
        )
        if sync.threads_resynced_to is None:
            sync.set_threads_resynced_to(self.now)
        if not due_count:
            return
        latest = self.now - resync_schedule.THREAD_REST
        rested = roots.filter(Q(replies_read_at=None) | Q(replies_read_at__lt=latest))
        oldest = rested.order_by(F("replies_read_at").asc(nulls_first=True), "micros")
        chosen = list(oldest.defer("raw")[:due_count])
        for root in chosen:
            has_replies = root.reply_count and root.state != Message.State.DELETED
            if has_replies or self._replies(root).exists():
                self._read(root, is_resync=True)
            else:
                root.record_thread_read(self.now)
            sync.set_threads_resynced_to((sync.threads_resynced_to or self.now) + interval)
        if len(chosen) < due_count:
            sync.set_threads_resynced_to(self.now)  # the others were read a moment ago

    def _read(self, root: Message, *, is_resync: bool = False) -> None:
        try:
            self._read_pages(root)
        except SlackError as error:
            if error.is_general:
                raise
            if error.code == "thread_not_found" and root.state == Message.State.DELETED:
                self._delete_thread(root)
            elif is_resync and error.permanent:
                root.record_thread_read(self.now)  # until it is due again
            else:
                if is_resync:
                    self._postpone(root)
                self.fetcher.stats.failures.append(f"{error.message} (thread {root.ts})")

    def _read_pages(self, root: Message) -> None:
        fetcher = self.fetcher
        reached_ts = root.thread_read_to_ts
        answers = fetcher.client.replies(self.channel.slack_id, root.ts, reached_ts)
        for page, newest in fetcher.fetch(answers):
            raws = [raw for raw in page.messages if message_ts(raw, fetcher.now_us) != root.ts]
            times = page_times(raws, fetcher.now_us)
            covered = thread_range(times, after_us=micros_or_0(reached_ts), is_last=page.is_last)
            with transaction.atomic():
                fetcher.store(raws)
                replies = self._replies(root)
                fetcher.delete(fetcher.find_missing(covered, times.ts, replies, newest))
                if times.moments:
                    reached_ts = ts_from_micros(max(times.moments))
                if page.is_last:
                    root.record_thread_read(self.now)
                else:
                    root.record_thread_progress(reached_ts)
        fetcher.stats.threads += 1

    @transaction.atomic
    def _delete_thread(self, root: Message) -> None:
        """Delete all replies: the root is deleted and Slack has no thread for it."""
        self.fetcher.delete(list(self._replies(root).values_list("ts", flat=True)))
        root.record_thread_read(self.now)
        self.fetcher.stats.threads += 1

    @transaction.atomic
    def _postpone(self, root: Message) -> None:
        """Continue with other threads. The next sync reads this one as a changed thread."""
        root.record_thread_read(self.now)
        self.channel.messages.filter(pk=root.pk).mark_threads_unread()

    def _replies(self, root: Message) -> MessageQuerySet:
        replies = self.channel.messages.filter(thread_ts=root.ts).exclude(ts=root.ts)
        return replies.existing_in_slack()
