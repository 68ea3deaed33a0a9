"""Messages in Slack's own markup. Code that shows them makes readable text of it."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db import connections, models
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.generate.segments import Segment
from memories.models.ingest.channels import Channel
from memories.models.ingest.people import Person
from memories.models.search.documents import MESSAGE, SearchableQuerySet
from memories.rules.ingest.timestamps import from_micros


def author_name(person: str, username: str) -> str:
    """Return the message's own username, which bots choose, else the author's name."""
    return username or person


PRIVATE_DAYS = Q(was_private=True, channel__kind=Channel.Kind.PUBLIC)
# The fields of a deleted, forgotten or expired message. Its place in the conversation stays.
PURGED: dict[str, Any] = {
    **dict.fromkeys(["is_notice", "is_bot", "broadcast"], False),
    **dict.fromkeys(["username", "subtype", "text", "raw", "edited_ts"], ""),
}


def _purged_fields(state: str) -> dict[str, Any]:
    """Return the fields after a purge. An expired message keeps its author.

    Its memories stay, and a later forget of the author must find them.
    """
    return PURGED if state == Message.State.EXPIRED else {**PURGED, "author_id": None}


def rememberable_condition() -> Q:
    return Q(state=Message.State.LIVE, is_notice=False, is_revoked=False) & ~Q(
        is_bot=True, channel__remember_bots=False
    )


def waiting_in_thread_condition() -> Q:
    """Messages of a thread from the start mark on that are in no segment of the thread."""
    return rememberable_condition() & Q(
        thread_segment__isnull=True, micros__gte=models.F("channel__start_us")
    )


class MessageQuerySet(SearchableQuerySet["Message"]):
    searched_as = MESSAGE

    def roots(self) -> "MessageQuerySet":
        """Messages that have or had a thread."""
        return self.filter(thread_ts=models.F("ts"))

    def with_unread_replies(self) -> "MessageQuerySet":
        """Roots whose threads changed and were not read since, newest first."""
        return self.filter(has_unread_replies=True).order_by("-micros")

    def mark_threads_unread(self) -> None:
        self.update(has_unread_replies=True, thread_read_to_ts="")

    def until(self, now_us: int) -> "MessageQuerySet":
        return self.filter(micros__lte=now_us)

    def existing_in_slack(self) -> "MessageQuerySet":
        """Messages that were not deleted in Slack, with those that are too old to keep here."""
        return self.filter(state__in=(Message.State.LIVE, Message.State.EXPIRED))

    def from_private_days(self) -> "MessageQuerySet":
        """Messages of public channels from days when these were private. Only members read them."""
        return self.filter(PRIVATE_DAYS)

    def without_private_days(self) -> "MessageQuerySet":
        return self.exclude(PRIVATE_DAYS)

    def rememberable(self) -> "MessageQuerySet":
        """Messages that a summary may use: no notices, deletions or excluded bots (rule 3)."""
        return self.filter(rememberable_condition())

    def removed_among(self, keys: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return which of these (channel's Slack id, ts) were deleted or forgotten, or are too old."""
        keys = set(keys)
        rows = self.filter(
            state__in=Message.REMOVED,
            channel__slack_id__in={channel for channel, _ in keys},
            ts__in={ts for _, ts in keys},
        )
        return keys.intersection(rows.values_list("channel__slack_id", "ts"))

    def from_outsiders(self) -> "MessageQuerySet":
        """Messages of guests and outsiders, and of unknown authors in a connected workspace."""
        is_unsigned = Q(author=None, is_bot=False, channel__workspace__connected_at__isnull=False)
        return self.filter(is_unsigned | Q(author__in=Person.objects.from_outside()))

    def waiting(self) -> "MessageQuerySet":
        """Messages from the start mark on that are in no segment of the channel."""
        return self.rememberable().filter(
            segment__isnull=True, micros__gte=models.F("channel__start_us")
        )

    def waiting_in_threads(self) -> "MessageQuerySet":
        """Messages of threads from the start mark on that are in no segment of their thread."""
        return self.filter(waiting_in_thread_condition()).exclude(thread_ts="")

    def in_threads(self, timestamps: Iterable[str]) -> "MessageQuerySet":
        """Messages of the threads with these ts.

        SQLite uses the partial index of threads only when the query repeats its condition.
        """
        return self.filter(thread_ts__in=list(timestamps)).exclude(thread_ts="")

    def latest_replies(self) -> "MessageQuerySet":
        """The newest reply of each thread, newest first.

        A slice of it reads a part of the index only, whatever the number of threads.
        """
        replies = self.exclude(thread_ts="").exclude(ts=models.F("thread_ts"))
        later = replies.filter(
            channel=models.OuterRef("channel"),
            thread_ts=models.OuterRef("thread_ts"),
            micros__gt=models.OuterRef("micros"),
        )
        return replies.filter(~models.Exists(later)).order_by("-micros")

    def before_start(self, channels: Iterable[Channel], would_be_us: int) -> dict[int, int]:
        """Return the number of rememberable messages before the start mark, by channel (row id).

        ``would_be_us`` is the mark of channels that have none yet.
        """
        start = Coalesce(models.F("channel__start_us"), models.Value(would_be_us))
        return dict(
            self.rememberable()
            .filter(channel__in=[channel.pk for channel in channels], micros__lt=start)
            .values_list("channel")
            .annotate(models.Count("pk"))
            .order_by()
        )

    def insert(self, rows: Sequence["Message"]) -> None:
        """Insert new rows, several times faster than ``bulk_create``, without setting primary keys.

        ``bulk_create`` spends its time on the conversion of each value by its field. The values of
        a message need no conversion.
        """
        fields = [field for field in Message._meta.concrete_fields if not field.primary_key]
        now = connections[self.db].ops.adapt_datetimefield_value(timezone.now())
        for row in rows:
            row.stored_at = now  # type: ignore[assignment]
        names = [field.attname for field in fields]
        columns = ", ".join(self._columns(names))
        placeholders = ", ".join(["%s"] * len(fields))
        self._each(f"INSERT INTO {{}} ({columns}) VALUES ({placeholders})", rows, names)

    def rewrite(self, rows: Sequence["Message"], names: Sequence[str]) -> None:
        """Save these fields (``author_id``, not ``author``) of stored rows, as fast as `insert`."""
        columns = ", ".join(f"{column} = %s" for column in self._columns(names))
        self._each(f"UPDATE {{}} SET {columns} WHERE id = %s", rows, [*names, "id"])

    def _columns(self, names: Sequence[str]) -> list[str]:
        by_name = {field.attname: str(field.column) for field in Message._meta.concrete_fields}
        return [connections[self.db].ops.quote_name(by_name[name]) for name in names]

    def _each(self, sql: str, rows: Sequence["Message"], names: Sequence[str]) -> None:
        """Run a statement once for each row, with the values of these attributes."""
        if not rows:
            return
        connection = connections[self.db]
        values = attrgetter(*names)
        with connection.cursor() as cursor:
            cursor.executemany(
                sql.format(connection.ops.quote_name(Message._meta.db_table)),
                [values(row) for row in rows],
            )

    def purge(self, state: str) -> int:
        """Purge messages as `Message.purge` does; return their number."""
        return self.update(state=state, **_purged_fields(state))

    def in_order(self) -> "MessageQuerySet":
        return self.order_by("micros", "pk")


