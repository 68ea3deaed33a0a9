"""Digests in Slack: how often a person or a channel gets Catch up there.

A row is also the outbox of its own messages: `next_at` is the time of the next try.
"""

import uuid
from datetime import datetime, tzinfo
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.digests import Digest
from memories.models.access.workspaces import Workspace
from memories.models.ingest.channels import Channel
from memories.models.ingest.people import Person
from memories.rules.memory.digests import RETRY_AFTER, next_end


class SlackDigestQuerySet(models.QuerySet["SlackDigest"]):
    def due(self, now: datetime) -> "SlackDigestQuerySet":
        """Return digests whose period is over, or that were not sent, of people who are still there."""
        left = Q(person__is_deleted=True) | Q(person__forgotten_at__isnull=False)
        rows = self.exclude(frequency="").exclude(left).filter(next_at__lte=now)
        related = ("person__user", "person__workspace", "channel__workspace")
        return rows.select_related(*related).order_by("next_at", "pk")

    def refused(self) -> "SlackDigestQuerySet":
        """Digests of channels whose last message Slack refused."""
        rows = self.exclude(frequency="").exclude(problem="").filter(channel__isnull=False)
        return rows.select_related("channel").order_by("channel__name", "pk")

    def of(self, owner: Person | Channel) -> "SlackDigestQuerySet":
        return self.filter(**_owner_filter(owner))

    def choose(self, owner: Person | Channel, frequency: str, now: datetime, zone: tzinfo) -> None:
        """Save how often the digest of a person or a channel is sent."""
        next_at = next_end(frequency, now, zone) if frequency else None
        choice = {"frequency": frequency, "next_at": next_at, "problem": ""}
        self.update_or_create(**_owner_filter(owner), defaults=choice)


def _owner_filter(owner: Person | Channel) -> dict[str, Any]:
    return {"channel" if isinstance(owner, Channel) else "person": owner}


class SlackDigest(models.Model):
    """The choice for a person (by direct message) or a channel. ``problem`` is Slack's last refusal."""

    person = models.OneToOneField(
        Person, on_delete=models.CASCADE, related_name="slack_digest", null=True
    )
    channel = models.OneToOneField(
        Channel, on_delete=models.CASCADE, related_name="slack_digest", null=True
    )
    frequency = models.CharField(
        _("frequency"), max_length=6, choices=Digest.Frequency, blank=True, default=""
    )
    next_at = models.DateTimeField(_("next"), null=True)
    sent_at = models.DateTimeField(_("sent"), null=True)
    problem = models.CharField(max_length=100, blank=True)

    objects = SlackDigestQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(person__isnull=True) ^ Q(channel__isnull=True),
                name="slack_digest_has_one_owner",
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], name="slack_digest_due", condition=~Q(frequency="")),
        ]
        verbose_name = _("digest in Slack")
        verbose_name_plural = _("digests in Slack")

    def __str__(self) -> str:
        return f"digest in Slack {self.pk}"

    @property
    def owner(self) -> Person | Channel:
        owner = self.person or self.channel
        assert owner is not None  # a constraint of the table
        return owner

    @property
    def workspace(self) -> Workspace:
        return self.owner.workspace

    def message_id(self, period_end: datetime) -> str:
        """Return the id of the message for a period. Slack posts one message with an id."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"memoryhub:{self.pk}:{period_end.isoformat()}"))

    def claim(self, now: datetime) -> bool:
        """Plan the next try. Return False if another worker was first, or the choice has changed."""
        same = SlackDigest.objects.filter(
            pk=self.pk, next_at=self.next_at, frequency=self.frequency
        )
        return bool(same.update(next_at=now + RETRY_AFTER))

    def finish(self, next_at: datetime, *, sent_at: datetime | None, problem: str = "") -> None:
        """Save the time of the next try and the result of this one, unless the frequency was changed."""
        rows = SlackDigest.objects.filter(pk=self.pk, frequency=self.frequency)
        rows.update(next_at=next_at, sent_at=sent_at or self.sent_at, problem=problem)
