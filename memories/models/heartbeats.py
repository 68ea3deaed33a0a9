"""The worker's pulse: a row that its tick writes, because a hung cluster still says it runs."""

from datetime import datetime

from django.db import models


class HeartbeatQuerySet(models.QuerySet["Heartbeat"]):
    def beat(self, now: datetime) -> None:
        self.update_or_create(name="worker", defaults={"at": now})

    def last_beat(self) -> datetime | None:
        return self.filter(name="worker").values_list("at", flat=True).first()


class Heartbeat(models.Model):
    name = models.CharField(max_length=20, unique=True)
    at = models.DateTimeField()

    objects = HeartbeatQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name
