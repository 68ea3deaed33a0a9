"""The messages that a correction of a memory may name as its sources."""

from django.db.models import Q

from memories.models import Channel, Memory, Message, Reader
from memories.models.ingest.messages import MessageQuerySet


def shareable_messages(memory: Memory, reader: Reader) -> MessageQuerySet:
    """Return the messages that the reader and all readers of the memory may read."""
    of_memory = Q(channel=memory.channel)
    if memory.channel is None:
        channels = memory.workspace.channels.feeding_workspace_memory()
        of_memory = Q(channel__in=channels.values("pk"))
    readable = Message.objects.visible_to(reader).filter(of_memory, state=Message.State.LIVE)
    return readable.exclude(was_private=True, channel__kind=Channel.Kind.PUBLIC)
