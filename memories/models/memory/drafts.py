"""What people typed into an editor and have not saved: kept for a day, each for its author alone."""

from datetime import datetime, timedelta

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import Reader
from memories.models.access.users import User
from memories.models.memory.memories import Memory
from memories.rules.redaction.shingles import QuoteMatcher

KEPT_FOR = timedelta(hours=24)


class DraftQuerySet(models.QuerySet["Draft"]):
    def of(self, reader: Reader, memory: Memory, now: datetime) -> "Draft | None":
        """Their text; None also when they may not read any more what they typed it over."""
        fresh = self.filter(user=reader.user_id, memory=memory, at__gt=now - KEPT_FOR)
        draft = fresh.first()
        if draft is None or not draft.based_on:
            return draft
        base = memory.versions.visible_to(reader).filter(number=draft.based_on)
        return draft if base.exists() else None

    @transaction.atomic
    def keep(
        self,
        reader: Reader,
        memory: Memory,
        text: str,
        *,
        based_on: int,
        revision: int,
        now: datetime,
    ) -> "Draft | None":
        """In place of what they kept before. None, and nothing done, where nothing is different,
        and where what they typed it over has other words by now: some may have been forgotten."""
        memory.lock()
        base = memory.versions.visible_to(reader).filter(number=based_on, revision=revision).first()
        if reader.user_id is None or (based_on and base is None):
            return None
        current = memory.current
        if text in (base.content if base else "", current.content if current else ""):
            return None
        values = {"text": text, "based_on": based_on, "revision": revision, "at": now}
        return self.update_or_create(user_id=reader.user_id, memory=memory, defaults=values)[0]

    def drop(self, reader: Reader, memory: Memory) -> None:
        """It was saved, or is not wanted any more."""
        self.filter(user=reader.user_id, memory=memory).delete()

    def delete_quoting(self, matcher: QuoteMatcher) -> None:
        """Words were forgotten: what holds them goes as a whole."""
        texts = self.values_list("pk", "text").iterator(200)
        quoting = [pk for pk, text in texts if matcher.find_in(text)]
        self.filter(pk__in=quoting).delete()

    def delete_old(self, now: datetime) -> None:
        self.filter(at__lte=now - KEPT_FOR).delete()


class Draft(models.Model):
    """A text and the version, in the wording, that it was typed over (0: over nothing)."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="unsaved")
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="unsaved")
    text = models.TextField(_("text"))
    based_on = models.PositiveIntegerField(_("version"))
    revision = models.PositiveIntegerField(_("times rewritten"))
    at = models.DateTimeField(_("when"))

    objects = DraftQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "memory"], name="unsaved_once"),
        ]
        verbose_name = _("unsaved text")
        verbose_name_plural = _("unsaved texts")

    def __str__(self) -> str:
        return f"{self.user_id} over {self.based_on} of {self.memory_id}"
