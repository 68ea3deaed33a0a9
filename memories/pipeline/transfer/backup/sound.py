"""Whether the memories of the database add up."""

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from memories.models import Memory, MemoryVersion


def broken_memories() -> list[str]:
    """What is wrong, as words with the keys of some of the memories; empty when all is well."""
    counted = Memory.objects.annotate(
        newest=Max("versions__number"), oldest=Min("versions__number"), count=Count("versions")
    )
    for_all = MemoryVersion.objects.filter(
        memory=OuterRef("pk"), audience=MemoryVersion.Audience.SCOPE
    )
    wrong = {
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
    for what, memories in wrong.items():
        keys = list(memories.order_by("pk").values_list("pk", flat=True))
        if keys:
            named = ", ".join(map(str, keys[:3])) + (", …" if len(keys) > 3 else "")
            problems.append(f"{len(keys)} memories {what} ({named})")
    return problems
