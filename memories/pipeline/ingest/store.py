"""Store raw messages as rows, for imports, syncs and events.

The result does not depend on the order of messages, or on how often one comes. Of two versions the
later edit stays. A deletion is final. A reply creates a placeholder for a root that is not stored.
Each batch is one transaction. It also redacts the words of deleted and edited messages everywhere
else (`redaction.redactor`).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from memories.models import Channel, Message, Person, Segment, SlackConnection
from memories.pipeline.ingest.private_days import mark_private_days
from memories.pipeline.ingest.roster import add_row_ids
from memories.pipeline.redaction.redactor import redact_messages
from memories.pipeline.redaction.removed import RemovedMessage
from memories.rules.ingest import references
from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.message_text import message_text
from memories.rules.ingest.messages import MessageIn, is_newer, parse_message
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
from memories.rules.json_values import as_dict

BATCH = 1000
BATCH_CHARACTERS = 8_000_000
FORGOTTEN = skipped("forgotten")
TOO_OLD = skipped("older than messages are kept")
OWN_MESSAGE = skipped("posted by the hub")  # it repeats what is remembered already

_SOURCE_FIELDS = ("username", "subtype", "is_notice", "is_bot", "text", "raw", "edited_ts")
_PLACE_FIELDS = ("author_id", "broadcast", "thread_ts", "reply_count", "latest_reply")
_ALL_FIELDS = (*_SOURCE_FIELDS, *_PLACE_FIELDS, "state")


def store_messages(
    channel: Channel, raws: Iterable[object], now: datetime, *, live: bool = False
) -> Tally:
    """Store a channel's messages, edits and deletions, in any order.

    ``live`` objects are Slack's current answers: their reply counts replace the stored ones, and
    their text replaces one with the same edit time. Of other objects the counts of the later reply
    and the longer text stay.
    """
    tally = Tally()
    row_ids: dict[str, int] = {}
    now_us = to_micros(now)
    batch: list[MessageIn] = []
    size = 0
    own_bot = _own_bot(channel)

    def store_batch() -> None:
        with transaction.atomic():
            outcomes = _store_batch(channel, batch, row_ids, now_us, live=live)
        for outcome in outcomes:
            tally.count_outcome(ObjectType.MESSAGE, outcome)

    for raw in raws:
        tally.count_seen(ObjectType.MESSAGE)
        incoming = OWN_MESSAGE if _is_by(own_bot, raw) else parse_message(raw, now_us)
        if isinstance(incoming, Outcome):
            tally.count_outcome(ObjectType.MESSAGE, incoming)
            continue
        batch.append(incoming)
        size += len(incoming.raw)
        if len(batch) == BATCH or size > BATCH_CHARACTERS:
            store_batch()
            batch, size = [], 0
    if batch:
        store_batch()
    return tally


def _own_bot(channel: Channel) -> str:
    """Return the id of the hub's own bot, "" without one."""
    connections = SlackConnection.objects.filter(workspace=channel.workspace_id)
    return connections.values_list("bot_id", flat=True).first() or ""


def _is_by(bot_id: str, raw: object) -> bool:
    """Return whether this bot wrote a message, or the message of an edit."""
    message = as_dict(raw)
    bots = (message.get("bot_id"), as_dict(message.get("message")).get("bot_id"))
    return bot_id != "" and bot_id in bots


def _store_batch(
    channel: Channel,
    batch: Sequence[MessageIn],
    row_ids: dict[str, int],
    now_us: int,
    *,
    live: bool,
) -> list[Outcome]:
    """Store a batch; ``row_ids`` caches the authors' row ids by Slack id."""
    # The lock keeps out other writers, which could insert a message twice, and a pass that cuts
    # segments, which could miss an edit. It also waits for a forget of the channel.
    locked = Channel.objects.select_for_update().get(pk=channel.pk)
    add_row_ids(channel.workspace, _authors(batch), row_ids)
    batch = _without_removed_embeds(channel, batch)
    exclusions = _Exclusions.of(channel, locked.forgotten_at, now_us)
    keys = {incoming.ts for incoming in batch} | {
        incoming.thread_ts for incoming in batch if incoming.thread_ts
    }
    # The range of times helps a database without statistics, which reads the whole channel else.
    times = [micros(key) for key in keys]
    stored = channel.messages.filter(ts__in=keys, micros__range=(min(times), max(times)))
    rows = {row.ts: row for row in stored.defer("raw")}
    changes = _Changes(now_us if live else 0)
    outcomes = []
    for incoming in batch:
        author_id = row_ids[incoming.author] if incoming.author else None
        row = rows.get(incoming.ts)
        if exclusion := exclusions.find(incoming):
            outcomes.append(exclusion)
            if row is None:
                row = rows[incoming.ts] = _new_tombstone(channel, incoming, exclusion)
                changes.new.append(row)
            else:
                changes.exclude(row, incoming, exclusion)
        elif row is None:
            row = rows[incoming.ts] = _new_row(channel, exclusions.cleaned(incoming), author_id)
            changes.new.append(row)
            outcomes.append(STORED_NOTICE if incoming.is_notice else STORED)
        else:
            cleaned = exclusions.cleaned(incoming)
            outcomes.append(changes.merge(row, cleaned, author_id))
        if incoming.thread_ts not in ("", incoming.ts):
            root = rows.get(incoming.thread_ts)
            if root is None:
                root = rows[incoming.thread_ts] = _placeholder(channel, incoming.thread_ts)
                changes.new.append(root)
            elif not root.thread_ts:
                root.thread_ts = root.ts
                changes.add_placed(root)
    mark_private_days(locked, changes.new, changes.filled)
    changes.save(channel)
    revoked = Person.objects.filter(pk__in=set(row_ids.values()), is_revoked=True).values("pk")
    channel.messages.filter(ts__in=keys, author__in=revoked).update(is_revoked=True)
    return outcomes


