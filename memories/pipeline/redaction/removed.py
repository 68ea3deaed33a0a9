"""Removed messages, and the result of their redaction."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from memories.models import Message


@dataclass(frozen=True)
class RemovedMessage:
    """A message with the text to remove. After an edit ``new_text`` is the text that replaced it.

    Lines that have a deleted or revoked message as a source are removed whole. An edit removes
    quotations only.
    """

    pk: int
    channel: int
    ts: str
    thread_ts: str
    text: str
    segments: tuple[int, ...]
    new_text: str = ""
    is_edit: bool = False

    @classmethod
    def of(cls, row: Message) -> Self:
        """Return the value of a stored message before it is purged or revoked."""
        segments = tuple(pk for pk in (row.segment_id, row.thread_segment_id) if pk)
        return cls(row.pk, row.channel_id, row.ts, row.thread_ts, row.text, segments)

    @classmethod
    def edited(cls, row: Message, old_text: str) -> Self:
        """Return the value of a stored message that has its new text already."""
        return replace(cls.of(row), text=old_text, new_text=row.text, is_edit=True)


@dataclass
class RedactionResult:
    """The number of changed rows of each kind, and the keys of the changed memories."""

    messages: int = 0
    versions: int = 0
    lines: int = 0
    jobs: int = 0
    quarantined: int = 0
    notes: int = 0
    events: int = 0
    memories: set[int] = field(default_factory=set)

    def add(self, result: "RedactionResult") -> None:
        for name, value in vars(result).items():
            if isinstance(value, set):
                self.memories |= value
            else:
                setattr(self, name, getattr(self, name) + value)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "memories": sorted(self.memories)}
