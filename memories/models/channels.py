"""Channels, who is in them, and from where on they are remembered."""

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from memories.models.people import Person
from memories.models.readers import Reader
from memories.models.workspaces import Workspace


class ChannelQuerySet(models.QuerySet["Channel"]):
    def visible_to(self, reader: Reader) -> "ChannelQuerySet":
        """Public ones to members of the workspace, others to their own members (fail closed).

        A guest or somebody from outside reads only what they are in. In a workspace connected
        live a list of members older than a day counts as unknown; an import keeps its export's.
        """
        public = Q(
            kind=Channel.Kind.PUBLIC,
            workspace__in=Workspace.objects.visible_to(reader).values("pk"),
        )
        if reader.user_id is None:
            return self.filter(public)
        fresh = Q(members_known_at__isnull=False) & (
            Q(workspace__connected_at__isnull=True)
            | Q(members_known_at__gte=reader.memberships_since)
        )
        mine = ChannelMember.objects.filter(person__in=reader.people()).values("channel")
        return self.filter(public | (fresh & Q(pk__in=mine)))

    def public(self) -> "ChannelQuerySet":
        return self.filter(kind=Channel.Kind.PUBLIC)

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
    topic = models.TextField(_("topic"), blank=True)
    purpose = models.TextField(_("purpose"), blank=True)
    remember_bots = models.BooleanField(
        _("remember bots"), default=True, help_text=_("Whether messages of bots are summarised.")
    )
    start_us = models.BigIntegerField(_("remembered from"), null=True, blank=True)
    cut_from_us = models.BigIntegerField(null=True, blank=True, editable=False)
    members_known_at = models.DateTimeField(_("members known"), null=True, blank=True)
    # Sync: everything up to here was seen in one complete walk (a Slack ts; "" = never).
    synced_ts = models.CharField(_("synced up to"), max_length=20, blank=True)
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

    def has_guests(self) -> bool:
        """Whether anybody may read this channel who may not read the rest of the workspace; where
        its members are unknown, whether the workspace has such people at all."""
        people = self.people if self.members_known_at else self.workspace.people
        return people.filter(Q(is_guest=True) | Q(is_external=True)).exists()

    def describe(self, values: dict[str, Any]) -> bool:
        """Save what Slack now says of the channel; True when any of it is new."""
        changed = [name for name, value in values.items() if getattr(self, name) != value]
        for name in changed:
            setattr(self, name, values[name])
        if changed:
            self.save(update_fields=changed)
        return bool(changed)

    def remember_from(self, start_us: int) -> bool:
        """Fix the start mark, or move it back; never forward (rule 3). True when it moved."""
        earlier = Q(start_us__isnull=True) | Q(start_us__gt=start_us)
        moved = Channel.objects.filter(earlier, pk=self.pk).update(start_us=start_us)
        self.refresh_from_db(fields=["start_us"])
        return bool(moved)

    def was_read_to(self, ts: str) -> None:
        """A walk has stored everything up to here."""
        self.synced_ts = ts
        self.save(update_fields=["synced_ts"])

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
