"""What a memory is (S0): its scope, its type, which pairs exist, and the immutable value."""

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
    """A pair that S0 does not know: a thread has no long-term memory."""

    def __init__(self, scope: str, memory_type: str) -> None:
        super().__init__(f"A {scope} has no {memory_type} memory; only short_term exists for it.")


def is_valid_memory_combination(scope: MemoryScope, memory_type: MemoryType) -> bool:
    """Whether memories of this scope and type exist (S0): all pairs but thread + long_term."""
    return (scope, memory_type) in VALID_MEMORY_COMBINATIONS


@dataclass(frozen=True)
class Memory:
    """One text of one memory (S0). Rows are written from it and contexts are read into it.

    ``source_message_count`` counts the messages it rests on; ``source_latest_message_ts`` is the
    newest of them as Slack text, None without messages.
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
    """A new memory value (S0), created and updated at ``now`` (S0 names no clock: the real one).

    Raises InvalidMemoryCombination (a ValueError) for thread + long_term, and ValueError for a
    thread whose scope id is none.
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
    """``C123`` and ``1700000000.123456`` as ``C123:1700000000.123456`` (S0); strict like parse."""
    if not channel_id or ":" in channel_id or channel_id != channel_id.strip():
        raise ValueError(f"Not a channel id: {channel_id!r}")
    micros(thread_ts)
    return f"{channel_id}:{thread_ts}"


def parse_thread_scope_id(scope_id: str) -> tuple[str, str]:
    """``(channel_id, thread_ts)`` of a thread's scope id.

    Stricter than S0, which lets through empty halves: both must be what make accepts.
    """
    channel_id, _, thread_ts = scope_id.partition(":")
    try:
        make_thread_scope_id(channel_id, thread_ts)
    except ValueError as error:
        raise ValueError(f"Not a thread's scope id: {scope_id!r}") from error
    return channel_id, thread_ts
