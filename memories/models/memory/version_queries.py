"""Querysets of versions: those of a scope or a time, and those to merge."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import Exists, F, OuterRef, Q, Subquery, Window
from django.db.models.functions import Coalesce, RowNumber

from memories.models.ingest.channels import Channel
from memories.models.memory.earlier_wordings import EarlierWording
from memories.models.memory.lines import Audience
from memories.models.memory.memories import Memory, MemoryQuerySet
from memories.models.search.documents import VERSION, SearchableQuerySet
from memories.rules.generate.segments import Trigger
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.operations import operation_text
from memories.rules.redaction.shingles import REDACTED

if TYPE_CHECKING:
    from memories.models.memory.versions import (
        MemoryVersion,  # noqa: F401  # for the annotation "MemoryVersion"
    )


class MemoryVersionQuerySet(SearchableQuerySet["MemoryVersion"]):
    searched_as = VERSION

    def current_in(
        self, channels: Iterable[Channel] | Iterable[int], memory_type: MemoryType
    ) -> "MemoryVersionQuerySet":
        """Return the current versions of the memories of these channels, without threads."""
        return self.filter(
            current_of__channel__in=channels,
            current_of__scope=MemoryScope.CHANNEL,
            current_of__memory_type=memory_type,
        )

    def with_text(self) -> "MemoryVersionQuerySet":
        """Exclude the versions whose whole text was redacted."""
        return self.exclude(content=REDACTED)

    def restricted(self) -> "MemoryVersionQuerySet":
        """Return the versions that not all readers of their memory may read."""
        return self.filter(~Q(audience=Audience.SCOPE))

    def current(self) -> "MemoryVersionQuerySet":
        """Return the current versions.

        It uses `Exists`: PostgreSQL expects one row of a join by two columns, and sorts after it
        joins all.
        """
        return self.filter(Exists(Memory.objects.filter(current=OuterRef("pk"))))

    def of_several_segments(
        self, channels: Iterable[int], since_us: int
    ) -> "MemoryVersionQuerySet":
        """Return the short-term texts of channels that were written while history was off.

        Each is of its segment and the window before it, and names the segment only. Their periods
        end at ``since_us`` or later.
        """
        return self.filter(
            memory__channel__in=channels,
            memory__scope=MemoryScope.CHANNEL,
            memory__memory_type=MemoryType.SHORT_TERM,
            segment__reason=Trigger.HISTORY_OFF,
            until_us__gte=since_us,
        )

    def as_of(self, at: datetime) -> "MemoryVersionQuerySet":
        """Return the versions that existed at a time, with ``until_then``: their period at that time.

        Those are left out whose wording of that time was withdrawn.
        """
        wordings = EarlierWording.objects.replaced_after(at).filter(version=OuterRef("pk"))
        return (
            self.filter(created_at__lte=at)
            .annotate(
                content_then=Coalesce(Subquery(wordings.values("content")[:1]), F("content")),
                until_then=Coalesce(Subquery(wordings.values("until_us")[:1]), F("until_us")),
            )
            .exclude(content_then=REDACTED)
        )

    def current_at(self, memories: MemoryQuerySet, at: datetime) -> "MemoryVersionQuerySet":
        """Return the versions of these memories that were current at a time."""
        ranked = self.filter(memory__in=memories.values("pk"), audience=Audience.SCOPE).as_of(at)
        order = [F("until_then").desc(), F("number").desc()]
        rank = Window(RowNumber(), partition_by="memory", order_by=order)
        return ranked.annotate(rank=rank).filter(rank=1)

    def not_current(self) -> "MemoryVersionQuerySet":
        return self.exclude(memory__current=F("pk"))

    def keys_dropping(self, repeats_removed: Callable[[str], bool]) -> set[int]:
        """Return the keys of those that dropped an operation with such a text."""
        pairs = self.exclude(dropped=[]).values_list("pk", "dropped")
        return {
            pk for pk, dropped in pairs if any(map(repeats_removed, map(operation_text, dropped)))
        }

    def in_order(self) -> "MemoryVersionQuerySet":
        """Order by period, then by number, as contexts and merges do."""
        return self.order_by("until_us", "number")

    def newest_first(self) -> "MemoryVersionQuerySet":
        return self.order_by("-number")

    def not_merged(self) -> "MemoryVersionQuerySet":
        """Return the versions that a long-term memory has still to merge (rules 5 and 6)."""
        return self.mergeable().filter(merged=False)

    def mergeable(self) -> "MemoryVersionQuerySet":
        """Return the sources of a long-term memory: the newest version of each segment.

        Provisional versions are excluded.
        """
        newer = self.model._default_manager.filter(
            segment=OuterRef("segment"), memory=OuterRef("memory"), number__gt=OuterRef("number")
        )
        return self.with_text().filter(
            Q(segment__isnull=True) | ~Exists(newer),
            provisional=False,
            audience=Audience.SCOPE,
        )
