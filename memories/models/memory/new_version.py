"""The value that a version is made from, and the errors of writing one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from memories.models.access.users import User
from memories.models.generate.segments import Segment
from memories.rules.memory.identity import MemoryScope, MemoryType, create_memory
from memories.rules.memory.lines import Line, Origin

if TYPE_CHECKING:
    from memories.models.memory.memories import Memory
    from memories.models.memory.versions import MemoryVersion


def number_and_revision(version: "MemoryVersion | None") -> tuple[int, int]:
    """Return the number and the revision of a memory's current version, (0, 0) without one."""
    return (version.number, version.revision) if version else (0, 0)


class StaleBase(Exception):
    """Another version was saved after the base of this change."""

    def __init__(self, current: "MemoryVersion | None") -> None:
        super().__init__("The memory has a newer version.")
        self.current = current


class Unchanged(Exception):
    """The new text equals the current one."""


class ChangedSince(Exception):
    """The lines of a change to undo, or of a proposal to edit, are different now."""


@dataclass(frozen=True)
class NewVersion:
    """A version to write. ``until_us`` is the end of its period."""

    lines: Sequence[Line]
    origin: Origin
    content: str = ""  # the exact text of a person; by default the lines
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

    def columns(self, memory: "Memory") -> dict[str, Any]:
        """Return the columns that a new version and a rewritten one have in common.

        Raise InvalidMemoryCombination as S0 does.
        """
        value = create_memory(
            MemoryScope(memory.scope),
            memory.scope_id,
            MemoryType(memory.memory_type),
            self.text,
            self.source_message_count,
            self.source_latest_message_ts or None,
            now=timezone.now(),
        )
        return {
            "content": value.content,
            "source_message_count": value.source_message_count,
            "source_latest_message_ts": value.source_latest_message_ts or "",
            "updated_at": value.updated_at,
            "job": self.job,
            "segment": self.segment,
            "provisional": self.provisional,
            "until_us": self.until_us,
            "trigger": self.trigger,
            "put_back": list(self.put_back),
            "kept": list(self.kept),
            "dropped": list(self.dropped),
            "audience": self.audience,
        }
