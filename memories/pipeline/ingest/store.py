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
from memories.pipeline.ingest.roster import people_by_id
from memories.pipeline.redaction import forgetting
from memories.pipeline.redaction.removed import RemovedMessage
from memories.rules.ingest import references
from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.message_text import message_text
from memories.rules.ingest.messages import MessageIn, parse_message
from memories.rules.ingest.outcomes import (
    DUPLICATE,
    STORED,
    STORED_NOTICE,
    UPDATED,
    ObjectType,
    Outcome,
    Tally,
    skipped,
)
from memories.rules.ingest.profiles import strip_mention_labels, strip_names
from memories.rules.ingest.timestamps import HOUR, micros, micros_or_0, to_micros

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
        tally.count_seen(ObjectType.MESSAGE)
        read = parse_message(raw, now_us)
        if isinstance(read, Outcome):
            tally.count_outcome(ObjectType.MESSAGE, read)
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
    batch: Sequence[MessageIn],
    people: dict[str, int],
    tally: Tally,
    now_us: int,
    *,
    live: bool,
) -> None:
    with transaction.atomic():
        outcomes = _write(channel, batch, people, now_us, live=live)
    for outcome in outcomes:
        tally.count_outcome(ObjectType.MESSAGE, outcome)


def _write(
    channel: Channel,
    batch: Sequence[MessageIn],
    people: dict[str, int],
    now_us: int,
    *,
    live: bool,
) -> list[Outcome]:
    # In turn with whoever else stores in this channel, so that no message comes twice, and with a
    # pass that cuts it, so that no edit misses its segment; and with who forgets it.
    locked = Channel.objects.select_for_update().get(pk=channel.pk)
    authors: dict[str, tuple[str, str]] = {}
    for incoming in batch:
        if incoming.author and not authors.get(incoming.author, ("", ""))[0]:
            authors[incoming.author] = (
                incoming.author_name or incoming.username,
                incoming.author_team,
            )
    people_by_id(channel.workspace, authors, people)
    batch = _without_the_gone(channel, batch)
    unwanted = _Unwanted.of(channel, locked.forgotten_at, now_us)
    keys = {incoming.ts for incoming in batch} | {
        incoming.thread_ts for incoming in batch if incoming.thread_ts
    }
    # The span of time spares a database without statistics from reading the whole channel.
    times = [micros(key) for key in keys]
    stored = channel.messages.filter(ts__in=keys, micros__range=(min(times), max(times)))
    rows = {row.ts: row for row in stored.defer("raw")}
    change = _Change()
    outcomes = []
    for incoming in batch:
        author_id = people[incoming.author] if incoming.author else None
        row = rows.get(incoming.ts)
        if why := unwanted.why(incoming):
            outcomes.append(why)
            if row is None:
                row = rows[incoming.ts] = _tombstone(channel, incoming, why)
                change.new.append(row)
            else:
                change.tombstone(row, incoming, why, live=live)
        elif row is None:
            row = rows[incoming.ts] = _new(channel, unwanted.cleaned(incoming), author_id)
            change.new.append(row)
            outcomes.append(STORED_NOTICE if incoming.is_notice else STORED)
        else:
            outcomes.append(change.merge(row, unwanted.cleaned(incoming), author_id, live=live))
        if incoming.thread_ts and incoming.thread_ts != incoming.ts:
            root = rows.get(incoming.thread_ts)
            if root is None:
                root = rows[incoming.thread_ts] = _placeholder(channel, incoming.thread_ts)
                change.new.append(root)
            elif not root.thread_ts:
                root.thread_ts = root.ts
                change.moved(root)
    change.save(channel)
    # Of a person who is no source, nothing is one.
    revoked = Person.objects.filter(pk__in=set(people.values()), is_revoked=True).values("pk")
    channel.messages.filter(ts__in=keys, author__in=revoked).update(is_revoked=True)
    return outcomes


