"""The merges that read removed messages: what they may have written, and what is merged again."""

from collections.abc import Collection

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from memories.models import JobInput, Line, Memory, MemoryVersion, Message, Workspace
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.rules.memory.identity import MemoryScope, MemoryType


def first_merges(
    workspace: Workspace, channels: Collection[int], segments: Collection[int], since_us: int
) -> dict[int, int]:
    """Return memory → number of its first version that was merged from the removed segments.

    Lines since that version may come from a removed message. The segments are of these channels.
    ``since_us`` is the time of the oldest removed message.
    """
    inputs = JobInput.objects.filter(version__memory__channel__in=channels)
    direct = inputs
    if workspace.memory_settings.history_enabled:  # else one text is of all segments
        of_several = MemoryVersion.objects.of_several_segments(channels, since_us)
        rests = Q(version__segment__in=segments) | Q(version__in=of_several.values("pk"))
        direct = inputs.filter(rests)
    first = _lowest_versions(direct)
    indirect = Q(pk__in=())
    for memory, number in first.items():
        indirect |= Q(version__memory=memory, version__number__gte=number)
    for memory, number in _lowest_versions(inputs.filter(indirect)).items():
        first[memory] = min(number, first.get(memory, number))
    return first


def _lowest_versions(inputs: "models.QuerySet[JobInput]") -> dict[int, int]:
    """Return memory → lowest number of the versions that were made from these inputs."""
    rows = inputs.filter(job__versions__isnull=False).order_by()
    memories = rows.values_list("job__versions__memory")
    return dict(memories.annotate(models.Min("job__versions__number")))


def reached_workspace_memory(
    workspace: Workspace, channels: Collection[int], versions: Collection[int]
) -> bool:
    """Return whether words of these channels are, or were, in a memory of the workspace.

    That memory is a reference in the summaries of all channels. ``versions`` have the words.
    """
    of_workspace = Q(memory__workspace=workspace, memory__scope=MemoryScope.WORKSPACE)
    if MemoryVersion.objects.filter(of_workspace, pk__in=versions).exists():
        return True
    redacted = Line.objects.filter(redacted=True, version__memory__workspace=workspace)
    redacted = redacted.filter(version__memory__scope=MemoryScope.WORKSPACE)
    return redacted.filter(sources__channel__in=channels).exists()


def merge_again(
    memory: Memory,
    redacted_lines: Collection[int],
    unsourced: Collection[int],
    channels: Collection[int],
) -> None:
    """Mark the texts as not merged that the redacted lines of a long-term memory came from.

    For a channel's memory its newest short-term text is marked too, so that a merge has input.
    ``unsourced`` are the redacted lines without sources; ``channels`` had the removed messages.
    """
    remaining = Message.objects.rememberable().filter(lines__in=redacted_lines)
    inputs = _inputs_of(memory, unsourced)
    if memory.channel_id is None:
        channels = set(channels) | set(remaining.values_list("channel", flat=True))
        channels |= {pk for pk in inputs.values_list("memory__channel", flat=True) if pk}
        versions = MemoryVersion.objects.current_in(channels, MemoryType.LONG_TERM)
    else:
        short_term = MemoryVersion.objects.filter(
            memory__channel=memory.channel_id,
            memory__scope=MemoryScope.CHANNEL,
            memory__memory_type=MemoryType.SHORT_TERM,
        )
        newest = short_term.filter(current_of__isnull=False).values("pk")
        versions = short_term.filter(
            Q(segment__in=remaining.values("segment"))
            | Q(pk__in=inputs.values("pk"))
            | Q(pk__in=newest)
        )
    versions.update(merged=False)


def _inputs_of(memory: Memory, lines: Collection[int]) -> MemoryVersionQuerySet:
    """Return the texts that were merged when these lines were written."""
    rows = Line.objects.filter(pk__in=lines)
    written = MemoryVersion.objects.filter(memory=memory, number__in=rows.values("since"))
    inputs = JobInput.objects.filter(job__in=written.values("job"))
    return MemoryVersion.objects.filter(pk__in=inputs.values("version"))


def count_writes(memories: "models.QuerySet[Memory]") -> dict[int, tuple[int, int]]:
    """Return memory → its head, and how often its versions were changed in place."""
    rows = memories.order_by().values_list("pk", "head")
    counted = rows.annotate(revisions=Coalesce(models.Sum("versions__revision"), 0))
    return {pk: (head, revisions) for pk, head, revisions in counted}


def find_changed(
    memories: "models.QuerySet[Memory]", writes: dict[int, tuple[int, int]]
) -> set[int]:
    """Return the memories that were written since ``writes`` were counted, and correct these."""
    counted = count_writes(memories)
    changed = {pk for pk, count in counted.items() if count != writes.get(pk, (0, 0))}
    writes.update(counted)
    return changed