class Message(models.Model):
    """A message, identified by (channel, ts). ``micros`` is its ts in microseconds since 1970.

    ``text`` is Slack's markup. ``raw`` is the whole object as ASCII JSON, so that every database
    stores a NUL and half a surrogate pair.
    """

    class State(models.TextChoices):
        LIVE = "live", _("live")
        DELETED = "deleted", _("deleted")
        EXPIRED = "expired", _("older than messages are kept")  # its memories stay
        MISSING = "missing", _("first message not received")  # replies are stored, the root is not

    REMOVED = (State.DELETED, State.EXPIRED)

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="messages")
    ts = models.CharField(_("ts"), max_length=20)
    micros = models.BigIntegerField()
    thread_ts = models.CharField(_("thread"), max_length=20, blank=True)
    author = models.ForeignKey(
        Person, on_delete=models.SET_NULL, related_name="messages", null=True, blank=True
    )
    username = models.CharField(_("author's name"), max_length=200, blank=True)
    subtype = models.CharField(_("subtype"), max_length=50, blank=True)
    is_notice = models.BooleanField(_("notice"), default=False)
    is_bot = models.BooleanField(_("from a bot"), default=False)
    broadcast = models.BooleanField(_("also sent to the channel"), default=False)
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.LIVE)
    text = models.TextField(_("text"), blank=True)
    raw = models.TextField(_("raw data"), blank=True)
    edited_ts = models.CharField(_("edited"), max_length=20, blank=True)
    # Of a root, the last values from Slack: a sync reads the thread again when they change.
    reply_count = models.PositiveIntegerField(_("replies"), default=0)
    latest_reply = models.CharField(_("latest reply"), max_length=20, blank=True)
    # Of a root: when its thread was last read to the end.
    replies_read_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Of a root: its thread changed in Slack and has to be read.
    has_unread_replies = models.BooleanField(default=False, editable=False)
    # Of a root: the ts up to which an unfinished read of its thread has come.
    thread_read_to_ts = models.CharField(max_length=20, blank=True, editable=False)
    # Written while the channel was private: visible to its members only, whatever it is now.
    was_private = models.BooleanField(_("sent in private"), default=False)
    # A person decided that it is no source for memories.
    is_revoked = models.BooleanField(_("excluded as a source"), default=False)
    stored_at = models.DateTimeField(_("stored"), auto_now_add=True)
    # A message is in at most one segment of its channel, and at most one of its thread.
    segment = models.ForeignKey(
        Segment, on_delete=models.SET_NULL, related_name="messages", null=True, blank=True
    )
    thread_segment = models.ForeignKey(
        Segment, on_delete=models.SET_NULL, related_name="thread_messages", null=True, blank=True
    )

    objects = MessageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["channel", "ts"], name="message_once"),
        ]
        indexes = [
            # Pages of a channel.
            models.Index(fields=["channel", "micros"], name="message_time"),
            # Pages of a thread.
            models.Index(
                fields=["channel", "thread_ts", "micros"],
                name="message_thread",
                condition=~Q(thread_ts=""),
            ),
            # MessageQuerySet.latest_replies.
            models.Index(
                fields=["channel", "-micros"], name="message_in_thread", condition=~Q(thread_ts="")
            ),
            # MessageQuerySet.waiting and waiting_in_threads.
            models.Index(
                fields=["channel", "micros"],
                name="message_waiting",
                condition=Q(segment__isnull=True, is_notice=False),
            ),
            models.Index(
                fields=["channel", "thread_ts"],
                name="message_waiting_in_thread",
                condition=Q(thread_segment__isnull=True, is_notice=False) & ~Q(thread_ts=""),
            ),
            # MessageQuerySet.with_unread_replies, and the resync schedule of threads.
            models.Index(
                fields=["channel", "-micros"],
                name="message_unread_replies",
                condition=Q(has_unread_replies=True),
            ),
            models.Index(
                fields=["channel", "replies_read_at"],
                name="message_ring",
                condition=Q(thread_ts=models.F("ts")),
            ),
            # JobQuerySet.visible_to.
            models.Index(fields=["channel"], name="message_private", condition=Q(was_private=True)),
            models.Index(
                fields=["segment"], name="message_private_in_segment", condition=Q(was_private=True)
            ),
            models.Index(
                fields=["channel", "thread_ts"],
                name="message_private_in_thread",
                condition=Q(was_private=True) & ~Q(thread_ts=""),
            ),
            # SegmentQuerySet.visible_to.
            models.Index(
                fields=["thread_segment"],
                name="message_private_thread",
                condition=Q(was_private=True, thread_segment__isnull=False),
            ),
        ]
        verbose_name = _("message")
        verbose_name_plural = _("messages")

    def __str__(self) -> str:
        return f"{self.channel}, {timezone.localtime(from_micros(self.micros)):%Y-%m-%d %H:%M}"

    @property
    def author_name(self) -> str:
        """The author's name in prompts, contexts and pages; "" when unknown."""
        return author_name(self.author.name if self.author else "", self.username)

    def record_thread_progress(self, at_ts: str) -> None:
        """Record that the thread of this root is read up to here."""
        self.thread_read_to_ts = at_ts
        self.save(update_fields=["thread_read_to_ts"])

    def record_thread_read(self, now: datetime) -> None:
        """Record that the thread of this root is read to its end."""
        self.replies_read_at, self.has_unread_replies, self.thread_read_to_ts = now, False, ""
        self.save(update_fields=["replies_read_at", "has_unread_replies", "thread_read_to_ts"])

    @property
    def is_root(self) -> bool:
        return self.thread_ts == self.ts

    @property
    def is_reply(self) -> bool:
        return self.thread_ts not in ("", self.ts)

    @property
    def is_tombstone(self) -> bool:
        """Whether the text was removed. No import and no event brings it back."""
        return self.state in self.REMOVED

    def replace_content(self, clean: Callable[[str, str], tuple[str, str]]) -> bool:
        """Replace the stored text and raw by ``clean(text, raw)``. Return whether they changed.

        If another process has changed them since this row was read, the new content is cleaned.
        """
        while (cleaned := clean(self.text, self.raw)) != (self.text, self.raw):
            unchanged = Message.objects.filter(pk=self.pk, text=self.text, raw=self.raw)
            if unchanged.update(text=cleaned[0], raw=cleaned[1]):
                self.text, self.raw = cleaned
                return True
            self.refresh_from_db(fields=["text", "raw"])
        return False

    def purge(self, state: "Message.State | None" = None) -> None:
        """Remove the content, and the author unless it only expired. Does not save.

        Its place in the conversation stays.
        """
        self.state = state or self.State.DELETED
        for name, value in _purged_fields(self.state).items():
            setattr(self, name, value)