def _without_the_gone(channel: Channel, batch: Sequence[MessageIn]) -> Sequence[MessageIn]:
    """Without what they carry along of messages that are gone here: an export from before, or a page
    that Slack has kept, would bring their words back."""
    bodies = [
        references.load_object(incoming.raw)
        if '"attachments"' in incoming.raw or '"root"' in incoming.raw
        else {}
        for incoming in batch
    ]
    links = {link for body in bodies for link in references.embedded_links(body, channel.slack_id)}
    if not links:
        return batch
    stored = Message.objects.filter(channel__workspace=channel.workspace_id)
    removed_links = {
        references.permalink_path(*place)
        for place in stored.deleted_among(map(references.parse_permalink_path, links))
    }
    left = [references.remove_embedded(body, channel.slack_id, removed_links) for body in bodies]
    return [
        incoming
        if now == was
        else replace(incoming, raw=json.dumps(now), text=make_storable(message_text(now)))
        for incoming, was, now in zip(batch, bodies, left, strict=True)
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

    def why(self, incoming: MessageIn) -> Outcome | None:
        if incoming.is_deleted:
            return None
        if incoming.micros <= max(self.channel_us, self.people.get(incoming.author, 0)):
            return FORGOTTEN
        return TOO_OLD if incoming.micros < self.horizon_us else None

    def cleaned(self, incoming: MessageIn) -> MessageIn:
        """What a forgotten person says later is kept, but not under their name; nor does a message
        of somebody else tell it."""
        for slack_id in self.people:
            if slack_id in incoming.raw:
                text, raw = (
                    strip_mention_labels(incoming.text, slack_id),
                    strip_names(incoming.raw, slack_id),
                )
                incoming = replace(incoming, text=text, raw=raw)
        return replace(incoming, username="") if incoming.author in self.people else incoming


def _new(channel: Channel, incoming: MessageIn, author_id: int | None) -> Message:
    return Message(
        channel_id=channel.pk,
        ts=incoming.ts,
        micros=incoming.micros,
        thread_ts=incoming.thread_ts,
        author_id=author_id,
        username=incoming.username,
        subtype=incoming.subtype,
        is_notice=incoming.is_notice,
        is_bot=incoming.is_bot,
        broadcast=incoming.broadcast,
        state=Message.State.DELETED if incoming.is_deleted else Message.State.LIVE,
        text=incoming.text,
        raw=incoming.raw,
        edited_ts=incoming.edited_ts,
        reply_count=incoming.reply_count,
        latest_reply=incoming.latest_reply,
    )


def _tombstone(channel: Channel, incoming: MessageIn, why: Outcome) -> Message:
    row = _new(channel, _as_deleted(incoming), None)
    row.state = Message.State.EXPIRED if why is TOO_OLD else Message.State.DELETED
    return row


def _as_deleted(incoming: MessageIn) -> MessageIn:
    """Of a message its place in the conversation, as a deletion tells it."""
    return MessageIn(
        ts=incoming.ts,
        micros=incoming.micros,
        thread_ts=incoming.thread_ts,
        reply_count=incoming.reply_count,
        latest_reply=incoming.latest_reply,
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
        self.removed: dict[int, RemovedMessage] = {}

    def merge(
        self, row: Message, incoming: MessageIn, author_id: int | None, *, live: bool
    ) -> Outcome:
        """Put what a further sight of a message tells into its row."""
        was = row.state
        placed = _place(row, incoming, live=live)
        if was == Message.State.DELETED or (row.is_tombstone and not incoming.is_deleted):
            changed = False
        elif incoming.is_deleted:
            self._forget(row, RemovedMessage.of(row))
            row.purge()
            changed = True
        elif was == Message.State.MISSING or _stays(incoming, row, live=live):
            changed = True
            before = row.text
            self._fill(row, incoming, author_id)
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
            return STORED_NOTICE if incoming.is_notice else STORED
        return UPDATED if changed or placed else DUPLICATE

    def _fill(self, row: Message, incoming: MessageIn, author_id: int | None) -> None:
        row.state = Message.State.LIVE
        row.author_id = author_id or row.author_id
        row.username = incoming.username
        row.subtype = incoming.subtype
        row.is_notice = incoming.is_notice
        row.is_bot = incoming.is_bot
        row.broadcast = incoming.broadcast or row.broadcast
        row.text = incoming.text
        row.raw = incoming.raw
        row.edited_ts = incoming.edited_ts

    def tombstone(self, row: Message, incoming: MessageIn, why: Outcome, *, live: bool) -> None:
        """What is not wanted leaves a tombstone; of what grew too old while it was kept, retention
        takes care."""
        was = row.state
        if why is FORGOTTEN or was == Message.State.MISSING:
            self.merge(row, _as_deleted(incoming), None, live=live)
        if why is TOO_OLD and was == Message.State.MISSING:
            row.state = Message.State.EXPIRED

    def _forget(self, row: Message, removed: RemovedMessage) -> None:
        """Of a message that changes twice in a batch, what it said at first: nothing else was read."""
        if row.pk:
            first = self.removed.get(row.pk)
            self.removed[row.pk] = replace(removed, text=first.text) if first else removed

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
        forgetting.mask(channel.workspace, list(self.removed.values()))


def _stays(incoming: MessageIn, row: Message, *, live: bool) -> bool:
    """Whether this version stays, and not the row's: the later edit. Equal edits differ by what
    came to hang on them, or went again: Slack's word of now counts, else the longer one."""
    new_edit, row_edit = micros_or_0(incoming.edited_ts), micros_or_0(row.edited_ts)
    if new_edit != row_edit:
        return new_edit > row_edit
    if live:
        return incoming.text != row.text
    return (len(incoming.text), incoming.text) > (len(row.text), row.text)


def _place(row: Message, incoming: MessageIn, *, live: bool) -> bool:
    """Where a message stands in its thread; True when that is news."""
    before = (row.thread_ts, row.broadcast, row.reply_count, row.latest_reply)
    row.thread_ts = row.thread_ts or incoming.thread_ts
    if not incoming.is_deleted and not row.is_tombstone:
        row.broadcast = row.broadcast or incoming.broadcast
    reported = (micros_or_0(incoming.latest_reply), incoming.reply_count)
    stored = (micros_or_0(row.latest_reply), row.reply_count)
    is_root_now = live and not incoming.is_deleted and incoming.thread_ts in ("", incoming.ts)
    if reported > stored or (is_root_now and reported != stored):
        row.latest_reply, row.reply_count = incoming.latest_reply, incoming.reply_count
    return before != (row.thread_ts, row.broadcast, row.reply_count, row.latest_reply)
