"""The memories of a channel and its workspace, read from the database at each call."""

from memories.models import Channel, Memory
from memories.rules.memory.identity import MemoryType


def short(channel: Channel) -> Memory:
    return Memory.objects.with_current().of_channel(channel, MemoryType.SHORT_TERM)


def long(channel: Channel) -> Memory:
    return Memory.objects.with_current().of_channel(channel, MemoryType.LONG_TERM)


def workspace_memory(channel: Channel, memory_type: MemoryType = MemoryType.LONG_TERM) -> Memory:
    return Memory.objects.with_current().of_workspace(channel.workspace, memory_type)
