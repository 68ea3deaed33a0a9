"""Slack exports that an operator uploads, from the inspection to the import."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User

HEARTBEAT_TIMEOUT = timedelta(minutes=2)
MAX_ATTEMPTS = 5
UPLOAD_RETENTION = timedelta(days=7)  # for uploads that wait for a person


class UploadInProgress(Exception):
    """Another upload for the same workspace is unfinished."""


class UploadQuerySet(models.QuerySet["Upload"]):
    def unfinished(self) -> "UploadQuerySet":
        return self.filter(state__in=Upload.UNFINISHED)

    def abandoned(self, now: datetime) -> "UploadQuerySet":
        """Uploads that need a worker and have no heartbeat of one."""
        has_no_heartbeat = Q(heartbeat_at=None) | Q(heartbeat_at__lt=now - HEARTBEAT_TIMEOUT)
        return self.filter(has_no_heartbeat, state__in=Upload.AT_WORK)

    def stale(self, now: datetime) -> "UploadQuerySet":
        """Uploads that have waited too long for a person."""
        waiting = self.unfinished().exclude(state__in=Upload.AT_WORK)
        return waiting.filter(changed_at__lt=now - UPLOAD_RETENTION)

    @transaction.atomic
    def begin(self, folder: str, *, slug: str, name: str, size: int, by: User) -> "Upload":
        """Create the row of a stored file, with an audit event. Raise UploadInProgress."""
        try:
            with transaction.atomic():
                upload = self.create(folder=folder, slug=slug, name=name, size=size, author=by)
        except IntegrityError as error:
            raise UploadInProgress from error
        upload.record("upload", by, size=size)
        return upload


class Upload(models.Model):
    """An uploaded export and its state. The file stays unchanged until the upload is over.

    ``slug`` names the workspace, which the import creates. ``contents`` is the content of the export,
    ``choice`` the part that a person chose, and ``report`` the result. They hold numbers, reasons as
    codes, and names of public channels only, because an operator may not see the private ones.
    """

    class State(models.TextChoices):
        LOOKING = "looking", _("being checked")
        READY = "ready", _("waiting for your selection")
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
    contents = models.JSONField(default=dict, blank=True)
    choice = models.JSONField(default=dict, blank=True)
    report = models.JSONField(default=dict, blank=True)
    fault = models.CharField(_("fault"), max_length=300, blank=True)
    seen = models.PositiveBigIntegerField(_("read"), default=0)
    # Objects read, by the id of a public channel, or "private" and "direct" for all of that kind.
    objects_read = models.JSONField(default=dict, blank=True)
    # When a worker claimed it, the worker's last heartbeat, and the number of claims.
    claimed_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
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
        """The path of the file. It does not contain the uploaded name."""
        return Path(settings.MEMORYHUB_VAR, "uploads", self.folder, "export.zip")

    @property
    def is_at_work(self) -> bool:
        return self.state in self.AT_WORK

    @property
    def is_unfinished(self) -> bool:
        return self.state in self.UNFINISHED

    # Changes by a worker

    def claim(self, now: datetime) -> bool:
        """Claim the upload; return False when a worker has it or it needs none."""
        free = Upload.objects.abandoned(now).filter(pk=self.pk, attempts__lt=MAX_ATTEMPTS)
        rows = free.update(
            claimed_at=now, heartbeat_at=now, seen=0, objects_read={}, attempts=F("attempts") + 1
        )
        self.refresh_from_db()
        return bool(rows)

    def has_exhausted_attempts(self, now: datetime) -> bool:
        """Return whether the worker of the last attempt is gone too."""
        rows = Upload.objects.abandoned(now).filter(pk=self.pk)
        return rows.filter(attempts__gte=MAX_ATTEMPTS).exists()

    def uncount_attempt(self) -> None:
        """Take back an attempt that could not begin, so that it is retried later."""
        Upload.objects.filter(pk=self.pk).update(attempts=F("attempts") - 1)

    def record_progress(
        self, seen: int, now: datetime, objects_read: dict[str, int] | None = None
    ) -> bool:
        """Save a heartbeat with the progress; return False when it was paused or cancelled."""
        same = Upload.objects.filter(pk=self.pk, state=self.state)
        return bool(same.update(seen=seen, objects_read=objects_read or {}, heartbeat_at=now))

    def is_silent(self, now: datetime) -> bool:
        """Return whether its worker has stopped sending heartbeats."""
        return (
            self.is_at_work
            and self.heartbeat_at is not None
            and self.heartbeat_at < now - HEARTBEAT_TIMEOUT
        )

    def finish_inspection(self, findings: dict[str, Any], now: datetime) -> None:
        self._move((self.State.LOOKING,), self.State.READY, now, contents=findings)

    def finish_import(self, report: dict[str, Any], now: datetime) -> bool:
        return self._move((self.State.STORING,), self.State.DONE, now, report=report)

    def fail(self, fault: str, now: datetime, values: dict[str, str] | None = None) -> bool:
        """``fault`` is a code; what stands in its sentence is kept beside it."""
        report = {"fault": values} if values else {}
        return self._move(self.AT_WORK, self.State.FAILED, now, fault=fault, report=report)

    # Changes by a person

    def start(self, choice: dict[str, Any], *, by: User, now: datetime) -> bool:
        """Schedule the import of the chosen part; return False when it has begun."""
        before = (self.State.READY,)
        return self._decide("upload_start", before, self.State.STORING, by, now, choice=choice)

    def retry(self, *, by: User, now: datetime) -> bool:
        """Repeat the step that failed. Stored objects count as duplicates."""
        state = self.State.STORING if self.choice else self.State.LOOKING
        return self._decide("upload_retry", (self.State.FAILED,), state, by, now)

    def pause(self, *, by: User, now: datetime) -> bool:
        """Stop the import until `resume`; return False when none runs."""
        before = (self.State.STORING,)
        return self._decide("upload_pause", before, self.State.PAUSED, by, now)

    def resume(self, *, by: User, now: datetime) -> bool:
        """Continue a paused import. Stored objects count as duplicates."""
        before = (self.State.PAUSED,)
        return self._decide("upload_resume", before, self.State.STORING, by, now)

    def cancel(self, *, by: User | None, now: datetime) -> bool:
        """Cancel an unfinished upload. Stored objects stay."""
        cancelled = self.State.CANCELLED
        return self._decide("upload_cancel", self.UNFINISHED, cancelled, by, now)

    @transaction.atomic
    def _decide(
        self,
        action: str,
        before: tuple["Upload.State", ...],
        after: "Upload.State",
        by: User | None,
        now: datetime,
        **values: Any,
    ) -> bool:
        if not self._move(before, after, now, fault="", **values):
            return False
        self.record(action, by)
        return True

    def _move(
        self,
        before: tuple["Upload.State", ...],
        after: "Upload.State",
        now: datetime,
        **values: Any,
    ) -> bool:
        """Change the state and reset the claim; return False unless the state was in ``before``."""
        values |= {"state": after, "changed_at": now}
        values |= {"claimed_at": None, "heartbeat_at": None, "attempts": 0}
        if after != self.State.PAUSED:  # the page of a paused upload shows its progress
            values |= {"seen": 0, "objects_read": {}}
        rows = Upload.objects.filter(pk=self.pk, state__in=before).update(**values)
        self.refresh_from_db()
        return bool(rows)

    def record(self, action: str, by: User | None, **details: Any) -> None:
        subject = f"upload {self.pk}"
        AuditEvent.objects.record(action, by=by, subject=subject, into=self.slug, **details)
