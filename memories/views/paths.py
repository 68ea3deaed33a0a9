"""URLs and names of memories and their pages."""

from functools import lru_cache

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _

from memories.models import Memory, Message
from memories.rules.memory.identity import MemoryScope, MemoryType

CACHE_SIZE = 5_000  # each page links to all channels


def full_url(path: str) -> str:
    """Return the address of a page for texts outside of the hub."""
    return f"{settings.MEMORYHUB_URL}{path}"


def page_of(memory: Memory) -> str:
    """Return the URL of the page of the memory's channel, thread or workspace."""
    slug = memory.workspace.slug
    if memory.channel is None:
        return reverse("workspaces-detail", args=[slug])
    if memory.scope == MemoryScope.THREAD:
        return thread_path(slug, memory.channel.slack_id, memory.thread_ts)
    return channel_path(slug, memory.channel.slack_id)


def card_path(memory: Memory) -> str:
    """Return the URL of the memory on that page."""
    is_current_state = memory.memory_type == MemoryType.SHORT_TERM and memory.scope != "thread"
    return f"{page_of(memory)}#{'now' if is_current_state else 'memory'}"


def update_path(memory: Memory) -> str:
    """Return the URL that updates the memory, which may not exist yet."""
    if memory.pk:
        return reverse("updates-detail", args=[memory.pk])
    assert memory.channel is not None
    return reverse("updates-channel", args=[memory.workspace.slug, memory.channel.slack_id])


@lru_cache(maxsize=CACHE_SIZE)
def channel_path(slug: str, slack_id: str) -> str:
    return reverse("channels-detail", args=[slug, slack_id])


@lru_cache(maxsize=CACHE_SIZE)
def messages_path(slug: str, slack_id: str) -> str:
    return reverse("messages-index", args=[slug, slack_id])


def message_path(slug: str, message: Message) -> str:
    """Return the URL of a message among the messages of its channel."""
    path = messages_path(slug, message.channel.slack_id)
    return f"{path}?around={message.ts}#msg-{message.ts}"


def thread_path(slug: str, slack_id: str, thread_ts: str) -> str:
    return reverse("threads-detail", args=[slug, slack_id, thread_ts])


def scope_name(memory: Memory) -> str:
    """Return ``#general``, ``Thread in #general``, or the name of the workspace."""
    if memory.channel is None:
        return str(memory.workspace)
    if memory.scope == MemoryScope.THREAD:
        return _("Thread in %(channel)s") % {"channel": memory.channel}
    return str(memory.channel)


def type_name(memory: Memory) -> str:
    if memory.scope == MemoryScope.THREAD:
        return _("Thread memory")
    return (
        _("Long-term memory")
        if memory.memory_type == MemoryType.LONG_TERM
        else _("Short-term memory")
    )
