"""Channels, who is in them, and from where on they are remembered."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.ingest.people import Person


class ChannelQuerySet(AudienceQuerySet["Channel"]):
    def public(self) -> "ChannelQuerySet":
        return self.filter(kind=Channel.Kind.PUBLIC)

    def flowing(self) -> "ChannelQuerySet":
        """Those whose long-term text may go into the workspace's: public ones, and private ones
        that an admin who is in them opted in (docs/rules.md, readers)."""
        return self.filter(
            Q(kind=Channel.Kind.PUBLIC, is_shared=False) | Q(in_workspace_memory=True),
            kind__in=(Channel.Kind.PUBLIC, Channel.Kind.PRIVATE),  # never what was said directly
        )

    def opted_in(self) -> "ChannelQuerySet":
        """Those that flow by somebody's word: the workspace's memory says so wherever it is read."""
        return self.filter(in_workspace_memory=True)

    def past_first_walk(self) -> "ChannelQuerySet":
        """Not in the middle of a first walk, which brings the newest messages first: until it has
        come to the oldest, where one talk ends and the next begins is anybody's guess."""
        return self.exclude(~Q(walk_top_ts=""), synced_ts="")

    def followed(self) -> "ChannelQuerySet":
        return self.filter(is_followed=True, forgotten_at__isnull=True)

    def named(self, name: str) -> "ChannelQuerySet":
        """Those with this Slack id, or with this name, with # or without."""
        return self.filter(Q(slack_id=name) | Q(name__iexact=name.removeprefix("#")))

    def failing(self, everyday: Collection[str], late: Q | None = None) -> "ChannelQuerySet":
        """Followed ones that are not read: the bot is not in them, or the last sync met what is not
        ``everyday`` (codes of a sync); or those that are ``late``, where that counts."""
        unread = Q(bot_is_in=False) | ~Q(sync_code__in=everyday)
        return self.filter(unread if late is None else unread | late, is_followed=True)

    def bot_is_in_these(self, slack_ids: Collection[str]) -> None:
        """As Slack lists it: the bot is in these, and in no others."""
        self.filter(slack_id__in=slack_ids, bot_is_in=False).update(bot_is_in=True)
        self.filter(bot_is_in=True).exclude(slack_id__in=slack_ids).update(bot_is_in=False)

    def names(self) -> dict[str, str]:
        """Names by Slack id."""
        return dict(self.values_list("slack_id", "name"))


