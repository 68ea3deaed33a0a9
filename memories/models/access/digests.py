"""Digests: how often a person gets Catch up by e-mail, their feed, and the outbox of e-mails."""

import secrets
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.deliveries import Delivery, DeliveryQuerySet
from memories.models.access.tokens import token_hashes
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace

SALT = "memories.Digest"


class DigestQuerySet(models.QuerySet["Digest"]):
    def due(self, now: datetime) -> "DigestQuerySet":
        """Digests of accounts that may sign in, whose period is over."""
        rows = self.filter(next_at__lte=now, user__is_active=True).exclude(frequency="")
        return rows.select_related("user").order_by("pk")

    def find_by_token(self, token: str) -> "Digest | None":
        """Return the digest with this token of a feed, if its account may sign in."""
        rows = self.filter(feed_digest__in=token_hashes(SALT, token), user__is_active=True)
        return rows.select_related("user").first()

    def stop_mails(self) -> None:
        self.exclude(frequency="").update(frequency="", next_at=None)

    def revoke_feeds(self) -> int:
        return self.exclude(feed_digest=None).update(feed_digest=None)


class Digest(models.Model):
    """The choices of a person. Of the feed's token only an HMAC is stored."""

    class Frequency(models.TextChoices):
        OFF = "", _("never")
        DAILY = "daily", _("every day")
        WEEKLY = "weekly", _("every Monday")

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="digest")
    frequency = models.CharField(
        _("frequency"), max_length=6, choices=Frequency, blank=True, default=Frequency.OFF
    )
    next_at = models.DateTimeField(_("next"), null=True, blank=True)
    feed_digest = models.CharField(
        max_length=64, unique=True, null=True, blank=True, editable=False
    )

    objects = DigestQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["next_at"], name="digest_due", condition=~Q(frequency="")),
        ]
        verbose_name = _("digest")
        verbose_name_plural = _("digests")

    def __str__(self) -> str:
        return f"digest {self.pk}"

    def choose(self, frequency: str, next_at: datetime | None) -> None:
        self.frequency, self.next_at = frequency, next_at
        self.save(update_fields=["frequency", "next_at"])

    def new_feed_token(self) -> str:
        """Return a new token, which is shown once. An earlier one no longer works."""
        token = secrets.token_urlsafe(32)
        self.feed_digest = token_hashes(SALT, token)[0]
        self.save(update_fields=["feed_digest"])
        return token


class DigestDeliveryQuerySet(DeliveryQuerySet["DigestDelivery"]):
    def due(self, now: datetime) -> Any:
        return super().due(now).select_related("digest__user", "workspace")

    def enqueue(
        self, digest: Digest, workspaces: Iterable[Workspace], period: date, now: datetime
    ) -> None:
        """Add a row for each workspace, unless this period has one."""
        self.bulk_create(
            (
                DigestDelivery(digest=digest, workspace=row, period=period, next_try_at=now)
                for row in workspaces
            ),
            ignore_conflicts=True,
        )


class DigestDelivery(Delivery):
    """An e-mail for a period."""

    digest = models.ForeignKey(Digest, on_delete=models.CASCADE, related_name="deliveries")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    period = models.DateField()  # the day on which it ends
    sent_at = models.DateTimeField(null=True)

    objects = DigestDeliveryQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["digest", "workspace", "period"], name="digest_delivery_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_try_at"],
                name="digest_delivery_due",
                condition=Q(next_try_at__isnull=False),
            ),
        ]
        verbose_name = _("digest delivery")
        verbose_name_plural = _("digest deliveries")

    def __str__(self) -> str:
        return f"digest delivery {self.pk}"

    def finish(self, sent_at: datetime | None) -> None:
        """Plan no further try. Without a time, there was nothing to send."""
        self._own_row().update(next_try_at=None, sent_at=sent_at)
