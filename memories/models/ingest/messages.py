"""Messages, as Slack sent them. Readable text is made from them when it is needed."""

from collections.abc import Iterable, Sequence
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


def name_of_author(person: str, username: str) -> str:
    """The name a message came with, which a bot chooses for each, else its author's."""
    return username or person


# What is left of a message that was deleted, forgotten or too old: its place in the conversation.
PURGED: dict[str, Any] = {
    **dict.fromkeys(["is_notice", "is_bot", "broadcast"], False),
    **dict.fromkeys(["username", "subtype", "text", "raw", "edited_ts"], ""),
}


def _left_of(state: str) -> dict[str, Any]:
    """Whose it was is kept of what is only too old: its memories stay, and go when its author is
    forgotten."""
    return PURGED if state == Message.State.EXPIRED else {**PURGED, "author_id": None}


def is_rememberable() -> Q:
    return Q(state=Message.State.LIVE, is_notice=False, is_revoked=False) & ~Q(
        is_bot=True, channel__remember_bots=False
    )


def waits_in_thread() -> Q:
    """Of messages in threads: from the start mark on, and in no segment of the thread yet."""
    return is_rememberable() & Q(
        thread_segment__isnull=True, micros__gte=models.F("channel__start_us")
    )


class MessageQuerySet(SearchableQuerySet["Message"]):
    searched_as = MESSAGE

    def roots(self) -> "MessageQuerySet":
        """Messages that have, or had, a thread."""
        return self.filter(thread_ts=models.F("ts"))

    def owing_replies(self) -> "MessageQuerySet":
        """Roots whose threads have moved and were not read since, newest first."""
        return self.filter(thread_moved=True).order_by("-micros")

    def thread_has_moved(self) -> None:
        self.update(thread_moved=True, thread_at_ts="")

    def until(self, now_us: int) -> "MessageQuerySet":
        return self.filter(micros__lte=now_us)

    def still_there(self) -> "MessageQuerySet":
        """In Slack, as far as we know: also what is too old to be kept here."""
        return self.filter(state__in=(Message.State.LIVE, Message.State.EXPIRED))

    def rememberable(self) -> "MessageQuerySet":
        """What a summary may be made of: no notices, nothing deleted, no unwanted bots (rule 3)."""
        return self.filter(is_rememberable())

    def gone_of(self, places: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of these (channel's Slack id, ts) were deleted or forgotten."""
        keys = set(places)
        rows = self.filter(
            state=Message.State.DELETED,
            channel__slack_id__in={channel for channel, _ in keys},
            ts__in={ts for _, ts in keys},
        )
        return keys.intersection(rows.values_list("channel__slack_id", "ts"))

    def said_from_outside(self) -> "MessageQuerySet":
        """By guests, people who are not of the team, and in a connected workspace by nobody known."""
        nobody = Q(author=None, is_bot=False, channel__workspace__connected_at__isnull=False)
        return self.filter(nobody | Q(author__in=Person.objects.from_outside()))

    def waiting(self) -> "MessageQuerySet":
        """From the start mark on and in no segment of the channel yet."""
        return self.rememberable().filter(
            segment__isnull=True, micros__gte=models.F("channel__start_us")
        )

    def waiting_in_threads(self) -> "MessageQuerySet":
        """From the start mark on, in a thread, and in none of its segments yet."""
        return self.filter(waits_in_thread()).exclude(thread_ts="")

    def in_threads(self, timestamps: Iterable[str]) -> "MessageQuerySet":
        """Those of the threads with these ts. SQLite takes the index of messages in threads only when
        the question says that it is about such."""
        return self.filter(thread_ts__in=list(timestamps)).exclude(thread_ts="")

    def latest_replies(self) -> "MessageQuerySet":
        """Of each thread the newest of these replies, newest first: of an index of the replies of a
        channel as many are read as are asked for, whatever the number of its threads."""
        replies = self.exclude(thread_ts="").exclude(ts=models.F("thread_ts"))
        later = replies.filter(
            channel=models.OuterRef("channel"),
            thread_ts=models.OuterRef("thread_ts"),
            micros__gt=models.OuterRef("micros"),
        )
        return replies.filter(~models.Exists(later)).order_by("-micros")

    def before_start(self, channels: Iterable[Channel], would_be_us: int) -> dict[int, int]:
        """Per channel (row id), what could be remembered but lies before its start mark.

        ``would_be_us`` stands in for a mark that no pass has fixed yet.
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
        """Add rows that are in no table yet, several times faster than ``bulk_create``.

        The fields of a message are plain values, so nothing is gained by asking each field of
        each row how it is to be stored, which is what takes the time. Sets no primary keys.
        """
        fields = [field for field in Message._meta.concrete_fields if not field.primary_key]
        now = connections[self.db].ops.adapt_datetimefield_value(timezone.now())
        for row in rows:
            row.stored_at = now  # type: ignore[assignment]
        names = [field.attname for field in fields]
        columns = ", ".join(self._columns(names))
        places = ", ".join(["%s"] * len(fields))
        self._each(f"INSERT INTO {{}} ({columns}) VALUES ({places})", rows, names)

    def rewrite(self, rows: Sequence["Message"], names: Sequence[str]) -> None:
        """Save these fields (``author_id``, not ``author``) of stored rows; see `insert`."""
        columns = ", ".join(f"{column} = %s" for column in self._columns(names))
        self._each(f"UPDATE {{}} SET {columns} WHERE id = %s", rows, [*names, "id"])

    def _columns(self, names: Sequence[str]) -> list[str]:
        by_name = {field.attname: str(field.column) for field in Message._meta.concrete_fields}
        return [connections[self.db].ops.quote_name(by_name[name]) for name in names]

    def _each(self, sql: str, rows: Sequence["Message"], names: Sequence[str]) -> None:
        """Run a statement once for each row, with these of its values."""
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
        """Forget what was said and how (`Message.purge`); how many it were."""
        return self.update(state=state, **_left_of(state))

    def in_order(self) -> "MessageQuerySet":
        return self.order_by("micros", "pk")


class Message(models.Model):
    """One message, known by (channel, ts). ``micros`` is its ts as an exact number.

    ``text`` holds Slack's own markup; ``raw`` the whole object as ASCII JSON, so that even a NUL
    or half a surrogate pair survives on every database.
    """

    class State(models.TextChoices):
        LIVE = "live", _("live")
        DELETED = "deleted", _("deleted")
        EXPIRED = "expired", _("older than messages are kept")  # as deleted; memories stay
        MISSING = "missing", _("root not seen")  # replies are here, their root is not (yet)

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
    raw = models.TextField(_("as received"), blank=True)
    edited_ts = models.CharField(_("edited"), max_length=20, blank=True)
    # Of a root, as Slack last told: a sync reads a thread again when these move.
    reply_count = models.PositiveIntegerField(_("replies"), default=0)
    latest_reply = models.CharField(_("latest reply"), max_length=20, blank=True)
    # Of a root: when its thread was last read to the end.
    replies_read_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Of a root: its thread is not the same in Slack any more, and has to be read.
    thread_moved = models.BooleanField(default=False, editable=False)
    # Of a root: how far a reading of its thread has come that did not reach the end (a ts).
    thread_at_ts = models.CharField(max_length=20, blank=True, editable=False)
    # Said while the channel was private: for its members, whatever the channel is now.
    was_private = models.BooleanField(_("said in private"), default=False)
    # A person's word that it is no source for memories (again).
    is_revoked = models.BooleanField(_("revoked as a source"), default=False)
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
            # Pages of a channel, in order of time.
            models.Index(fields=["channel", "micros"], name="message_time"),
            # A thread, in order of time.
            models.Index(
                fields=["channel", "thread_ts", "micros"],
                name="message_thread",
                condition=~Q(thread_ts=""),
            ),
            # MessageQuerySet.latest_replies.
            models.Index(
                fields=["channel", "-micros"], name="message_in_thread", condition=~Q(thread_ts="")
            ),
            # What a pass looks for: MessageQuerySet.waiting and waiting_in_threads.
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
            # What a sync looks for: MessageQuerySet.owing_replies, and the ring of threads.
            models.Index(
                fields=["channel", "-micros"],
                name="message_owing_replies",
                condition=Q(thread_moved=True),
            ),
            models.Index(
                fields=["channel", "replies_read_at"],
                name="message_ring",
                condition=Q(thread_ts=models.F("ts")),
            ),
            # Private messages of a channel, a segment or a thread: JobQuerySet.visible_to.
            models.Index(fields=["channel"], name="message_private", condition=Q(was_private=True)),
            models.Index(
                fields=["segment"], name="message_private_in_segment", condition=Q(was_private=True)
            ),
            models.Index(
                fields=["channel", "thread_ts"],
                name="message_private_in_thread",
                condition=Q(was_private=True) & ~Q(thread_ts=""),
            ),
        ]
        verbose_name = _("message")
        verbose_name_plural = _("messages")

    def __str__(self) -> str:
        return f"{self.channel_id}/{self.ts}"

    @property
    def author_name(self) -> str:
        """Who wrote it, in prompts, contexts and pages alike; "" when nobody knows."""
        return name_of_author(self.author.name if self.author else "", self.username)

    def thread_goes_on(self, at_ts: str) -> None:
        """Of a root: its thread is read up to here."""
        self.thread_at_ts = at_ts
        self.save(update_fields=["thread_at_ts"])

    def thread_was_read(self, now: datetime) -> None:
        """Of a root: its thread is as in Slack."""
        self.replies_read_at, self.thread_moved, self.thread_at_ts = now, False, ""
        self.save(update_fields=["replies_read_at", "thread_moved", "thread_at_ts"])

    @property
    def is_root(self) -> bool:
        return self.thread_ts == self.ts

    @property
    def is_reply(self) -> bool:
        return self.thread_ts not in ("", self.ts)

    @property
    def is_gone(self) -> bool:
        """A tombstone: no import and no event brings its text back."""
        return self.state in self.REMOVED

    def purge(self, state: "Message.State | None" = None) -> None:
        """Forget what was said, how, and, unless it is only too old, by whom; its place in the
        conversation stays. Unsaved."""
        self.state = state or self.State.DELETED
        for name, value in _left_of(self.state).items():
            setattr(self, name, value)
