"""Channels, their members, and the time from which they are remembered."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import MEMBERSHIP_LASTS, AudienceQuerySet, Reader
from memories.models.access.users import User
from memories.models.access.workspaces import Member, Workspace
from memories.models.ingest.people import Person, PersonQuerySet
from memories.rules.ingest.timestamps import to_micros


class ChannelQuerySet(AudienceQuerySet["Channel"]):
    def public(self) -> "ChannelQuerySet":
        return self.filter(kind=Channel.Kind.PUBLIC)

    def lock(self) -> None:
        """Lock the rows until the end of the transaction, always in the order of their keys."""
        list(self.order_by("pk").select_for_update(no_key=True))

    def feeding_workspace_memory(self) -> "ChannelQuerySet":
        """Return channels whose long-term memory is merged into the workspace's (docs/rules.md, rule 6).

        These are public channels that are not shared with another organisation, and opted-in channels.
        """
        return self.filter(
            Q(kind=Channel.Kind.PUBLIC, is_shared=False) | Q(in_workspace_memory=True),
            kind__in=(Channel.Kind.PUBLIC, Channel.Kind.PRIVATE),  # never direct messages
        )

    def opted_in(self) -> "ChannelQuerySet":
        """Channels that an admin added to the workspace's memory, which names them to readers."""
        return self.filter(in_workspace_memory=True)

    def past_first_sync(self) -> "ChannelQuerySet":
        """Leave out channels in the middle of their first sync.

        The first sync reads messages from the newest to the oldest, then threads. The ends of segments
        are unknown until it has read all messages. A channel whose sync of threads failed, or is
        impossible, is not left out.
        """
        reads_history = Q(sync__synced_ts="") & ~Q(sync__history_newest_ts="")
        reads_threads = Q(
            sync__synced_at=None,
            sync__history_started_at__isnull=False,
            is_followed=True,
            forgotten_at__isnull=True,
            bot_is_in=True,
        ) & ~Q(sync__error_code="failed")
        return self.filter(Q(sync=None) | ~(reads_history | reads_threads))

    def followed(self) -> "ChannelQuerySet":
        return self.filter(is_followed=True, forgotten_at__isnull=True)

    def named(self, name: str) -> "ChannelQuerySet":
        """Channels with this Slack id or this name, with # or without."""
        return self.filter(Q(slack_id=name) | Q(name__iexact=name.removeprefix("#")))

    def failing(self, ignored_codes: Collection[str], late: Q | None = None) -> "ChannelQuerySet":
        """Return followed channels that the sync cannot read completely.

        The bot is not in them, the last sync recorded an error that is not in ``ignored_codes``, or
        they match ``late``. Slack removes the bot from an archived channel, where it cannot be invited.
        """
        has_error = Q(sync__isnull=False) & ~Q(sync__error_code__in=ignored_codes)
        unread = Q(bot_is_in=False) | has_error
        failing = self.filter(unread if late is None else unread | late, is_followed=True)
        return failing.exclude(is_archived=True, bot_is_in=False)

    def set_bot_channels(self, slack_ids: Collection[str]) -> None:
        """Record that the bot is in these channels and in no others."""
        self.filter(slack_id__in=slack_ids, bot_is_in=False).update(bot_is_in=True)
        self.filter(bot_is_in=True).exclude(slack_id__in=slack_ids).update(bot_is_in=False)

    def names(self) -> dict[str, str]:
        """Return names by Slack id."""
        return dict(self.values_list("slack_id", "name"))


