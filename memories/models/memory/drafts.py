"""Drafts: unsaved texts of an editor. Each is kept for a day, for its author alone."""

from datetime import datetime, timedelta

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import Reader
from memories.models.access.users import User
from memories.models.memory.memories import Memory
from memories.rules.redaction.shingles import QuoteMatcher

KEPT_FOR = timedelta(hours=24)


class DraftQuerySet(models.QuerySet["Draft"]):
    def find(self, reader: Reader, memory: Memory, now: datetime) -> "Draft | None":
        """Return the reader's draft. Return None if they may no longer read its base version."""
        draft = self.filter(user=reader.user_id, memory=memory, at__gt=now - KEPT_FOR).first()
        if draft is None or not draft.based_on:
            return draft
        base = memory.versions.visible_to(reader).filter(number=draft.based_on)
        return draft if base.exists() else None

    @transaction.atomic
    def save_text(
        self,
        reader: Reader,
        memory: Memory,
        text: str,
        *,
        based_on: int,
        revision: int,
        now: datetime,
    ) -> "Draft | None":
        """Save a text in place of the reader's earlier draft.

        Return None and save nothing if the text equals its base or the current version. The same
        happens if the base has another revision: its words may have been redacted.
        """
        memory.lock()
        base = memory.versions.visible_to(reader).filter(number=based_on, revision=revision).first()
        if reader.user_id is None or (based_on and base is None):
            return None
        current = memory.current
        if text in (base.content if base else "", current.content if current else ""):
            return None
        values = {"text": text, "based_on": based_on, "revision": revision, "at": now}
        return self.update_or_create(user_id=reader.user_id, memory=memory, defaults=values)[0]

    def discard(self, reader: Reader, memory: Memory) -> None:
        self.filter(user=reader.user_id, memory=memory).delete()

    def delete_quoting(self, matcher: QuoteMatcher) -> None:
        """Delete the drafts that contain redacted words."""
        texts = self.values_list("pk", "text").iterator(200)
        quoting = [pk for pk, text in texts if matcher.spans(text)]
        self.filter(pk__in=quoting).delete()

    def delete_old(self, now: datetime) -> None:
        self.filter(at__lte=now - KEPT_FOR).delete()


class Draft(models.Model):
    """A text with its base: the number and revision of a version, 0 for a memory without any."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="drafts")
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="drafts")
    text = models.TextField(_("text"))
    based_on = models.PositiveIntegerField(_("version"))
    revision = models.PositiveIntegerField(_("times rewritten"))
    at = models.DateTimeField(_("when"))

    objects = DraftQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "memory"], name="unsaved_once"),
        ]
        verbose_name = _("draft")
        verbose_name_plural = _("drafts")

    def __str__(self) -> str:
        return f"{self.user_id} over {self.based_on} of {self.memory_id}"
