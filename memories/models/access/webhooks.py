"""Webhooks: addresses that get the ids of new versions, and their outbox."""

import secrets
from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Max, Q
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from memories.models.access.api_keys import ApiKey
from memories.models.access.deliveries import Delivery, DeliveryQuerySet
from memories.models.memory.versions import MemoryVersion

SALT = "memories.Webhook"


class WebhookQuerySet(models.QuerySet["Webhook"]):
    def register(self, key: ApiKey, url: str) -> "Webhook":
        """Create a webhook that gets the versions from now on."""
        newest = MemoryVersion.objects.aggregate(pk=Max("pk"))["pk"] or 0
        return self.create(key=key, url=url, salt=secrets.token_hex(8), cursor=newest)

    def active(self, now: datetime) -> "WebhookQuerySet":
        """The webhooks of keys that are neither revoked nor expired."""
        return self.filter(key__in=ApiKey.objects.usable(now)).select_related(
            "key__user", "key__workspace"
        )


class Webhook(models.Model):
    """An address that gets the ids of new versions that its key may read.

    ``cursor`` is the primary key of the last version that was looked at. The secret of the
    signatures is derived from SECRET_KEY and ``salt``.
    """

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(_("address"), max_length=500)
    salt = models.CharField(max_length=16, editable=False)
    cursor = models.BigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    objects = WebhookQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")

    def __str__(self) -> str:
        return f"webhook {self.pk}"

    def signing_keys(self) -> list[bytes]:
        """The keys of the signatures: of the current SECRET_KEY, then of its fallbacks."""
        keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        return [
            salted_hmac(SALT, self.salt, secret=key, algorithm="sha256").digest() for key in keys
        ]


class WebhookDeliveryQuerySet(DeliveryQuerySet["WebhookDelivery"]):
    def enqueue(self, webhook: Webhook, versions: Iterable[MemoryVersion], now: datetime) -> None:
        """Add an outbox row for each version that has none yet."""
        self.bulk_create(
            (WebhookDelivery(webhook=webhook, version=row, next_try_at=now) for row in versions),
            ignore_conflicts=True,
        )


class WebhookDelivery(Delivery):
    """A version whose id a webhook gets."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    version = models.ForeignKey(
        MemoryVersion, on_delete=models.CASCADE, related_name="webhook_deliveries"
    )
    delivered_at = models.DateTimeField(null=True)
    status = models.PositiveSmallIntegerField(null=True)  # of the last response

    objects = WebhookDeliveryQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["webhook", "version"], name="delivery_once"),
        ]
        indexes = [
            models.Index(
                fields=["next_try_at"], name="delivery_due", condition=Q(next_try_at__isnull=False)
            ),
        ]
        verbose_name = _("webhook delivery")
        verbose_name_plural = _("webhook deliveries")

    def __str__(self) -> str:
        return f"delivery {self.pk}"

    def finish(self, now: datetime, status: int) -> None:
        """Note that the receiver accepted it."""
        self._own_row().update(delivered_at=now, next_try_at=None, status=status)
