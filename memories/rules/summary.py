"""What a summariser is asked and what it answers (S3), as plain values.

A summariser reads a `Request`, answers with a `Reply` whose text is a bullet list with
references, and `reply.read_reply` turns that text into lines with sources or says why not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from memories.rules.memory import MemoryScope, MemoryType

Language = Literal["ja", "en", "conversation"]

NOTHING = "NOTHING"  # the one word for "nothing here is worth keeping" (rule 8)
OFFLINE = "offline"  # the name of the summariser that needs no model
MOST_SOURCES = 5  # a line cites at most so many messages


@dataclass(frozen=True)
class MessageLine:
    """A message as the summariser may cite it: ``ref`` counts from 1 within the request.

    ``at`` is in the workspace's zone; ``text`` is readable text (markup resolved, no newlines
    escaped yet). ``thread`` is the root's ts for a reply, "" for a top-level message.
    """

    ref: int
    at: datetime
    author: str
    text: str
    thread: str = ""


@dataclass(frozen=True)
class MemoryLine:
    """A line of an earlier memory that may be carried on; ``ref`` shares the messages' count.

    ``by_person``: a person wrote or pinned it, so a merge keeps it word for word.
    """

    ref: int
    text: str
    by_person: bool = False


@dataclass(frozen=True)
class Addition:
    """A memory to be merged in: a short-term version, or a channel's memory. Oldest first."""

    title: str  # its period in words, or "#channel"
    lines: Sequence[MemoryLine]


@dataclass(frozen=True)
class Reference:
    """Background of the wider scopes (S3's table): helps to understand, is not to be summarised."""

    title: str  # "workspace memory", "memory of #general", "previous memory"
    text: str


@dataclass(frozen=True)
class Request:
    """One wanted memory. Either ``messages`` (segments, threads) or ``additions`` (merges)."""

    scope: MemoryScope
    memory_type: MemoryType
    max_tokens: int
    language: Language
    zone: str
    place: str  # "#general", or the workspace's name
    messages: Sequence[MessageLine] = ()
    existing: Sequence[MemoryLine] = ()  # the text this one grows from, oldest first
    additions: Sequence[Addition] = ()
    references: Sequence[Reference] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing to summarise: no call is made (S3)."""
        return not any(m.text.strip() for m in self.messages) and not any(
            a.lines for a in self.additions
        )


@dataclass(frozen=True)
class Reply:
    """What came back, as it is kept on the generation before anything is made of it.

    ``finish_reason`` is the endpoint's own word ("stop" is the only good one).
    """

    text: str
    finish_reason: str
    model: str
    prompt_version: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Reply":
        return cls(**data)


class SummariserError(Exception):
    """A call that gave no reply. ``code`` names the fault, ``permanent`` says that the same call
    will fail again, ``retry_after`` (seconds) is what the endpoint asked for."""

    def __init__(
        self, code: str, message: str, *, permanent: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.permanent = permanent
        self.retry_after = retry_after


class Summariser(Protocol):
    """Two exist: the model behind an OpenAI-compatible endpoint, and the offline extract."""

    name: str  # OFFLINE, or the model's name

    def prompt_version(self, request: Request) -> str:
        """What the reply will carry, known beforehand: it is part of the input key."""
        ...

    def summarise(self, request: Request) -> Reply:
        """One reply, from as many calls as a long input needs; raises SummariserError."""
        ...


@dataclass(frozen=True)
class ReadLine:
    """A line of a reply and the refs it cites: at most five, unknown ones dropped, () = unmarked."""

    text: str
    refs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What a reply is worth: ``lines``, or nothing worth keeping, or ``fault`` says why not."""

    lines: Sequence[ReadLine] = field(default=())
    nothing: bool = False
    fault: str = ""
