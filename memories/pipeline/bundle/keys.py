"""Whether the wish behind a generation would be the same today: then its row answers it again.

An input key is made over row ids of one database, so a bundle cannot carry it. It says whether
the key still follows from the rows; the importing side makes it anew over its own rows, and an
owed, given-up or finished generation is found again instead of being asked for twice.
"""

from collections.abc import Sequence

from memories.models import Memory, Message, Segment
from memories.pipeline.keys import input_key, messages_key
from memories.rules.memory import MemoryScope, MemoryType

Numbered = tuple[int, int]  # a version's number, or row, and its revision


def key_today(
    memory: Memory,
    *,
    segment: Segment | None,
    provisional: bool,
    base: Numbered | None,
    read: Sequence[Numbered],
) -> str:
    """The input key that `plan` and `owe` would give to this wish over the rows as they are.

    ``read``: (row id of a version, its revision then), in the order they were read.
    """
    if provisional:
        return messages_key(memory, "provisional", [])
    if memory.scope == MemoryScope.THREAD:
        return input_key(memory.pk, "thread", base, _digest_of_thread(memory, segment))
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        if segment is None:
            return ""
        what = f"segment {segment.number} {segment.first_us}-{segment.last_us}"
        messages = Message.objects.rememberable().filter(segment=segment).in_order()
        return messages_key(memory, what, messages.values_list("ts", "edited_ts"))
    return input_key(memory.pk, "merge", base, list(read))


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
