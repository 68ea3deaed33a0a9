"""What Slack tells by itself: stored, acknowledged, then worked on."""

from datetime import datetime

from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.rules.ingest.events import MAX_ATTEMPTS, EventEnvelope

PRUNED_AT_ONCE = 10_000


class SlackEventQuerySet(models.QuerySet["SlackEvent"]):
    def of_team(self, team_id: str) -> "SlackEventQuerySet":
        return self.filter(team_id=team_id)

    def waiting(self) -> "SlackEventQuerySet":
        return self.filter(state=SlackEvent.State.WAITING)

    def due(self, now: datetime) -> "SlackEventQuerySet":
        """What may be taken up: nobody works on it, and it does not rest after a failure."""
        rested = Q(not_before__isnull=True) | Q(not_before__lte=now)
        return self.waiting().filter(rested)

    def given_up(self) -> "SlackEventQuerySet":
        return self.filter(state=SlackEvent.State.FAILED)

    def with_body(self) -> "SlackEventQuerySet":
        """Those that still hold what was said; found by their states, however many are done."""
        return self.filter(state__in=SlackEvent.WITH_BODY).exclude(body="")

    def in_hand(self) -> "SlackEventQuerySet":
        """What a task is at, or was queued for: it goes on until nothing more waits."""
        return self.waiting().filter(reason="")

    def keep(self, envelope: EventEnvelope, team_id: str, *, body: str, skipped: str = "") -> None:
        """Store it, unless its id is known."""
        row = SlackEvent(event_id=envelope.event_id, team_id=team_id, kind=envelope.kind, body=body)
        if skipped:
            row.state, row.reason = SlackEvent.State.SKIPPED, skipped
        self.bulk_create([row], ignore_conflicts=True)

    def is_first_in_hand(self, event_id: str) -> bool:
        """Whether nothing waited before it: then it has to call a task. One that comes while others
        wait is found by theirs, which ends only when it finds none."""
        return self.in_hand().values_list("event_id", flat=True).first() == event_id

    def release(self, text: str) -> int:
        """Forget what was not worked on and holds this text (a ts, say); how many those were. A
        sync brings back what may stay."""
        events = self.with_body().filter(body__contains=text)
        return events.update(state=SlackEvent.State.SKIPPED, reason="forgotten", body="")

    def prune(self, before: datetime) -> int:
        """Remove what came in earlier, the oldest first, and at most 10,000 at once."""
        rows = self.order_by("pk").values_list("pk", "received_at")[:PRUNED_AT_ONCE]
        old = [pk for pk, received_at in rows if received_at < before]
        return self.filter(pk__lte=old[-1]).delete()[0] if old else 0


class SlackEvent(models.Model):
    """One event as it was received. Its body is blank once it was worked on: the message is where
    it belongs then, and a deletion must find no other copy."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        DONE = "done", _("done")
        SKIPPED = "skipped", _("not ours")
        FAILED = "failed", _("failed")

    WITH_BODY = (State.WAITING, State.FAILED)

    event_id = models.CharField(_("event"), max_length=64, unique=True)
    team_id = models.CharField(_("Slack team id"), max_length=32)
    kind = models.CharField(_("kind"), max_length=60)
    body = models.TextField(blank=True)
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WAITING)
    # Why it was skipped, or what went wrong the last time: a short phrase, no text of a message.
    reason = models.CharField(_("reason"), max_length=100, blank=True)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    # Of one that is worked on: until when it is left to whoever does.
    not_before = models.DateTimeField(_("not before"), null=True, blank=True)
    received_at = models.DateTimeField(_("received"), auto_now_add=True)

    objects = SlackEventQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        indexes = [
            # What a task takes up. Not a partial one: SQLite passes those by for a bound value.
            models.Index(fields=["state", "id"], name="event_by_state"),
        ]
        verbose_name = _("Slack event")
        verbose_name_plural = _("Slack events")

    def __str__(self) -> str:
        return self.event_id

    def claim(self, now: datetime, until: datetime) -> bool:
        """Take it up; an attempt counts even if its worker dies. False: somebody else has it, it is
        over, or it was taken up too often."""
        own_row = SlackEvent.objects.due(now).filter(pk=self.pk, attempts=self.attempts)
        if self.attempts >= MAX_ATTEMPTS:
            own_row.update(state=self.State.FAILED, reason="lost its worker", not_before=None)
            return False
        claimed = own_row.update(attempts=self.attempts + 1, not_before=until, reason="")
        self.attempts += claimed
        return bool(claimed)

    def ends(self, skipped: str = "") -> bool:
        """It was worked on, or there was nothing to do. False: another worker has it by now."""
        # Its body may have been let go meanwhile: a deletion forgets all that tells of a message.
        own_row = SlackEvent.objects.filter(pk=self.pk, attempts=self.attempts)
        state = self.State.SKIPPED if skipped else self.State.DONE
        values = {"state": state, "reason": skipped[:100], "body": "", "not_before": None}
        return bool(own_row.update(**values))

    def fails(self, reason: str, again_at: datetime) -> bool:
        """Try it again then; after five attempts a person has to say so."""
        if self.attempts < MAX_ATTEMPTS:
            return self._becomes(reason=reason[:100], not_before=again_at)
        return self._becomes(state=self.State.FAILED, reason=reason[:100], not_before=None)

    @transaction.atomic
    def retry(self, by: User | None) -> bool:
        """A person's word to try again what was given up. On the record."""
        given_up = SlackEvent.objects.filter(pk=self.pk, state=self.State.FAILED)
        if not given_up.update(state=self.State.WAITING, attempts=0, reason="", not_before=None):
            return False
        AuditEvent.objects.record("event_retry", by=by, subject=f"event {self.pk}")
        return True

    def _becomes(self, **values: object) -> bool:
        own_row = SlackEvent.objects.waiting().filter(pk=self.pk, attempts=self.attempts)
        return bool(own_row.update(**values))
