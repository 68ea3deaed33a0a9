"""Consistency checks of the memories in the database."""

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from memories.models import Memory, MemoryVersion


def find_broken_memories() -> list[str]:
    """Return a sentence part for each problem, with ids of some of the memories."""
    counted = Memory.objects.annotate(
        newest=Max("versions__number"), oldest=Min("versions__number"), count=Count("versions")
    )
    for_all = MemoryVersion.objects.filter(
        memory=OuterRef("pk"), audience=MemoryVersion.Audience.SCOPE
    )
    broken = {
        "whose newest version is not their head": counted.exclude(newest=F("head")).exclude(
            newest=None, head=0
        ),
        "with a gap in their versions": counted.exclude(count=0).filter(
            ~Q(count=F("newest")) | ~Q(oldest=1)
        ),
        "whose current version is not one of theirs": Memory.objects.filter(
            (Q(current=None) & Exists(for_all))
            | (Q(current__isnull=False) & ~Q(current__memory=F("pk")))
        ),
    }
    problems = []
    for problem, memories in broken.items():
        ids = list(memories.order_by("pk").values_list("pk", flat=True))
        if ids:
            some_ids = ", ".join(map(str, ids[:3])) + (", …" if len(ids) > 3 else "")
            problems.append(f"{len(ids)} memories {problem} ({some_ids})")
    return problems
