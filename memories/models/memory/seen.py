"""Marks as seen: for each account and memory, the version from which "Catch up" starts."""

from datetime import datetime

from django.db import models
from django.db.models import Case, Count, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from memories.models.access.users import User
from memories.models.memory.lines import Audience
from memories.models.memory.memories import Memory, MemoryQuerySet
from memories.models.memory.versions import MemoryVersion


class SeenQuerySet(models.QuerySet["Seen"]):
    def of(self, user: User, memory: Memory) -> "Seen":
        """Return the mark of an account and a memory. Create it on first use."""
        seen, _created = self.get_or_create(user=user, memory=memory)
        return seen

    def mark_all(self, user: User, numbers: dict[int, int], now: datetime) -> int:
        """Mark these versions of memories (by primary key). Return how many marks moved."""
        marks = [Seen(user=user, memory_id=pk) for pk in numbers]
        self.bulk_create(marks, ignore_conflicts=True)
        number = Case(*(When(memory=pk, then=number) for pk, number in numbers.items()))
        older = self.filter(user=user, memory__in=numbers, number__lt=number)
        return older.update(previous_number=F("number"), previous_at=F("at"), number=number, at=now)

    def undo(self) -> int:
        """Restore the marks before these. Return how many there were."""
        return self.filter(previous_number__isnull=False).update(
            number=F("previous_number"), at=F("previous_at"), previous_number=None, previous_at=None
        )


class Seen(models.Model):
    """The number of the version that an account marked last, and when. At first 0 and None.

    ``previous_number`` and ``previous_at`` are the mark before it, for an undo. They are None if there is
    nothing to undo. A mark holds no text and gives no access: it is shown only to readers of the
    memory.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="seen")
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="seen_by")
    number = models.PositiveIntegerField(_("version"), default=0)
    at = models.DateTimeField(_("seen"), null=True, blank=True)
    previous_number = models.PositiveIntegerField(null=True, blank=True, editable=False)
    previous_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = SeenQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "memory"], name="seen_once"),
            models.CheckConstraint(
                name="seen_at_a_moment",
                condition=Q(number=0, at__isnull=True) | Q(number__gte=1, at__isnull=False),
            ),
        ]
        verbose_name = _("seen mark")
        verbose_name_plural = _("seen marks")

    def __str__(self) -> str:
        return f"{self.user_id} saw {self.number} of {self.memory_id}"

    def mark(self, number: int, now: datetime) -> bool:
        """Mark a version. Return False if the mark is at it or a newer one already."""
        moved = Seen.objects.mark_all(self.user, {self.memory_id: number}, now)
        self.refresh_from_db()
        return bool(moved)

    def undo(self, number: int) -> bool:
        """Restore the mark before this version. Return False if it is not the last mark."""
        restored = Seen.objects.filter(pk=self.pk, number=number).undo()
        self.refresh_from_db()
        return bool(restored)


def with_seen(memories: MemoryQuerySet, user_id: int | None) -> MemoryQuerySet:
    """Annotate memories with an account's mark: ``seen`` (0 for none), ``seen_at`` and ``news``.

    ``news`` counts the versions for all readers since the mark, up to the current one.
    """
    mark = Seen.objects.filter(memory=OuterRef("pk"), user=user_id)
    newer = MemoryVersion.objects.filter(
        memory=OuterRef("pk"),
        audience=Audience.SCOPE,
        number__gt=OuterRef("seen"),
        number__lte=OuterRef("current__number"),
    )
    newer_count = newer.order_by().values("memory").annotate(n=Count("pk")).values("n")
    return memories.annotate(  # type: ignore[no-redef]
        seen=Coalesce(Subquery(mark.values("number")), Value(0)),
        seen_at=Subquery(mark.values("at")),
    ).annotate(news=Coalesce(Subquery(newer_count), Value(0)))


def unseen_memories(memories: MemoryQuerySet, user_id: int | None) -> MemoryQuerySet:
    """Return the memories whose current version is newer than the account's mark."""
    # A subquery over the marks: a join of all versions is slow.
    marks = Seen.objects.filter(
        user=user_id, memory=OuterRef("pk"), number__gte=F("memory__current__number")
    )
    return memories.filter(~Exists(marks), current__isnull=False)
