"""The identity of a memory (S0): its scope, its type, the valid pairs, and the immutable value."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from memories.rules.ingest.timestamps import micros

WORKSPACE_SCOPE_ID = "default"


class MemoryScope(StrEnum):
    WORKSPACE = "workspace"
    CHANNEL = "channel"
    THREAD = "thread"


class MemoryType(StrEnum):
    LONG_TERM = "long_term"
    SHORT_TERM = "short_term"


VALID_MEMORY_COMBINATIONS = frozenset(
    (scope, memory_type)
    for scope in MemoryScope
    for memory_type in MemoryType
    if (scope, memory_type) != (MemoryScope.THREAD, MemoryType.LONG_TERM)
)


class InvalidMemoryCombination(ValueError):
    """S0 has no such pair: a thread has no long-term memory."""

    def __init__(self, scope: str, memory_type: str) -> None:
        super().__init__(f"A {scope} has no {memory_type} memory; only short_term exists for it.")


def is_valid_memory_combination(scope: MemoryScope, memory_type: MemoryType) -> bool:
    """Return whether S0 has this pair. It has all of them except thread + long_term."""
    return (scope, memory_type) in VALID_MEMORY_COMBINATIONS


@dataclass(frozen=True)
class Memory:
    """One text of one memory (S0).

    ``source_message_count`` is the number of its source messages. ``source_latest_message_ts`` is
    the Slack ``ts`` of the newest one, None without messages.
    """

    scope: MemoryScope
    scope_id: str
    memory_type: MemoryType
    content: str
    created_at: datetime
    updated_at: datetime
    source_message_count: int
    source_latest_message_ts: str | None = None

    def __post_init__(self) -> None:
        if not is_valid_memory_combination(self.scope, self.memory_type):
            raise InvalidMemoryCombination(self.scope, self.memory_type)
        if self.scope == MemoryScope.THREAD:
            parse_thread_scope_id(self.scope_id)


def create_memory(
    scope: MemoryScope,
    scope_id: str,
    memory_type: MemoryType,
    content: str,
    source_message_count: int,
    source_latest_message_ts: str | None = None,
    *,
    now: datetime | None = None,
) -> Memory:
    """Return a new memory value (S0). ``now`` is the current time by default, as in S0.

    Raise InvalidMemoryCombination (a ValueError) for thread + long_term, and ValueError for an
    invalid scope id of a thread.
    """
    now = now or datetime.now(UTC)
    return Memory(
        scope=scope,
        scope_id=scope_id,
        memory_type=memory_type,
        content=content,
        created_at=now,
        updated_at=now,
        source_message_count=source_message_count,
        source_latest_message_ts=source_latest_message_ts,
    )


def make_thread_scope_id(channel_id: str, thread_ts: str) -> str:
    """Return the scope id of a thread (S0), such as ``C123:1700000000.123456``.

    Raise ValueError for an invalid channel id or ``ts``.
    """
    if not channel_id or ":" in channel_id or channel_id != channel_id.strip():
        raise ValueError(f"Not a channel id: {channel_id!r}")
    micros(thread_ts)
    return f"{channel_id}:{thread_ts}"


def parse_thread_scope_id(scope_id: str) -> tuple[str, str]:
    """Split the scope id of a thread into channel id and ``ts``.

    Raise ValueError if `make_thread_scope_id` does not accept both. S0 also accepts empty ones.
    """
    channel_id, _, thread_ts = scope_id.partition(":")
    try:
        make_thread_scope_id(channel_id, thread_ts)
    except ValueError as error:
        raise ValueError(f"Not a thread's scope id: {scope_id!r}") from error
    return channel_id, thread_ts
