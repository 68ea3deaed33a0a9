"""Quarantine: lines of a model that a safety rule stopped, for review by a person."""

from typing import Any

from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet, Reader
from memories.models.access.users import User
from memories.models.generate.jobs import Job
from memories.models.ingest.channels import Channel
from memories.models.ingest.messages import Message
from memories.models.memory.lines import Audience, Line
from memories.models.memory.memories import Memory
from memories.models.memory.versions import MemoryVersion
from memories.rules.memory.lines import Origin, strip_bullet
from memories.rules.redaction.shingles import REDACTED


class QuarantineQuerySet(AudienceQuerySet["QuarantinedLine"]):
    def not_approved(self) -> "QuarantineQuerySet":
        return self.exclude(state=QuarantinedLine.State.APPROVED)

    def resting_on(self, messages: "models.QuerySet[Message]") -> "QuarantineQuerySet":
        through = QuarantinedLine.sources.through.objects.filter(message__in=messages.values("pk"))
        return self.filter(pk__in=through.values("quarantinedline"))

    def with_memory(self) -> "QuarantineQuerySet":
        return self.select_related("memory__channel", "memory__workspace", "memory__current")

    def waiting(self) -> "QuarantineQuerySet":
        """Return the lines that nobody decided about, without those that were redacted."""
        without_words = (REDACTED, f"- {REDACTED}")
        return self.filter(state=QuarantinedLine.State.WAITING).exclude(text__in=without_words)


class QuarantinedLine(models.Model):
    """A stopped line, the rule that it broke, and the messages that it rests on."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting for approval")
        APPROVED = "accepted", _("approved")
        REJECTED = "rejected", _("rejected")

    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="quarantined")
    job = models.ForeignKey(
        Job, on_delete=models.SET_NULL, related_name="quarantined", null=True, blank=True
    )
    text = models.TextField(_("text"))
    rule = models.CharField(_("reason"), max_length=40)
    sources = models.ManyToManyField(Message, related_name="quarantined")
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WAITING)
    decided_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(_("found"), auto_now_add=True)

    objects = QuarantineQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [
            # QuarantineQuerySet.waiting: every page counts them.
            models.Index(
                fields=["memory"], name="quarantine_waiting", condition=Q(state="waiting")
            ),
        ]
        verbose_name = _("quarantined line")
        verbose_name_plural = _("quarantined lines")

    def __str__(self) -> str:
        return f"quarantined line {self.pk}"

    @transaction.atomic
    def approve(
        self, *, by: User | None, based_on: int, revision: int | None = None
    ) -> MemoryVersion | None:
        """Add the line, as one by this person, with its sources to the next version of the memory.

        Returns None if the line does not wait any more, or was redacted. Raises StaleBase as
        `Memory.revise` does.
        """
        # In the order in which deletions lock: the sources' channels, the memory, the line.
        Channel.objects.filter(pk__in=self.sources.order_by().values("channel")).lock()
        memory = self.memory
        memory.lock()
        if not self._decide(self.State.APPROVED, by):
            return None
        self.refresh_from_db(fields=["text"])  # behind the lock of the row
        text = memory.current.content if memory.current else ""
        version = memory.revise(
            f"{text}\n- {strip_bullet(self.text)}".strip("\n"),
            by=by,
            based_on=based_on,
            revision=revision,
            audience=self._audience(),
        )
        line = (
            Line.objects.filter(version=version, origin=Origin.PERSON).order_by("position").last()
        )
        if line is not None and strip_bullet(line.text) == strip_bullet(self.text):
            line.sources.add(*self.sources.all())
        self._record("quarantine_accept", by, version=version.number)
        return version

    @transaction.atomic
    def reject(self, *, by: User | None) -> bool:
        """Keep the line out, also if a model repeats it. Returns False if it does not wait."""
        rejected = self._decide(self.State.REJECTED, by)
        if rejected:
            self._record("quarantine_reject", by)
        return rejected

    def _audience(self) -> Audience:
        """Return who may read a version with the line: members only, if it is from private days."""
        public = QuarantinedLine.objects.visible_to(Reader.public())
        is_public = self.memory.channel is not None and self.memory.channel.is_public
        is_hidden = is_public and not public.filter(pk=self.pk).exists()
        return Audience.MEMBERS if is_hidden else Audience.SCOPE

    def _decide(self, state: "QuarantinedLine.State", by: User | None) -> bool:
        now = timezone.now()
        waiting = QuarantinedLine.objects.waiting().filter(pk=self.pk)
        done = bool(waiting.update(state=state, decided_by=by, decided_at=now))
        if done:
            self.state, self.decided_by, self.decided_at = state, by, now
        return done

    def _record(self, action: str, by: User | None, **details: Any) -> None:
        workspace = self.memory.workspace
        AuditEvent.objects.record(action, by=by, workspace=workspace, subject=str(self), **details)