class Channel(models.Model):
    """A Slack channel, identified by its Slack id. Its name may change, and be used again.

    From ``start_us`` on every message is remembered, waiting or skipped (rule 3). A pass, an import or
    a backfill sets it; until then it is null. Segments exist from ``segments_from_us`` on. After a
    backfill moves ``start_us`` back, the next pass updates ``segments_from_us``.
    """

    class Kind(models.TextChoices):
        PUBLIC = "public", _("public channel")
        PRIVATE = "private", _("private channel")
        MPIM = "mpim", _("group message")
        IM = "im", _("direct message")

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="channels")
    slack_id = models.CharField(_("Slack id"), max_length=32)
    name = models.CharField(_("name"), max_length=200)
    # A channel is private until Slack calls it public.
    kind = models.CharField(_("kind"), max_length=10, choices=Kind, default=Kind.PRIVATE)
    is_archived = models.BooleanField(_("archived"), default=False)
    # Shared with another organisation (Slack Connect).
    is_shared = models.BooleanField(_("shared with others"), default=False)
    bot_is_in = models.BooleanField(_("the bot is in it"), default=False)
    is_followed = models.BooleanField(
        _("followed"), default=False, help_text=_("Whether its messages are read from Slack.")
    )
    in_workspace_memory = models.BooleanField(
        _("shared with the workspace memory"),
        default=False,
        help_text=_("Shares the long-term memory of a private channel with the whole workspace."),
    )
    # Start of the latest private period of a channel that was public before. Null: it may always have
    # been private.
    private_since = models.DateTimeField(null=True, blank=True, editable=False)
    # Everything in it was forgotten then: older messages are not stored again.
    forgotten_at = models.DateTimeField(_("forgotten"), null=True, blank=True)
    topic = models.TextField(_("topic"), blank=True)
    purpose = models.TextField(_("purpose"), blank=True)
    remember_bots = models.BooleanField(
        _("remember bots"), default=True, help_text=_("Whether bot messages are summarized.")
    )
    start_us = models.BigIntegerField(_("start of memory"), null=True, blank=True)
    # The moves of the start mark, oldest first: the time of each, and the mark before it.
    earlier_starts: Any = models.JSONField(default=list, blank=True, editable=False)
    segments_from_us = models.BigIntegerField(null=True, blank=True, editable=False)
    members_known_at = models.DateTimeField(_("members known"), null=True, blank=True)
    # An event reported then that a person joined or left: the next sync reads the list.
    members_changed_at = models.DateTimeField(null=True, blank=True, editable=False)
    # An event reduced its readers then: data from before that cannot extend them again.
    access_narrowed_at = models.DateTimeField(null=True, blank=True, editable=False)
    people = models.ManyToManyField(Person, through="ChannelMember", related_name="channels")

    objects = ChannelQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "slack_id"], name="channel_once"),
        ]
        verbose_name = _("channel")
        verbose_name_plural = _("channels")

    def __str__(self) -> str:
        return f"#{self.name}"

    @property
    def is_public(self) -> bool:
        return self.kind == self.Kind.PUBLIC

    @property
    def allows_sync(self) -> bool:
        """Whether the workspace's settings let its messages be read from Slack."""
        return self.is_public or self.workspace.memory_settings.read_private_channels

    def may_have_guests(self, now: datetime) -> bool:
        """Return whether the channel has readers who may not read the rest of the workspace.

        This is always true for a channel shared with another organisation. If its list of members is
        missing, stale or outdated, all people of the workspace are checked. A guest in Slack or in
        the hub counts as a guest.
        """
        if self.is_shared:
            return True
        guests = Person.objects.restricted() | self._guests_by_role()
        is_unknown = self.members_known_at is None or (
            self.workspace.connected_at is not None
            and self.members_known_at < now - MEMBERSHIP_LASTS
        )
        if not is_unknown and not self.have_members_changed:
            return guests.filter(channels=self).exists()
        return guests.filter(workspace=self.workspace_id).exists()

    def _guests_by_role(self) -> PersonQuerySet:
        """Return the people whose account has the role of a guest in this workspace."""
        accounts = Member.objects.filter(workspace=self.workspace_id, role=Member.Role.GUEST)
        return Person.objects.filter(user__in=accounts.values("user"))

    def common_reader(self, now: datetime) -> Reader:
        """Return a reader for what all readers of the channel in Slack may read.

        If some of them may read only this channel, it reads this channel alone. Every full member in
        Slack reads a public channel, whatever their role in the hub.
        """
        full = self._guests_by_role().full_members()
        guests = full.filter(workspace=self.workspace_id, is_deleted=False)
        is_narrowed = self.may_have_guests(now) or (self.is_public and guests.exists())
        return Reader(is_public=True, channel_id=self.pk, is_narrowed=is_narrowed, now=now)

    def update_fields(self, values: dict[str, Any]) -> bool:
        """Save these fields; return whether any of them changed."""
        changed = [name for name, value in values.items() if getattr(self, name) != value]
        for name in changed:
            setattr(self, name, values[name])
        if changed:
            self.save(update_fields=changed)
        return bool(changed)

    @transaction.atomic
    def follow(self, *, by: User | None, on: bool) -> bool:
        """Switch syncs of the channel on or off, with an audit event; return whether that changed.

        Stored messages stay.
        """
        rows = Channel.objects.filter(pk=self.pk, is_followed=not on)
        if not rows.update(is_followed=on):
            return False
        self.is_followed = on
        AuditEvent.objects.record(
            "channel_follow" if on else "channel_unfollow",
            by=by,
            workspace=self.workspace,
            subject=f"channel {self.pk}",
        )
        return True

    def mark_forgotten(self, now: datetime) -> None:
        """Unfollow the channel and end its opt-in. Messages from before ``now`` are not stored again."""
        self.forgotten_at = now
        self.is_followed = self.in_workspace_memory = False
        self.save(update_fields=["forgotten_at", "is_followed", "in_workspace_memory"])

    def remember_from(self, start_us: int) -> bool:
        """Set the start mark or move it back, never forward (rule 3); return whether it moved."""
        earlier = Q(start_us__isnull=True) | Q(start_us__gt=start_us)
        self.refresh_from_db(fields=["start_us", "earlier_starts"])
        starts = [*self.earlier_starts, [to_micros(timezone.now()), self.start_us]]
        movable = Channel.objects.filter(earlier, pk=self.pk)
        moved = movable.update(start_us=start_us, earlier_starts=starts)
        self.refresh_from_db(fields=["start_us", "earlier_starts"])
        return bool(moved)

    def start_mark_at(self, at_us: int) -> int | None:
        """Return the start mark of that time, None if it had none."""
        starts = (before for moved_us, before in self.earlier_starts if moved_us > at_us)
        return next(starts, self.start_us)

    @property
    def have_members_changed(self) -> bool:
        """Whether a person joined or left after the list of members was read."""
        changed_at, known_at = self.members_changed_at, self.members_known_at
        return changed_at is not None and known_at is not None and changed_at >= known_at

    def mark_members_changed(self, at: datetime) -> None:
        """Make the next sync read the whole list of members. It gives nobody access."""
        self.members_changed_at = at
        self.save(update_fields=["members_changed_at"])

    def set_members_known(self, at: datetime) -> None:
        """Record that the list of members was complete at that time."""
        self.members_known_at = at
        self.save(update_fields=["members_known_at"])

    def mark_segments_complete(self) -> None:
        """Record that segments exist from the start mark on."""
        Channel.objects.filter(pk=self.pk).update(segments_from_us=F("start_us"))
        self.segments_from_us = self.start_us


class ChannelMember(models.Model):
    """A person in a channel, as of the channel's ``members_known_at``."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="memberships")
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["channel", "person"], name="channel_member_once"),
        ]
        verbose_name = _("channel member")
        verbose_name_plural = _("channel members")

    def __str__(self) -> str:
        return f"{self.person}, {self.channel}"
