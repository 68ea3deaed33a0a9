"""One channel, read from Slack: history after the mark, threads that moved, what is gone.

A walk asks for all pages first and keeps them aside, newest first as Slack gives them; then they
are stored from the oldest on, each root after the replies of its thread. So a channel's mark
may follow what is stored, and a walk that was stopped goes on from there. Nothing is held to be
deleted unless a walk came to its end. No call is made inside a transaction.
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import Any

from django.db.models import Count, F, Max, Q

from memories.models import Channel, Message
from memories.pipeline.store import store_messages
from memories.rules.outcomes import Outcome, Result, Tally, Thing
from memories.rules.slackmessages import moment, replies
from memories.rules.slacktext import as_dict
from memories.rules.slacktime import HOUR, micros, micros_or_0, to_micros, ts_from_micros
from memories.slack.web import SlackClient, SlackError

# Roots this young are looked at in every walk: for edits, deletions and late replies.
HOT_WINDOW = 30 * 24 * HOUR
SPOOL_BYTES = 8_000_000  # of pages kept in memory; more goes to a temporary file


class OutOfTime(Exception):
    """The caller's time is up; what is stored is kept, and the next walk goes on from there."""


@dataclass
class Walked:
    """What one walk did. ``asked_from``, ``mark``: ts texts, "" when from the very beginning.

    ``failures``: of single threads that Slack would not give; the next walk asks again.
    """

    asked_from: str = ""
    mark: str = ""
    threads: int = 0
    deleted: int = 0
    failures: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    @property
    def new(self) -> int:
        return self.tally.count(Thing.MESSAGE, Result.STORED)

    @property
    def updated(self) -> int:
        return self.tally.count(Thing.MESSAGE, Result.UPDATED) - self.deleted


class Walk:
    """``deadline``: in seconds of time.monotonic; no thread is begun after it."""

    def __init__(
        self, channel: Channel, client: SlackClient, now: datetime, deadline: float | None = None
    ) -> None:
        self.channel = channel
        self.walked = Walked(mark=channel.synced_ts)
        self._client = client
        self._now = now
        self._now_us = to_micros(now)
        self._deadline = deadline

    def run(self) -> None:
        """Raises `SlackError` or `OutOfTime`; what was stored until then is right and stays."""
        from_us = self._oldest()
        self.walked.asked_from = ts_from_micros(from_us) if from_us else ""
        absence = Absence(self._standing(from_us), self._now_us)
        with _Pages() as pages:
            for page in self._client.history(self.channel.slack_id, self.walked.asked_from or "0"):
                absence.meet(page.messages, is_limited=page.is_limited)
                pages.add(page.messages)
            gone = absence.gone()
            self._delete(gone)
            for messages in pages.oldest_first():
                self._keep(messages)
        for root in self._alive_below(gone):
            self._read_thread(root, root_is_gone=True)

    def _oldest(self) -> int:
        """From here on the walk looks, exclusive: the mark, or the hot window if that is wider."""
        mark = self.channel.synced_ts
        return max(0, min(micros(mark), self._now_us - HOT_WINDOW)) if mark else 0

    def _standing(self, from_us: int) -> set[str]:
        """What we hold of what Slack shows in the channel itself."""
        in_channel = Q(thread_ts="") | Q(thread_ts=F("ts")) | Q(broadcast=True)
        held = self.channel.messages.filter(
            in_channel, state=Message.State.LIVE, micros__gt=from_us
        )
        return set(held.values_list("ts", flat=True))

    def _keep(self, messages: list[Any]) -> None:
        """A page: the replies of its threads that moved, then itself. Then the mark follows."""
        moved = self._moved(messages)
        ready: list[Any] = []
        try:
            for raw in reversed(messages):
                ts = _ts(raw, self._now_us)
                if ts in moved:
                    self._read_thread(ts)
                ready.append(raw)
        except (SlackError, OutOfTime):
            # All before this thread is complete.
            self._settle(ready)
            raise
        self._settle(ready)

    def _settle(self, ready: list[Any]) -> None:
        self._store(ready)
        seen = [micros(ts) for raw in ready if (ts := _ts(raw, self._now_us))]
        if seen and (not self.walked.mark or max(seen) > micros(self.walked.mark)):
            self.walked.mark = ts_from_micros(max(seen))
            self.channel.was_read_to(self.walked.mark)

    def _moved(self, messages: list[Any]) -> set[str]:
        """Roots whose threads differ from what we hold.

        What counts are the replies that are here: an export may know of more replies than it
        holds. Where Slack counts fewer than it once gave, and said so before, it has nothing new.
        """
        told = {}
        for raw in messages:
            if ts := _ts(raw, self._now_us):
                count, latest = replies(as_dict(raw))
                told[ts] = (count, micros_or_0(latest))
        live = self.channel.messages.filter(thread_ts__in=told, state=Message.State.LIVE)
        held = {
            ts: (count, latest_us)
            for ts, count, latest_us in live.exclude(ts=F("thread_ts"))
            .values_list("thread_ts")
            .annotate(Count("pk"), Max("micros"))
        }
        before = {
            ts: (count, micros_or_0(latest))
            for ts, count, latest in self.channel.messages.filter(ts__in=told).values_list(
                "ts", "reply_count", "latest_reply"
            )
        }
        return {
            ts
            for ts, now in told.items()
            if (here := held.get(ts, (0, 0))) != now
            and not (now == before.get(ts) and here[0] >= now[0])
        }

    def _read_thread(self, root_ts: str, *, root_is_gone: bool = False) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime
        thread = self.channel.messages.filter(thread_ts=root_ts, state=Message.State.LIVE)
        absence = Absence(
            set(thread.exclude(ts=root_ts).values_list("ts", flat=True)), self._now_us
        )
        try:
            for page in self._client.replies(self.channel.slack_id, root_ts):
                found = [raw for raw in page if _ts(raw, self._now_us) != root_ts]
                absence.meet(found)
                self._store(found)
        except SlackError as error:
            if error.is_general:
                raise
            if not (root_is_gone and error.code == "thread_not_found"):
                self.walked.failures.append(f"{error.message} (thread {root_ts})")
                return
        self.walked.threads += 1
        self._delete(absence.gone())

    def _alive_below(self, gone: list[str]) -> list[str]:
        """Of roots that are gone, those whose replies we still hold."""
        if not gone:
            return []
        held = self.channel.messages.filter(state=Message.State.LIVE).exclude(thread_ts="")
        threads = held.exclude(ts=F("thread_ts")).values_list("thread_ts", flat=True).distinct()
        return sorted(set(gone).intersection(threads))

    def _store(self, raws: Iterable[Any]) -> None:
        self.walked.tally.add(store_messages(self.channel, raws, self._now, live=True))

    def _delete(self, gone: list[str]) -> None:
        """Told to the storing code in Slack's own words for it."""
        self.walked.deleted += len(gone)
        self._store({"subtype": "message_deleted", "deleted_ts": ts} for ts in gone)


