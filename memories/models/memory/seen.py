"""What each account has marked as seen: the texts that its catching up starts from."""

from datetime import datetime

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.users import User
from memories.models.memory.memories import Memory


class SeenQuerySet(models.QuerySet["Seen"]):
    def of(self, user: User, memory: Memory) -> "Seen":
        """The account's row of this memory; made on first use."""
        seen, _made = self.get_or_create(user=user, memory=memory)
        return seen


class Seen(models.Model):
    """The number of the version that an account marked last, and when; 0 and never at first.

    ``was_number`` and ``was_at`` are the mark before that, which an undo brings back; None when
    there is nothing to undo. It holds nobody's words, and is no way to a memory: whoever may not
    read that any more is not told of the mark either.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="seen")
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="seen_by")
    number = models.PositiveIntegerField(_("version"), default=0)
    at = models.DateTimeField(_("seen"), null=True, blank=True)
    was_number = models.PositiveIntegerField(null=True, blank=True, editable=False)
    was_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = SeenQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "memory"], name="seen_once"),
            models.CheckConstraint(
                name="seen_at_a_moment",
                condition=Q(number=0, at__isnull=True) | Q(number__gte=1, at__isnull=False),
            ),
        ]
        verbose_name = _("mark as seen")
        verbose_name_plural = _("marks as seen")

    def __str__(self) -> str:
        return f"{self.user_id} saw {self.number} of {self.memory_id}"

    def mark(self, number: int, now: datetime) -> bool:
        """Seen up to this version. False when it was already: a mark goes back only by `undo`."""
        older = Seen.objects.filter(pk=self.pk, number__lt=number)
        done = older.update(was_number=F("number"), was_at=F("at"), number=number, at=now)
        self.refresh_from_db()
        return bool(done)

    def undo(self, number: int) -> bool:
        """Take the mark of this version back: the one before holds again. False when that is not
        the last mark any more."""
        last = Seen.objects.filter(pk=self.pk, number=number, was_number__isnull=False)
        done = last.update(number=F("was_number"), at=F("was_at"), was_number=None, was_at=None)
        self.refresh_from_db()
        return bool(done)
