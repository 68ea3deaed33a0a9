"""The last heartbeat of each worker."""

from datetime import datetime

from django.db import models
from django.db.models import Q


class HeartbeatQuerySet(models.QuerySet["Heartbeat"]):
    def beat(self, name: str, now: datetime) -> None:
        """Record that a process of this worker runs tasks."""
        if not self.filter(name=name).update(at=now):
            self.get_or_create(name=name, defaults={"at": now})

    def delete_older(self, than: datetime) -> None:
        """Delete the workers without a heartbeat since then."""
        self.filter(Q(at=None) | Q(at__lt=than)).delete()

    def last_beat(self) -> datetime | None:
        return self.order_by("-at").exclude(at=None).values_list("at", flat=True).first()


class Heartbeat(models.Model):
    name = models.CharField(max_length=100, unique=True)
    at = models.DateTimeField(null=True, blank=True)

    objects = HeartbeatQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name