def _authors(batch: Sequence[MessageIn]) -> dict[str, tuple[str, str]]:
    """Return the authors' Slack ids with (name, team) of their first message that has a name."""
    authors: dict[str, tuple[str, str]] = {}
    for incoming in batch:
        if incoming.author and not authors.get(incoming.author, ("", ""))[0]:
            name = incoming.author_name or incoming.username
            authors[incoming.author] = (name, incoming.author_team)
    return authors


def _without_removed_embeds(channel: Channel, batch: Sequence[MessageIn]) -> Sequence[MessageIn]:
    """Remove the copies of deleted and expired messages that other messages contain.

    An older export, or an unfurl that Slack keeps, would bring their words back.
    """
    bodies = [
        references.load_object(incoming.raw) if references.may_embed(incoming.raw) else {}
        for incoming in batch
    ]
    links = {link for body in bodies for link in references.embedded_links(body, channel.slack_id)}
    if not links:
        return batch
    stored = Message.objects.filter(channel__workspace=channel.workspace_id)
    removed_links = {
        references.permalink_path(*key)
        for key in stored.removed_among(map(references.parse_permalink_path, links))
    }
    kept = [references.remove_embedded(body, channel.slack_id, removed_links) for body in bodies]
    return [
        incoming
        if after == before
        else replace(incoming, raw=json.dumps(after), text=make_storable(message_text(after)))
        for incoming, before, after in zip(batch, bodies, kept, strict=True)
    ]


@dataclass(frozen=True)
class _Exclusions:
    """The messages that leave only a tombstone.

    They are older than the retention, or than a forget of their channel or author.
    """

    channel_us: int  # the time of the channel's forget, 0 without one
    horizon_us: int
    people: dict[str, int]  # Slack id of a forgotten person → time of the forget

    @classmethod
    def of(cls, channel: Channel, forgotten_at: datetime | None, now_us: int) -> "_Exclusions":
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

    def find(self, incoming: MessageIn) -> Outcome | None:
        """Return why a message is excluded, None when it is not."""
        if incoming.is_deleted:
            return None
        if incoming.micros <= max(self.channel_us, self.people.get(incoming.author, 0)):
            return FORGOTTEN
        return TOO_OLD if incoming.micros < self.horizon_us else None

    def cleaned(self, incoming: MessageIn) -> MessageIn:
        """Remove the names of forgotten people, also from their own later messages."""
        for slack_id in self.people:
            if slack_id in incoming.raw:
                incoming = replace(
                    incoming,
                    text=strip_mention_labels(incoming.text, slack_id),
                    raw=strip_names(incoming.raw, slack_id),
                )
        return replace(incoming, username="") if incoming.author in self.people else incoming


def _new_row(channel: Channel, incoming: MessageIn, author_id: int | None) -> Message:
    return Message(
        channel_id=channel.pk,
        ts=incoming.ts,
        micros=incoming.micros,
        thread_ts=incoming.thread_ts,
        author_id=author_id,
        broadcast=incoming.broadcast,
        state=Message.State.DELETED if incoming.is_deleted else Message.State.LIVE,
        reply_count=incoming.reply_count,
        latest_reply=incoming.latest_reply,
        **{name: getattr(incoming, name) for name in _SOURCE_FIELDS},
    )


def _new_tombstone(channel: Channel, incoming: MessageIn, exclusion: Outcome) -> Message:
    row = _new_row(channel, _as_deletion(incoming), None)
    row.state = Message.State.EXPIRED if exclusion is TOO_OLD else Message.State.DELETED
    return row


