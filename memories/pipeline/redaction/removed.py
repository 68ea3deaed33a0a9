"""What is gone, and what was touched because of it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from memories.models import Message


@dataclass(frozen=True)
class RemovedMessage:
    """A message with the text that is gone. ``instead``: what an edit put in its place.

    ``cited``: lines that cite it go as well, which an edit does not ask for.
    """

    pk: int
    channel: int
    ts: str
    thread_ts: str
    text: str
    segments: tuple[int, ...]
    instead: str = ""
    cited: bool = True

    @classmethod
    def of(cls, row: Message) -> "RemovedMessage":
        """A stored message as it is now, before it is purged or revoked."""
        segments = tuple(pk for pk in (row.segment_id, row.thread_segment_id) if pk)
        return cls(row.pk, row.channel_id, row.ts, row.thread_ts, row.text, segments)

    @classmethod
    def edited(cls, row: Message, was: str) -> "RemovedMessage":
        """A stored message that has its new text already."""
        segments = tuple(pk for pk in (row.segment_id, row.thread_segment_id) if pk)
        place = (row.pk, row.channel_id, row.ts, row.thread_ts)
        return cls(*place, was, segments, instead=row.text, cited=False)


@dataclass
class RedactionResult:
    """How many of what were changed, and which memories."""

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
