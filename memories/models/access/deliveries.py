"""The rows of an outbox: what is sent, how often it was tried, and when it is tried next."""

from datetime import datetime
from typing import Any, Self, TypeVar

from django.db import models

DeliveryType = TypeVar("DeliveryType", bound="Delivery")


class DeliveryQuerySet(models.QuerySet[DeliveryType]):
    def due(self, now: datetime) -> Any:
        return self.filter(next_try_at__lte=now).order_by("next_try_at", "pk")


class Delivery(models.Model):
    """A message that is sent once. ``next_try_at`` is None when nothing is sent any more."""

    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def _own_row(self) -> models.QuerySet[Self]:
        return type(self)._default_manager.filter(pk=self.pk)

    def claim(self, now: datetime, next_try_at: datetime | None) -> bool:
        """Count a try and plan the next one. Return False if another worker was first."""
        same = self._own_row().filter(tries=self.tries, next_try_at__lte=now)
        claimed = bool(same.update(tries=self.tries + 1, next_try_at=next_try_at))
        self.tries += claimed
        return claimed