class Absence:
    """Of the messages that we hold, those which a complete walk did not meet: deleted in Slack.

    Concludes nothing when a met object cannot be told from the others, and where a plan hides
    older messages nothing about those before the oldest one met.
    """

    def __init__(self, held: set[str], now_us: int) -> None:
        self._held = held
        self._now_us = now_us
        self._is_certain = True
        self._is_limited = False
        self._oldest_us: int | None = None

    def meet(self, raws: Iterable[Any], *, is_limited: bool = False) -> None:
        self._is_limited = self._is_limited or is_limited
        for raw in raws:
            ts = _ts(raw, self._now_us)
            if not ts:
                self._is_certain = False
                continue
            self._held.discard(ts)
            us = micros(ts)
            self._oldest_us = us if self._oldest_us is None else min(us, self._oldest_us)

    def gone(self) -> list[str]:
        """To be asked once the walk has come to its end."""
        if not self._is_certain:
            return []
        if not self._is_limited:
            return sorted(self._held)
        oldest_us = self._oldest_us
        return sorted(ts for ts in self._held if oldest_us is not None and micros(ts) > oldest_us)


class _Pages:
    """Pages kept aside, to be taken in the opposite order."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115
        self._starts: list[int] = []

    def __enter__(self) -> "_Pages":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, messages: list[Any]) -> None:
        self._starts.append(self._file.tell())
        self._file.write(json.dumps(messages).encode() + b"\n")

    def oldest_first(self) -> Iterator[list[Any]]:
        for start in reversed(self._starts):
            self._file.seek(start)
            yield json.loads(self._file.readline())


def _ts(raw: Any, now_us: int) -> str:
    """The key of a raw message, "" when it has none."""
    us = moment(as_dict(raw).get("ts"), now_us)
    return "" if isinstance(us, Outcome) else ts_from_micros(us)
