"""Slack events: stored, acknowledged, then processed."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.rules.ingest.events import MAX_ATTEMPTS, EventEnvelope
from memories.rules.slack_app.payloads import KINDS as REQUESTS

PRUNE_BATCH = 10_000


class SlackEventQuerySet(models.QuerySet["SlackEvent"]):
    def of_team(self, team_id: str) -> "SlackEventQuerySet":
        return self.filter(team_id=team_id)

    def waiting(self) -> "SlackEventQuerySet":
        return self.filter(state=SlackEvent.State.WAITING)

    def due(self, now: datetime) -> "SlackEventQuerySet":
        """Events that a worker may claim: no lease and no backoff runs."""
        return self.waiting().filter(Q(retry_at__isnull=True) | Q(retry_at__lte=now))

    def app_requests(self) -> "SlackEventQuerySet":
        """Requests of people (rules/slack_app), which have tasks of their own."""
        return self.filter(kind__in=REQUESTS)

    def without_requests(self) -> "SlackEventQuerySet":
        return self.exclude(kind__in=REQUESTS)

    def failed(self) -> "SlackEventQuerySet":
        return self.filter(state=SlackEvent.State.FAILED)

    def with_body(self) -> "SlackEventQuerySet":
        """Events that still have a body. The filter by state uses the index."""
        return self.filter(state__in=SlackEvent.WITH_BODY).exclude(body="")

    def queued(self) -> "SlackEventQuerySet":
        """Events that a running or queued task will process, because it ends with an empty queue."""
        return self.waiting().without_requests().filter(reason="")

    def store(self, envelope: EventEnvelope, team_id: str, *, body: str, skipped: str = "") -> None:
        """Store an event unless one with its id exists; ``skipped`` is the reason to skip it."""
        row = SlackEvent(event_id=envelope.event_id, team_id=team_id, kind=envelope.kind, body=body)
        if skipped:
            row.state, row.reason = SlackEvent.State.SKIPPED, skipped
        self.bulk_create([row], ignore_conflicts=True)

    def is_first_queued(self, event_id: str) -> bool:
        """Return whether no event was queued before this one, so that it needs a task of its own."""
        return self.queued().values_list("event_id", flat=True).first() == event_id

    def redact(self, text: str) -> int:
        """Empty the unprocessed bodies that contain this text, such as a ts; return their number.

        A sync brings back what may stay.
        """
        return self.with_body().filter(body__contains=text).forget()

    def forget(self) -> int:
        """Skip these events and empty their bodies; return their number."""
        return self.update(state=SlackEvent.State.SKIPPED, reason="forgotten", body="")

    def prune(self, before: datetime) -> int:
        """Delete events received before then, the oldest first, at most 10,000 of them."""
        rows = self.order_by("pk").values_list("pk", "received_at")[:PRUNE_BATCH]
        old = [pk for pk, received_at in rows if received_at < before]
        return self.filter(pk__lte=old[-1]).delete()[0] if old else 0


class SlackEvent(models.Model):
    """An event, or a request of a person, as it was received. Its body is emptied after processing: the message is stored
    then, and a deletion must find no second copy."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        DONE = "done", _("done")
        SKIPPED = "skipped", _("ignored")
        FAILED = "failed", _("failed")

    WITH_BODY = (State.WAITING, State.FAILED)

    event_id = models.CharField(_("event"), max_length=64, unique=True)
    team_id = models.CharField(_("Slack team id"), max_length=32)
    kind = models.CharField(_("kind"), max_length=60)
    body = models.TextField(blank=True)
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WAITING)
    # Why it was skipped, or the last error: a short phrase, no text of a message.
    reason = models.CharField(_("reason"), max_length=100, blank=True)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    # The end of its worker's lease, or of the backoff after an error.
    retry_at = models.DateTimeField(_("next try at"), null=True, blank=True)
    received_at = models.DateTimeField(_("received"), auto_now_add=True)

    objects = SlackEventQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        indexes = [
            # SlackEventQuerySet.due. SQLite uses no partial index for a bound value.
            models.Index(fields=["state", "id"], name="event_by_state"),
        ]
        verbose_name = _("Slack event")
        verbose_name_plural = _("Slack events")

    def __str__(self) -> str:
        return self.event_id

    def claim(self, now: datetime, until: datetime) -> bool:
        """Claim the event until then; an attempt counts even if its worker dies.

        Return False when another worker has it, when it is finished, or after too many attempts.
        """
        own_row = SlackEvent.objects.due(now).filter(pk=self.pk, attempts=self.attempts)
        if self.attempts >= MAX_ATTEMPTS:
            own_row.update(state=self.State.FAILED, reason="lost its worker", retry_at=None)
            return False
        claimed = own_row.update(attempts=self.attempts + 1, retry_at=until, reason="")
        self.attempts += claimed
        return bool(claimed)

    def finish(self, skipped: str = "") -> bool:
        """Record that it was processed or skipped; return False when another worker claimed it."""
        # No filter by state: a deletion may have redacted the event meanwhile.
        own_row = SlackEvent.objects.filter(pk=self.pk, attempts=self.attempts)
        state = self.State.SKIPPED if skipped else self.State.DONE
        values = {"state": state, "reason": skipped[:100], "body": "", "retry_at": None}
        return bool(own_row.update(**values))

    def fail(self, reason: str, now: datetime) -> bool:
        """Schedule a retry, or set FAILED after the last attempt. Return False without the claim.

        Each retry doubles the pause.
        """
        pause = timedelta(seconds=settings.MEMORYHUB_BACK_OFF * 2 ** (self.attempts - 1))
        values: dict[str, Any] = {"reason": reason[:100], "retry_at": now + pause}
        if self.attempts >= MAX_ATTEMPTS:
            values |= {"state": self.State.FAILED, "retry_at": None}
        own_row = SlackEvent.objects.waiting().filter(pk=self.pk, attempts=self.attempts)
        return bool(own_row.update(**values))

    @transaction.atomic
    def retry(self, by: User | None) -> bool:
        """Let a failed event be processed again, with an audit event; return whether it had failed.

        It keeps one attempt: a request whose answer may have arrived is not answered as if new.
        """
        failed = SlackEvent.objects.failed().filter(pk=self.pk)
        if not failed.update(state=self.State.WAITING, attempts=1, reason="", retry_at=None):
            return False
        AuditEvent.objects.record("event_retry", by=by, subject=f"event {self.pk}")
        return True
