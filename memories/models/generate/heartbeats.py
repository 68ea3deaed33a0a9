"""The pulse of each worker: a hung cluster still says that it runs, so only a task that ran counts.

A supervisor asks its own cluster for a beat now and then by queueing a task for it alone; whichever
process of the cluster takes it answers. Long tasks leave marks while they run.
"""

from datetime import datetime

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Coalesce


class HeartbeatQuerySet(models.QuerySet["Heartbeat"]):
    def beat(self, name: str, now: datetime) -> None:
        """This worker has done something."""
        if not self.filter(name=name).update(at=now):
            self.get_or_create(name=name, defaults={"at": now})

    def ask(self, name: str, now: datetime, *, anew: bool = False) -> None:
        """Its supervisor lives, and asks. A question that is open already keeps its date, unless all
        begins ``anew``."""
        self.get_or_create(name=name)
        this = Value(now, output_field=models.DateTimeField())
        asked_at = this if anew else Coalesce("asked_at", this)
        self.filter(name=name).update(seen_at=now, asked_at=asked_at)

    def answer(self, name: str) -> None:
        self.filter(name=name).update(asked_at=None)

    def forget(self, before: datetime) -> list[str]:
        """Delete the workers whose supervisor gave no sign since then; returns their names."""
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
    # Asked for a beat, and not answered since then.
    asked_at = models.DateTimeField(null=True, blank=True)
    # When its supervisor last gave a sign of life.
    seen_at = models.DateTimeField(null=True, blank=True)

    objects = HeartbeatQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name