def _as_deletion(incoming: MessageIn) -> MessageIn:
    """Return the deletion of this message, which has only its place in the conversation."""
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


def add_placeholders(channel: Channel, timestamps: Iterable[str]) -> None:
    """Create placeholders for those roots of threads that are not stored."""
    stored = channel.messages.filter(ts__in=timestamps).values_list("ts", flat=True)
    missing = [_placeholder(channel, ts) for ts in set(timestamps).difference(stored)]
    Message.objects.bulk_create(missing, ignore_conflicts=True)


class _Changes:
    """The rows that one batch inserts and updates. ``live_us``: see `is_newer`."""

    def __init__(self, live_us: int) -> None:
        self._live_us = live_us
        self.new: list[Message] = []
        self.filled: list[Message] = []  # stored placeholders whose message came
        self._changed: dict[int, Message] = {}
        self._placed: dict[int, Message] = {}
        self._reported: set[int] = set()  # roots with replies that no sync may have read
        self._stale_segments: set[int] = set()
        self._removed: dict[int, RemovedMessage] = {}

    def merge(self, row: Message, incoming: MessageIn, author_id: int | None) -> Outcome:
        """Merge another version of a message into its row."""
        was = row.state
        replies = row.reply_count, row.latest_reply
        is_placed = _place(row, incoming, live=bool(self._live_us))
        if not self._live_us and row.pk and replies != (row.reply_count, row.latest_reply):
            self._reported.add(row.pk)
        is_changed = True
        if was == Message.State.DELETED or (row.is_tombstone and not incoming.is_deleted):
            is_changed = False
        elif incoming.is_deleted:
            self._record_removed(row, RemovedMessage.of(row))
            row.purge()
        elif was == Message.State.MISSING or is_newer(
            incoming, row.text, row.edited_ts, live_us=self._live_us
        ):
            before, edited_ts = row.text, row.edited_ts
            for name in _SOURCE_FIELDS:
                setattr(row, name, getattr(incoming, name))
            row.edited_ts = max(edited_ts, row.edited_ts, key=micros_or_0)
            row.state = Message.State.LIVE
            row.author_id = author_id or row.author_id
            row.broadcast = incoming.broadcast or row.broadcast
            if was == Message.State.LIVE and before != row.text:
                self._record_removed(row, RemovedMessage.edited(row, before))
        else:
            is_changed = False
            if row.author_id is None and author_id is not None:
                row.author_id = author_id
                is_placed = True
        if is_changed:
            self._stale_segments.update(filter(None, (row.segment_id, row.thread_segment_id)))
            if row.pk:
                self._changed[row.pk] = row
                if was == Message.State.MISSING:
                    self.filled.append(row)
        elif is_placed:
            self.add_placed(row)
        if was == Message.State.MISSING:
            return STORED_NOTICE if incoming.is_notice else STORED
        return UPDATED if is_changed or is_placed else DUPLICATE

    def exclude(self, row: Message, incoming: MessageIn, exclusion: Outcome) -> None:
        """Make a tombstone of an excluded message; the retention deletes the expired rows."""
        was = row.state
        if exclusion is FORGOTTEN or was == Message.State.MISSING:
            self.merge(row, _as_deletion(incoming), None)
        if exclusion is TOO_OLD and was == Message.State.MISSING:
            row.state = Message.State.EXPIRED

    def add_placed(self, row: Message) -> None:
        """Save the row's place in its thread; a new row is saved as a whole."""
        if row.pk:
            self._placed[row.pk] = row

    def _record_removed(self, row: Message, removed: RemovedMessage) -> None:
        """Record the words to redact. After two changes in a batch these are the stored words."""
        if row.pk:
            first = self._removed.get(row.pk)
            self._removed[row.pk] = replace(removed, text=first.text) if first else removed

    def save(self, channel: Channel) -> None:
        Message.objects.insert(self.new)
        Message.objects.rewrite(list(self._changed.values()), _ALL_FIELDS)
        placed = [row for pk, row in self._placed.items() if pk not in self._changed]
        Message.objects.rewrite(placed, _PLACE_FIELDS)
        if self._reported:
            Message.objects.filter(pk__in=self._reported).update(replies_read_at=None)
        if self._stale_segments:
            Segment.objects.filter(pk__in=self._stale_segments).update(stale=True)
        redact_messages(channel.workspace, list(self._removed.values()))


def _place(row: Message, incoming: MessageIn, *, live: bool) -> bool:
    """Merge a message's place in its thread into the row; return whether the row changed."""
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
