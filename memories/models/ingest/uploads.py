"""Slack exports that an operator uploads, from looking into them until they are stored."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User

SILENCE = timedelta(minutes=2)  # without a sign for so long, whoever worked on it is gone
MOST_ATTEMPTS = 5
KEPT = timedelta(days=7)  # nobody decided for so long: the file goes


class AnotherUpload(Exception):
    """One for the same workspace is not over yet; two would store over each other."""


class UploadQuerySet(models.QuerySet["Upload"]):
    def unfinished(self) -> "UploadQuerySet":
        return self.filter(state__in=Upload.UNFINISHED)

    def left_alone(self, now: datetime) -> "UploadQuerySet":
        """A worker has to do something, and none shows signs of doing it."""
        is_silent = Q(alive_at=None) | Q(alive_at__lt=now - SILENCE)
        return self.filter(is_silent, state__in=Upload.AT_WORK)

    def forgotten(self, now: datetime) -> "UploadQuerySet":
        """They wait for a person who does not come."""
        waits = self.unfinished().exclude(state__in=Upload.AT_WORK)
        return waits.filter(changed_at__lt=now - KEPT)

    @transaction.atomic
    def begin(self, folder: str, *, slug: str, name: str, size: int, by: User) -> "Upload":
        """A file was kept. Raises AnotherUpload."""
        try:
            with transaction.atomic():
                upload = self.create(folder=folder, slug=slug, name=name, size=size, author=by)
        except IntegrityError as error:
            raise AnotherUpload from error
        upload.record("upload", by, size=size)
        return upload


class Upload(models.Model):
    """One export, and how far it is. ``slug`` names the workspace that it is for, which is made
    when storing begins. ``found`` is what lies in it, ``choice`` what a person wants of that,
    ``report`` what became of it: numbers, reasons as words that each reader is told in their own
    language, and names of public channels alone, for those of private ones are not every
    operator's to see. The file stays as it came until the upload is over.
    """

    class State(models.TextChoices):
        LOOKING = "looking", _("being looked into")
        READY = "ready", _("waiting for a choice")
        STORING = "storing", _("being imported")
        PAUSED = "paused", _("paused")
        FAILED = "failed", _("failed")
        DONE = "done", _("done")
        CANCELLED = "cancelled", _("cancelled")

    AT_WORK = (State.LOOKING, State.STORING)
    UNFINISHED = (*AT_WORK, State.READY, State.PAUSED, State.FAILED)

    slug = models.SlugField(_("workspace"), max_length=50)
    folder = models.CharField(max_length=32, unique=True)
    name = models.CharField(_("file"), max_length=255)
    size = models.PositiveBigIntegerField(_("size"))
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.LOOKING)
    found = models.JSONField(default=dict, blank=True)
    choice = models.JSONField(default=dict, blank=True)
    report = models.JSONField(default=dict, blank=True)
    fault = models.CharField(_("fault"), max_length=300, blank=True)
    seen = models.PositiveBigIntegerField(_("read"), default=0)
    # Of that, by the id of a public channel; "private" and "direct" for all of a kind.
    parts = models.JSONField(default=dict, blank=True)
    # When whoever works on it began, their last sign, and how often somebody began to.
    begun_at = models.DateTimeField(null=True, blank=True)
    alive_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="uploads", null=True, blank=True
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    changed_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = UploadQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["slug"],
                name="upload_one_at_a_time",
                condition=Q(state__in=["looking", "ready", "storing", "paused", "failed"]),
            ),
        ]
        verbose_name = _("upload")
        verbose_name_plural = _("uploads")

    def __str__(self) -> str:
        return f"upload {self.pk}"

    @property
    def path(self) -> Path:
        """Always of the same name: what it was called may be made to deceive."""
        return Path(settings.MEMORYHUB_VAR, "uploads", self.folder, "export.zip")

    @property
    def is_at_work(self) -> bool:
        return self.state in self.AT_WORK

    @property
    def is_unfinished(self) -> bool:
        return self.state in self.UNFINISHED

    # What a worker does

    def claim(self, now: datetime) -> bool:
        """Begin to work on it. False: somebody does, or there is nothing to do."""
        free = Upload.objects.left_alone(now).filter(pk=self.pk, attempts__lt=MOST_ATTEMPTS)
        done = free.update(begun_at=now, alive_at=now, seen=0, parts={}, attempts=F("attempts") + 1)
        self.refresh_from_db()
        return bool(done)

    def is_given_up(self, now: datetime) -> bool:
        """Everybody who began to work on it is gone."""
        rows = Upload.objects.left_alone(now).filter(pk=self.pk)
        return rows.filter(attempts__gte=MOST_ATTEMPTS).exists()

    def put_back(self) -> None:
        """It could not be begun, which counts for nothing: it is tried again later."""
        Upload.objects.filter(pk=self.pk).update(attempts=F("attempts") - 1)

    def is_wanted(self, seen: int, now: datetime, parts: dict[str, int] | None = None) -> bool:
        """A sign of life: so much is read. False: it was paused or cancelled meanwhile."""
        same = Upload.objects.filter(pk=self.pk, state=self.state)
        return bool(same.update(seen=seen, parts=parts or {}, alive_at=now))

    def is_silent(self, now: datetime) -> bool:
        """Whoever worked on it gives no sign any more."""
        return self.is_at_work and self.alive_at is not None and self.alive_at < now - SILENCE

    def was_looked_into(self, findings: dict[str, Any], now: datetime) -> bool:
        return self._move((self.State.LOOKING,), self.State.READY, now, found=findings)

    def was_stored(self, report: dict[str, Any], now: datetime) -> bool:
        return self._move((self.State.STORING,), self.State.DONE, now, report=report)

    def fail(self, fault: str, now: datetime, values: dict[str, str] | None = None) -> bool:
        """``fault`` is a code; what stands in its sentence is kept beside it."""
        report = {"fault": values} if values else {}
        return self._move(self.AT_WORK, self.State.FAILED, now, fault=fault, report=report)

    # What a person does

    def start(self, choice: dict[str, Any], *, by: User, now: datetime) -> bool:
        """Store what was chosen. False: it began already."""
        return self._decide(
            "upload_start", (self.State.READY,), self.State.STORING, by, now, choice
        )

    def retry(self, *, by: User, now: datetime) -> bool:
        """Once more from where it failed; what is stored already counts as there."""
        again = self.State.STORING if self.choice else self.State.LOOKING
        return self._decide("upload_retry", (self.State.FAILED,), again, by, now, self.choice)

    def pause(self, *, by: User, now: datetime) -> bool:
        """No more is stored until it is resumed. False: nothing is being stored."""
        return self._decide(
            "upload_pause", (self.State.STORING,), self.State.PAUSED, by, now, self.choice
        )

    def resume(self, *, by: User, now: datetime) -> bool:
        """Store on; what is stored already counts as there. False: it is not paused."""
        return self._decide(
            "upload_resume", (self.State.PAUSED,), self.State.STORING, by, now, self.choice
        )

    def cancel(self, *, by: User | None, now: datetime) -> bool:
        """What is stored by then stays."""
        over = self.State.CANCELLED
        return self._decide("upload_cancel", self.UNFINISHED, over, by, now, self.choice)

    @transaction.atomic
    def _decide(
        self,
        action: str,
        before: tuple["Upload.State", ...],
        after: "Upload.State",
        by: User | None,
        now: datetime,
        choice: dict[str, Any],
    ) -> bool:
        done = self._move(before, after, now, choice=choice, fault="")
        if done:
            self.record(action, by)
        return done

    def _move(
        self,
        before: tuple["Upload.State", ...],
        after: "Upload.State",
        now: datetime,
        **values: Any,
    ) -> bool:
        """The next step is a new one: nobody works on it yet, and nobody tried."""
        rows = Upload.objects.filter(pk=self.pk, state__in=before)
        anew: dict[str, Any] = {"begun_at": None, "alive_at": None, "attempts": 0}
        if after != self.State.PAUSED:  # the page tells how far it was
            anew |= {"seen": 0, "parts": {}}
        done = rows.update(state=after, changed_at=now, **anew, **values)
        self.refresh_from_db()
        return bool(done)

    def record(self, action: str, by: User | None, **details: Any) -> None:
        subject = f"upload {self.pk}"
        AuditEvent.objects.record(action, by=by, subject=subject, into=self.slug, **details)