class Channel(models.Model):
    """As in Slack, known by its id; the name may change and be used again.

    ``start_us``: from here on every message is remembered, waiting or skipped (rule 3); null until
    the first pass fixes it. ``cut_from_us``: from here on segments have been cut; it follows
    ``start_us`` when a wider backfill moves that back.
    """

    class Kind(models.TextChoices):
        PUBLIC = "public", _("public channel")
        PRIVATE = "private", _("private channel")
        MPIM = "mpim", _("group message")
        IM = "im", _("direct message")

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="channels")
    slack_id = models.CharField(_("Slack id"), max_length=32)
    name = models.CharField(_("name"), max_length=200)
    # Unknown means private: nothing is public unless Slack said so.
    kind = models.CharField(_("kind"), max_length=10, choices=Kind, default=Kind.PRIVATE)
    is_archived = models.BooleanField(_("archived"), default=False)
    # With another organisation (Slack Connect).
    is_shared = models.BooleanField(_("shared with others"), default=False)
    bot_is_in = models.BooleanField(_("the bot is in it"), default=False)
    is_followed = models.BooleanField(
        _("followed"), default=False, help_text=_("Whether its messages are read from Slack.")
    )
    in_workspace_memory = models.BooleanField(
        _("in the workspace's memory"),
        default=False,
        help_text=_("Publishes the long-term text of a private channel to the whole workspace."),
    )
    # Since when it may have been private, after days in public; null: as long as it is known.
    private_since = models.DateTimeField(null=True, blank=True, editable=False)
    # Everything in it was forgotten then: older messages are not taken in again.
    forgotten_at = models.DateTimeField(_("forgotten"), null=True, blank=True)
    topic = models.TextField(_("topic"), blank=True)
    purpose = models.TextField(_("purpose"), blank=True)
    remember_bots = models.BooleanField(
        _("remember bots"), default=True, help_text=_("Whether messages of bots are summarised.")
    )
    start_us = models.BigIntegerField(_("remembered from"), null=True, blank=True)
    cut_from_us = models.BigIntegerField(null=True, blank=True, editable=False)
    members_known_at = models.DateTimeField(_("members known"), null=True, blank=True)
    # Somebody came or went then, as an event told: the list is read again.
    members_changed_at = models.DateTimeField(null=True, blank=True, editable=False)
    # An event told then that fewer people may read it: what was known before cannot widen it again.
    narrowed_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Sync: everything up to here was seen in one complete walk (a Slack ts; "" = never).
    synced_ts = models.CharField(_("synced up to"), max_length=20, blank=True)
    # A walk goes from the newest page to older ones, and may take many runs: its newest message,
    # how far down it has come, and where it ends. All "" between two walks.
    walk_top_ts = models.CharField(max_length=20, blank=True, editable=False)
    walk_at_ts = models.CharField(max_length=20, blank=True, editable=False)
    walk_end_ts = models.CharField(max_length=20, blank=True, editable=False)
    walked_at = models.DateTimeField(_("last read to the end"), null=True, blank=True)
    # When the walk under way began, or the last one that threads are still owed to.
    walk_began_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Every message in it, however old, was compared with Slack's then.
    swept_at = models.DateTimeField(_("last swept"), null=True, blank=True)
    # How far down a sweep under way has come below the walks; "" between two.
    sweep_at_ts = models.CharField(max_length=20, blank=True, editable=False)
    # The ring of its threads (docs/rules.md) has turned so far.
    ring_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Pages of it were last asked for: whose turn was longest ago comes first.
    turn_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Why the last sync did not get through: Slack's word, a sentence, and when it may go on.
    sync_code = models.CharField(max_length=60, blank=True, editable=False)
    sync_text = models.TextField(_("why not"), blank=True)
    sync_not_before = models.DateTimeField(_("not before"), null=True, blank=True)
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
    def may_be_read(self) -> bool:
        """Whether the workspace's settings let its messages be read from Slack."""
        return self.is_public or self.workspace.memory_settings.read_private_channels

    def has_guests(self) -> bool:
        """Whether anybody may read this channel who may not read the rest of the workspace; where
        its members are unknown, or somebody came since, whether the workspace has such people at
        all. A channel shared with another organisation has some of theirs, whom no list may name."""
        if self.is_shared:
            return True
        is_known = self.members_known_at is not None and not self.members_have_changed
        narrow = Person.objects.narrow()
        if is_known:
            return narrow.filter(channels=self).exists()
        return narrow.filter(workspace=self.workspace_id).exists()

    def describe(self, values: dict[str, Any]) -> bool:
        """Save what Slack now says of the channel; True when any of it is new."""
        changed = [name for name, value in values.items() if getattr(self, name) != value]
        for name in changed:
            setattr(self, name, values[name])
        if changed:
            self.save(update_fields=changed)
        return bool(changed)

    @transaction.atomic
    def follow(self, *, by: User | None, on: bool) -> bool:
        """Read its messages from Slack from now on, or no longer: what was read stays. On the
        record. False when it is so already."""
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

    def forget(self, now: datetime) -> None:
        """What was said in it until now is not taken in again, and nothing more is read."""
        self.forgotten_at = now
        self.is_followed = self.in_workspace_memory = False
        self.save(update_fields=["forgotten_at", "is_followed", "in_workspace_memory"])

    def remember_from(self, start_us: int) -> bool:
        """Fix the start mark, or move it back; never forward (rule 3). True when it moved."""
        earlier = Q(start_us__isnull=True) | Q(start_us__gt=start_us)
        moved = Channel.objects.filter(earlier, pk=self.pk).update(start_us=start_us)
        self.refresh_from_db(fields=["start_us"])
        return bool(moved)

    @property
    def is_being_walked(self) -> bool:
        return bool(self.walk_top_ts)

    @property
    def known_as_of(self) -> datetime | None:
        """When the walk began that came to its end last, threads or no."""
        began_at = None if self.is_being_walked else self.walk_began_at
        return began_at or self.walked_at

    def walk_goes_on(
        self, *, top_ts: str, at_ts: str, end_ts: str, began_at: datetime | None
    ) -> None:
        """Everything from its newest message down to here is stored."""
        self.walk_top_ts, self.walk_at_ts, self.walk_end_ts = top_ts, at_ts, end_ts
        self.walk_began_at = began_at
        fields = ["walk_top_ts", "walk_at_ts", "walk_end_ts", "walk_began_at"]
        self.save(update_fields=fields)

    def walk_ends(self, top_ts: str, began_at: datetime | None) -> None:
        """It came down to its end: the mark moves up to where it began."""
        self.synced_ts = max(self.synced_ts, top_ts)
        self.walk_goes_on(top_ts="", at_ts="", end_ts="", began_at=began_at)
        self.save(update_fields=["synced_ts"])

    def is_complete(self) -> None:
        """No thread is owed to the walk that came to its end last."""
        if self.walk_began_at is not None and not self.is_being_walked:
            self.walked_at, self.walk_began_at = self.walk_began_at, None
            self.save(update_fields=["walked_at", "walk_began_at"])

    def sweep_goes_on(self, at_ts: str) -> None:
        self.sweep_at_ts = at_ts
        self.save(update_fields=["sweep_at_ts"])

    def sweep_ends(self, now: datetime) -> None:
        self.swept_at, self.sweep_at_ts = now, ""
        self.save(update_fields=["swept_at", "sweep_at_ts"])

    def ring_turns_to(self, at: datetime) -> None:
        self.ring_at = at
        self.save(update_fields=["ring_at"])

    def look_all_over(self, ring_at: datetime) -> None:
        """Sweep it, and read all its threads, at the next opportunity."""
        self.swept_at, self.sweep_at_ts, self.ring_at = None, "", ring_at
        self.save(update_fields=["swept_at", "sweep_at_ts", "ring_at"])

    def has_had_its_turn(self, now: datetime) -> None:
        self.turn_at = now
        self.save(update_fields=["turn_at"])

    def record_sync_result(self, code: str, text: str, not_before: datetime | None) -> None:
        """Why the sync did not get through ("" when it did), and when it may go on."""
        result = (code[:60], text, not_before)
        if result != (self.sync_code, self.sync_text, self.sync_not_before):
            self.sync_code, self.sync_text, self.sync_not_before = result
            self.save(update_fields=["sync_code", "sync_text", "sync_not_before"])

    @property
    def members_have_changed(self) -> bool:
        """Whether somebody came or went after the list of members was read."""
        changed_at, known_at = self.members_changed_at, self.members_known_at
        return changed_at is not None and known_at is not None and changed_at >= known_at

    def read_members_again(self, at: datetime) -> None:
        """Nobody reads more by it: the next sync asks Slack for the whole list."""
        self.members_changed_at = at
        self.save(update_fields=["members_changed_at"])

    def members_were_known(self, at: datetime) -> None:
        """Its list of members was complete at that moment."""
        self.members_known_at = at
        self.save(update_fields=["members_known_at"])

    def cut_reaches_start(self) -> None:
        """Segments have now been cut from the start mark on."""
        Channel.objects.filter(pk=self.pk).update(cut_from_us=F("start_us"))
        self.cut_from_us = self.start_us


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
        return f"{self.person_id} in {self.channel_id}"
