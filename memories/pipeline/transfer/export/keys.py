"""Whether the wish behind a job would be the same today: then its row answers it again.

An input key is made over row ids of one database, so a bundle cannot carry it. It says whether
the key still follows from the rows; the importing side makes it anew over its own rows, and an
owed, given-up or finished job is found again instead of being asked for twice.
"""

from collections.abc import Sequence

from memories.models import Memory, Message, Segment
from memories.pipeline.generate.input_keys import (
    BaseKey,
    input_key,
    merge_key,
    provisional_key,
    segment_key,
    thread_key,
)
from memories.rules.memory.identity import MemoryScope, MemoryType


def key_today(
    memory: Memory,
    *,
    segment: Segment | None,
    provisional: bool,
    base: BaseKey | None,
    read: Sequence[tuple[int, int]],
) -> str:
    """The input key that `plan` and `owe` would give to this wish over the rows as they are.

    ``read``: (row id of a version, its revision then), in the order they were read.
    """
    if provisional:
        return provisional_key(memory)
    if memory.scope == MemoryScope.THREAD:
        return thread_key(memory, base, _digest_of_thread(memory, segment))
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        if segment is None:
            return ""
        messages = Message.objects.rememberable().filter(segment=segment).in_order()
        return segment_key(memory, segment, messages.values_list("ts", "edited_ts"))
    return merge_key(memory, base, read)


def _digest_of_thread(memory: Memory, segment: Segment | None) -> list[tuple[str, str, str]]:
    waiting = Segment.objects.filter(
        channel=memory.channel_id,
        thread_ts=memory.thread_ts,
        outcome=Segment.Outcome.WAITING,
        number__lte=segment.number if segment else 0,
    )
    messages = Message.objects.filter(channel=memory.channel_id, thread_segment__in=waiting)
    return list(messages.order_by("micros").values_list("ts", "edited_ts", "state"))


def key_of_import(memory: Memory, line: int) -> str:
    """A key that no wish of today has."""
    return input_key(memory.pk, "imported", line)
