"""Input keys of exported and imported jobs.

An input key contains row ids of one database, so an export leaves it out. The export says if the
job would be created again today. The import then computes the key from its own rows, and the job
is not sent to a model again.
"""

from collections.abc import Sequence

from memories.models import Memory, Message, Segment
from memories.pipeline.generate.input_keys import (
    BaseKey,
    merge_key,
    provisional_key,
    segment_key,
    thread_key,
)
from memories.rules.memory.identity import MemoryScope, MemoryType


def current_input_key(
    memory: Memory,
    *,
    segment: Segment | None,
    provisional: bool,
    base: BaseKey | None,
    inputs: Sequence[tuple[int, int]],
) -> str:
    """Return the input key of a job that a pass creates now, "" for none.

    ``inputs``: version id and its revision when the job was created, in the order of reading.
    """
    if provisional:
        return provisional_key(memory)
    if memory.scope == MemoryScope.THREAD:
        return thread_key(memory, base, _thread_messages(memory, segment))
    if memory.scope == MemoryScope.CHANNEL and memory.memory_type == MemoryType.SHORT_TERM:
        if segment is None:
            return ""
        messages = Message.objects.rememberable().filter(segment=segment).in_order()
        return segment_key(memory, segment, messages.values_list("ts", "edited_ts"))
    return merge_key(memory, base, inputs)


def _thread_messages(memory: Memory, segment: Segment | None) -> list[tuple[str, str, str]]:
    """Return ts, time of edit and state of the messages that wait up to this segment."""
    waiting = Segment.objects.filter(
        channel=memory.channel_id,
        thread_ts=memory.thread_ts,
        outcome=Segment.Outcome.WAITING,
        number__lte=segment.number if segment else 0,
    )
    messages = Message.objects.filter(channel=memory.channel_id, thread_segment__in=waiting)
    return list(messages.order_by("micros").values_list("ts", "edited_ts", "state"))
