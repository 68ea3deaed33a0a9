"""The threads of one channel, read from Slack: those that moved, and by and by all of them.

A thread is read from its oldest reply on, and may take many runs, as a walk may. A root that moved
owes its thread until it was read; the others take their turn in a ring (rules/resync_schedule.py), since
nothing else tells of an edit in a thread.
"""

from django.db import transaction
from django.db.models import F, Q

from memories.models import Message
from memories.models.ingest.messages import MessageQuerySet
from memories.pipeline.sync.channel_fetcher import ChannelFetcher, highest
from memories.rules.ingest.timestamps import micros_or_0
from memories.rules.sync import resync_schedule
from memories.rules.sync.covered_range import going_up, key_of, see
from memories.slack.web import SlackError

AT_ONCE = 500  # roots taken out of the database together


class Threads:
    def __init__(self, reading: ChannelFetcher) -> None:
        self.reading = reading
        self.channel, self.sync = reading.channel, reading.sync
        self.now = reading.now

    def read_owed(self) -> None:
        """Those that moved, newest first. Raises `SlackError` or `OutOfTime`."""
        tried: set[int] = set()
        while roots := list(
            self.channel.messages.with_unread_replies().exclude(pk__in=tried).defer("raw")[:AT_ONCE]
        ):
            for root in roots:
                tried.add(root.pk)
                self._read(root)

    @property
    def are_owed(self) -> bool:
        return self.channel.messages.with_unread_replies().exists()

    def turn_ring(self) -> None:
        """Read those whose turn it is: whichever were not read for the longest time, and none that was
        read just now. Raises `SlackError` or `OutOfTime`."""
        roots = self.channel.messages.roots()
        turn = resync_schedule.turn_of_ring(roots.count(), self.sync.threads_resynced_to, self.now)
        if self.sync.threads_resynced_to is None:
            self.sync.set_threads_resynced_to(self.now)
        if not turn.threads:
            return
        rested = Q(replies_read_at=None) | Q(replies_read_at__lt=self.now - resync_schedule.REST)
        unread = roots.filter(rested)
        oldest = unread.order_by(F("replies_read_at").asc(nulls_first=True), "micros")
        due = list(oldest.defer("raw")[: turn.threads])
        for root in due:
            has_replies = root.reply_count and root.state != Message.State.DELETED
            if has_replies or self._replies(root).exists():
                self._read(root, in_ring=True)
            else:
                root.record_thread_read(self.now)
            self.sync.set_threads_resynced_to(
                (self.sync.threads_resynced_to or self.now) + turn.each
            )
        if len(due) < turn.threads:
            self.sync.set_threads_resynced_to(self.now)  # the others have only been read

    def _read(self, root: Message, *, in_ring: bool = False) -> None:
        try:
            self._pages(root)
        except SlackError as error:
            if error.is_general:
                raise
            if error.code == "thread_not_found" and root.state == Message.State.DELETED:
                self._end(root)
            elif in_ring and error.permanent:
                root.record_thread_read(self.now)  # its next turn comes; nothing is concluded
            else:
                if in_ring:
                    self._put_off(root)
                self.reading.walked.failures.append(f"{error.message} (thread {root.ts})")

    def _pages(self, root: Message) -> None:
        reading = self.reading
        at_ts = root.thread_at_ts
        answers = reading.client.replies(self.channel.slack_id, root.ts, at_ts)
        for page, newest in reading.each(answers):
            raws = [raw for raw in page.messages if key_of(raw, reading.now_us) != root.ts]
            seen = see(raws, reading.now_us)
            covered = going_up(seen, after_us=micros_or_0(at_ts), is_last=page.is_last)
            with transaction.atomic():
                reading.store(raws)
                missing = reading.missing(covered, seen.ts, self._replies(root), newest)
                reading.delete(missing)
                at_ts = highest(seen.moments, at_ts)
                if page.is_last:
                    root.record_thread_read(self.now)
                else:
                    root.record_thread_progress(at_ts)
        reading.walked.threads += 1

    @transaction.atomic
    def _end(self, root: Message) -> None:
        """A deleted root whose thread Slack knows no more: all of it is gone."""
        self.reading.delete(list(self._replies(root).values_list("ts", flat=True)))
        root.record_thread_read(self.now)
        self.reading.walked.threads += 1

    @transaction.atomic
    def _put_off(self, root: Message) -> None:
        """The ring goes on to the others, and the next sync reads this one."""
        root.record_thread_read(self.now)
        self.channel.messages.filter(pk=root.pk).mark_threads_unread()

    def _replies(self, root: Message) -> MessageQuerySet:
        replies = self.channel.messages.filter(thread_ts=root.ts).exclude(ts=root.ts)
        return replies.existing_in_slack()
