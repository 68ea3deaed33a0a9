"""Raw objects of Slack → rows: the one storing code of import and sync.

The end state does not depend on the order in which files and walks come, nor on how often
the same message does: of two versions the later edit stays, a deletion stays for good, and a reply
makes a placeholder for a root that nobody has seen yet. Each batch is one transaction, in which the
words of what was deleted or edited leave every other place too (`forgetting`).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from memories.models import Channel, Message, Person, Segment
from memories.pipeline import forgetting
from memories.pipeline.removed import RemovedMessage
from memories.pipeline.roster import people_by_id
from memories.rules import slackrefs
from memories.rules.characters import fit
from memories.rules.outcomes import (
    DUPLICATE,
    STORED,
    STORED_NOTICE,
    UPDATED,
    Outcome,
    Tally,
    Thing,
    skipped,
)
from memories.rules.profiles import without_labels, without_names
from memories.rules.slackmessages import MessageIn, message
from memories.rules.slacktext import message_text
from memories.rules.slacktime import HOUR, micros, micros_or_0, to_micros

BATCH = 1000
BATCH_CHARACTERS = 8_000_000
FORGOTTEN = skipped("forgotten")
TOO_OLD = skipped("older than messages are kept")

_CONTENT = (
    *(
        "author_id",
        "username",
        "subtype",
        "is_notice",
        "is_bot",
        "broadcast",
        "state",
        "text",
        "raw",
    ),
    *("edited_ts", "thread_ts", "reply_count", "latest_reply"),
)
_PLACE = ("author_id", "broadcast", "thread_ts", "reply_count", "latest_reply")


def store_messages(
    channel: Channel, raws: Iterable[object], now: datetime, *, live: bool = False
) -> Tally:
    """Store a channel's messages, edits and deletions, in any order.

    ``live``: Slack answers this now, so its counts of replies, and what no edit dates, are the
    truth; otherwise the counts of the later reply stay, and the longer text.
    """
    tally = Tally()
    people: dict[str, int] = {}
    now_us = to_micros(now)
    waiting: list[MessageIn] = []
    size = 0
    for raw in raws:
        tally.see(Thing.MESSAGE)
        read = message(raw, now_us)
        if isinstance(read, Outcome):
            tally.end(Thing.MESSAGE, read)
            continue
        waiting.append(read)
        size += len(read.raw)
        if len(waiting) == BATCH or size > BATCH_CHARACTERS:
            _store_batch(channel, waiting, people, tally, now_us, live=live)
            waiting, size = [], 0
    if waiting:
        _store_batch(channel, waiting, people, tally, now_us, live=live)
    return tally


def _store_batch(
    channel: Channel,
    found: Sequence[MessageIn],
    people: dict[str, int],
    tally: Tally,
    now_us: int,
    *,
    live: bool,
) -> None:
    with transaction.atomic():
        outcomes = _write(channel, found, people, now_us, live=live)
    for outcome in outcomes:
        tally.end(Thing.MESSAGE, outcome)


def _write(
    channel: Channel,
    found: Sequence[MessageIn],
    people: dict[str, int],
    now_us: int,
    *,
    live: bool,
) -> list[Outcome]:
    # In turn with whoever else stores in this channel, so that no message comes twice, and with a
    # pass that cuts it, so that no edit misses its segment; and with who forgets it.
    locked = Channel.objects.select_for_update().get(pk=channel.pk)
    authors: dict[str, tuple[str, str]] = {}
    for one in found:
        if one.author and not authors.get(one.author, ("", ""))[0]:
            authors[one.author] = (one.author_name or one.username, one.author_team)
    people_by_id(channel.workspace, authors, people)
    found = _without_the_gone(channel, found)
    unwanted = _Unwanted.of(channel, locked.forgotten_at, now_us)
    keys = {one.ts for one in found} | {one.thread_ts for one in found if one.thread_ts}
    # The span of time spares a database without statistics from reading the whole channel.
    times = [micros(key) for key in keys]
    held = channel.messages.filter(ts__in=keys, micros__range=(min(times), max(times)))
    rows = {row.ts: row for row in held.defer("raw")}
    change = _Change()
    outcomes = []
    for one in found:
        author_id = people[one.author] if one.author else None
        row = rows.get(one.ts)
        if why := unwanted.why(one):
            outcomes.append(why)
            if row is None:
                row = rows[one.ts] = _tombstone(channel, one, why)
                change.new.append(row)
            else:
                change.tombstone(row, one, why, live=live)
        elif row is None:
            row = rows[one.ts] = _new(channel, unwanted.cleaned(one), author_id)
            change.new.append(row)
            outcomes.append(STORED_NOTICE if one.is_notice else STORED)
        else:
            outcomes.append(change.merge(row, unwanted.cleaned(one), author_id, live=live))
        if one.thread_ts and one.thread_ts != one.ts:
            root = rows.get(one.thread_ts)
            if root is None:
                root = rows[one.thread_ts] = _placeholder(channel, one.thread_ts)
                change.new.append(root)
            elif not root.thread_ts:
                root.thread_ts = root.ts
                change.moved(root)
    change.save(channel)
    # Of a person who is no source, nothing is one.
    revoked = Person.objects.filter(pk__in=set(people.values()), is_revoked=True).values("pk")
    channel.messages.filter(ts__in=keys, author__in=revoked).update(is_revoked=True)
    return outcomes


def _without_the_gone(channel: Channel, found: Sequence[MessageIn]) -> Sequence[MessageIn]:
    """Without what they carry along of messages that are gone here: an export from before, or a page
    that Slack has kept, would bring their words back."""
    told = [
        slackrefs.read_told(one.raw) if '"attachments"' in one.raw or '"root"' in one.raw else {}
        for one in found
    ]
    links = {link for one in told for link in slackrefs.carried(one, channel.slack_id)}
    if not links:
        return found
    held = Message.objects.filter(channel__workspace=channel.workspace_id)
    gone = {slackrefs.link(*place) for place in held.gone_of(map(slackrefs.place_of, links))}
    left = [slackrefs.without_carried(one, channel.slack_id, gone) for one in told]
    return [
        one if now == was else replace(one, raw=json.dumps(now), text=fit(message_text(now)))
        for one, was, now in zip(found, told, left, strict=True)
    ]


@dataclass(frozen=True)
class _Unwanted:
    """What is not taken in (again): what was said before its channel or its author was forgotten,
    and what is older than messages are kept. Only its place in the conversation is."""

    channel_us: int  # up to here; 0 where nothing was forgotten
    horizon_us: int
    people: dict[str, int]  # Slack id of a forgotten person → up to here

    @classmethod
    def of(cls, channel: Channel, forgotten_at: datetime | None, now_us: int) -> "_Unwanted":
        days = channel.workspace.memory_settings.retention_days
        forgotten = channel.workspace.people.filter(forgotten_at__isnull=False)
        return cls(
            channel_us=to_micros(forgotten_at) if forgotten_at else 0,
            horizon_us=now_us - days * 24 * HOUR if days else 0,
            people={
                slack_id: to_micros(at)
                for slack_id, at in forgotten.values_list("slack_id", "forgotten_at")
                if at is not None
            },
        )

    def why(self, one: MessageIn) -> Outcome | None:
        if one.is_deleted:
            return None
        if one.micros <= max(self.channel_us, self.people.get(one.author, 0)):
            return FORGOTTEN
        return TOO_OLD if one.micros < self.horizon_us else None

    def cleaned(self, one: MessageIn) -> MessageIn:
        """What a forgotten person says later is kept, but not under their name; nor does a message
        of somebody else tell it."""
        for slack_id in self.people:
            if slack_id in one.raw:
                text, raw = without_labels(one.text, slack_id), without_names(one.raw, slack_id)
                one = replace(one, text=text, raw=raw)
        return replace(one, username="") if one.author in self.people else one


def _new(channel: Channel, one: MessageIn, author_id: int | None) -> Message:
    return Message(
        channel_id=channel.pk,
        ts=one.ts,
        micros=one.micros,
        thread_ts=one.thread_ts,
        author_id=author_id,
        username=one.username,
        subtype=one.subtype,
        is_notice=one.is_notice,
        is_bot=one.is_bot,
        broadcast=one.broadcast,
        state=Message.State.DELETED if one.is_deleted else Message.State.LIVE,
        text=one.text,
        raw=one.raw,
        edited_ts=one.edited_ts,
        reply_count=one.reply_count,
        latest_reply=one.latest_reply,
    )


def _tombstone(channel: Channel, one: MessageIn, why: Outcome) -> Message:
    row = _new(channel, _gone(one), None)
    row.state = Message.State.EXPIRED if why is TOO_OLD else Message.State.DELETED
    return row


def _gone(one: MessageIn) -> MessageIn:
    """Of a message its place in the conversation, as a deletion tells it."""
    return MessageIn(
        ts=one.ts,
        micros=one.micros,
        thread_ts=one.thread_ts,
        reply_count=one.reply_count,
        latest_reply=one.latest_reply,
        is_deleted=True,
    )


def _placeholder(channel: Channel, ts: str) -> Message:
    return Message(
        channel=channel, ts=ts, micros=micros(ts), thread_ts=ts, state=Message.State.MISSING
    )


class _Change:
    """What one batch does to the rows."""

    def __init__(self) -> None:
        self.new: list[Message] = []
        self.content: dict[int, Message] = {}
        self.place: dict[int, Message] = {}
        self.stale: set[int] = set()
        self.gone: dict[int, RemovedMessage] = {}

    def merge(self, row: Message, one: MessageIn, author_id: int | None, *, live: bool) -> Outcome:
        """Put what a further sight of a message tells into its row."""
        was = row.state
        placed = _place(row, one, live=live)
        if was == Message.State.DELETED or (row.is_gone and not one.is_deleted):
            changed = False
        elif one.is_deleted:
            self._forget(row, RemovedMessage.of(row))
            row.purge()
            changed = True
        elif was == Message.State.MISSING or _stays(one, row, live=live):
            changed = True
            before = row.text
            self._fill(row, one, author_id)
            if was == Message.State.LIVE and before != row.text:
                self._forget(row, RemovedMessage.edited(row, before))
        else:
            changed = False
            if row.author_id is None and author_id is not None:
                row.author_id = author_id
                placed = True
        if changed:
            self._touch(row)
        elif placed:
            self.moved(row)
        if was == Message.State.MISSING:
            return STORED_NOTICE if one.is_notice else STORED
        return UPDATED if changed or placed else DUPLICATE

    def _fill(self, row: Message, one: MessageIn, author_id: int | None) -> None:
        row.state = Message.State.LIVE
        row.author_id = author_id or row.author_id
        row.username = one.username
        row.subtype = one.subtype
        row.is_notice = one.is_notice
        row.is_bot = one.is_bot
        row.broadcast = one.broadcast or row.broadcast
        row.text = one.text
        row.raw = one.raw
        row.edited_ts = one.edited_ts

    def tombstone(self, row: Message, one: MessageIn, why: Outcome, *, live: bool) -> None:
        """What is not wanted leaves a tombstone; of what grew too old while it was kept, retention
        takes care."""
        was = row.state
        if why is FORGOTTEN or was == Message.State.MISSING:
            self.merge(row, _gone(one), None, live=live)
        if why is TOO_OLD and was == Message.State.MISSING:
            row.state = Message.State.EXPIRED

    def _forget(self, row: Message, gone: RemovedMessage) -> None:
        """Of a message that changes twice in a batch, what it said at first: nothing else was read."""
        if row.pk:
            first = self.gone.get(row.pk)
            self.gone[row.pk] = replace(gone, text=first.text) if first else gone

    def _touch(self, row: Message) -> None:
        self.stale.update(pk for pk in (row.segment_id, row.thread_segment_id) if pk)
        if row.pk:
            self.content[row.pk] = row

    def moved(self, row: Message) -> None:
        if row.pk:
            self.place[row.pk] = row

    def save(self, channel: Channel) -> None:
        Message.objects.insert(self.new)
        Message.objects.rewrite(list(self.content.values()), _CONTENT)
        moved = [row for pk, row in self.place.items() if pk not in self.content]
        Message.objects.rewrite(moved, _PLACE)
        if self.stale:
            Segment.objects.filter(pk__in=self.stale).update(stale=True)
        forgetting.mask(channel.workspace, list(self.gone.values()))


def _stays(one: MessageIn, row: Message, *, live: bool) -> bool:
    """Whether this version stays, and not the row's: the later edit. Equal edits differ by what
    came to hang on them, or went again: Slack's word of now counts, else the longer one."""
    told, held = micros_or_0(one.edited_ts), micros_or_0(row.edited_ts)
    if told != held:
        return told > held
    if live:
        return one.text != row.text
    return (len(one.text), one.text) > (len(row.text), row.text)


def _place(row: Message, one: MessageIn, *, live: bool) -> bool:
    """Where a message stands in its thread; True when that is news."""
    before = (row.thread_ts, row.broadcast, row.reply_count, row.latest_reply)
    row.thread_ts = row.thread_ts or one.thread_ts
    if not one.is_deleted and not row.is_gone:
        row.broadcast = row.broadcast or one.broadcast
    told = (micros_or_0(one.latest_reply), one.reply_count)
    held = (micros_or_0(row.latest_reply), row.reply_count)
    is_root_now = live and not one.is_deleted and one.thread_ts in ("", one.ts)
    if told > held or (is_root_now and told != held):
        row.latest_reply, row.reply_count = one.latest_reply, one.reply_count
    return before != (row.thread_ts, row.broadcast, row.reply_count, row.latest_reply)
