"""Heartbeats: proof that each worker still runs tasks (a hung cluster process looks alive).

A supervisor queues a `memories.tasks.beat` task for its own cluster. Any process of the cluster
may run it. Long tasks also record beats while they run.
"""

from datetime import datetime

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Coalesce


class HeartbeatQuerySet(models.QuerySet["Heartbeat"]):
    def beat(self, name: str, now: datetime) -> None:
        """Record that this worker runs a task."""
        if not self.filter(name=name).update(at=now):
            self.get_or_create(name=name, defaults={"at": now})

    def request_beat(self, name: str, now: datetime, *, restart: bool = False) -> None:
        """Record a supervisor's request. An open request keeps its date, unless ``restart``."""
        self.get_or_create(name=name)
        requested_at = Value(now, output_field=models.DateTimeField())
        asked_at = requested_at if restart else Coalesce("asked_at", requested_at)
        self.filter(name=name).update(seen_at=now, asked_at=asked_at)

    def answer_request(self, name: str) -> None:
        self.filter(name=name).update(asked_at=None)

    def delete_silent(self, before: datetime) -> list[str]:
        """Delete workers without a sign of their supervisor since then; return their names."""
        silent_workers = self.filter(
            Q(seen_at__lt=before) | Q(seen_at=None) & (Q(at=None) | Q(at__lt=before))
        )
        names = list(silent_workers.values_list("name", flat=True))
        silent_workers.delete()
        return names

    def last_beat(self) -> datetime | None:
        return self.order_by("-at").exclude(at=None).values_list("at", flat=True).first()


class Heartbeat(models.Model):
    name = models.CharField(max_length=100, unique=True)
    at = models.DateTimeField(null=True, blank=True)
    # When the open request for a beat was made.
    asked_at = models.DateTimeField(null=True, blank=True)
    # When its supervisor last requested a beat.
    seen_at = models.DateTimeField(null=True, blank=True)

    objects = HeartbeatQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name
