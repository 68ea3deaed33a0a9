"""What a version is made from, and why one was not written."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from memories.models.access.users import User
from memories.models.generate.segments import Segment
from memories.rules.memory.identity import Memory as MemoryValue
from memories.rules.memory.identity import MemoryScope, MemoryType, create_memory
from memories.rules.memory.lines import Line, Origin

if TYPE_CHECKING:
    from memories.models.memory.memories import Memory
    from memories.models.memory.versions import MemoryVersion


class StaleBase(Exception):
    """Somebody, or a job, saved a version since the one this change was based on."""

    def __init__(self, current: "MemoryVersion | None") -> None:
        super().__init__("The memory has a newer version.")
        self.current = current


class Unchanged(Exception):
    """The text is the one that is there already."""


class ChangedSince(Exception):
    """What is to be taken back is not there any more as it was left."""


@dataclass(frozen=True)
class NewVersion:
    """A version to be written. ``until_us`` is the end of what it covers."""

    lines: Sequence[Line]
    origin: Origin
    content: str = ""  # a person's text word for word; else made from the lines
    until_us: int = 0
    source_message_count: int = 0
    source_latest_message_ts: str | None = None
    author: User | None = None
    base: "MemoryVersion | None" = None
    restored_from: "MemoryVersion | None" = None
    segment: Segment | None = None
    job: Any = None
    provisional: bool = False
    trigger: dict[str, Any] = field(default_factory=dict)
    put_back: Sequence[str] = ()
    kept: Sequence[str] = ()
    dropped: Sequence[str] = ()
    audience: str = "scope"

    @property
    def text(self) -> str:
        return self.content or "\n".join(line.text for line in self.lines)


def value_of(draft: NewVersion, memory: "Memory") -> MemoryValue:
    """The draft as S0's value, which refuses pairs that do not exist."""
    return create_memory(
        MemoryScope(memory.scope),
        memory.scope_id,
        MemoryType(memory.memory_type),
        draft.text,
        draft.source_message_count,
        draft.source_latest_message_ts or None,
        now=timezone.now(),
    )


def columns_of(draft: NewVersion, value: MemoryValue) -> dict[str, Any]:
    """What a new version and one that is rewritten in place store alike."""
    return {
        "content": value.content,
        "source_message_count": value.source_message_count,
        "source_latest_message_ts": value.source_latest_message_ts or "",
        "updated_at": value.updated_at,
        "job": draft.job,
        "segment": draft.segment,
        "provisional": draft.provisional,
        "until_us": draft.until_us,
        "trigger": draft.trigger,
        "put_back": list(draft.put_back),
        "kept": list(draft.kept),
        "dropped": list(draft.dropped),
        "audience": draft.audience,
    }
