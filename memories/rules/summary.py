"""What a summariser is asked and what it answers (S3), as plain values.

A summariser reads a `Request`, answers with a `Reply` whose text is a bullet list with
references, and `reply.read_reply` turns that text into lines with sources or says why not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
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
    """Background of the wider scopes (S3's table): helps to understand, is not to be summarised.

    ``same_memory``: an earlier text of the very memory that is asked for, so no other scope's.
    """

    title: str  # "workspace memory", "memory of #general", "previous memory"
    text: str
    same_memory: bool = False


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
    left_out: tuple[int, ...] = ()  # refs that nobody read, for each of them is refused

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"left_out": list(self.left_out)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Reply":
        return cls(**{**data, "left_out": tuple(data.get("left_out", ()))})


class Way(StrEnum):
    """How a request is asked: each way is tried after the one before it failed."""

    WHOLE = "whole"  # in one call, or in parts when it is known to be too long for one
    SPLIT = "split"  # in halves at least: it was too long, or its answer was cut off
    ISOLATE = "isolate"  # halves of what is refused, down to the message, which is left out


@dataclass(frozen=True)
class Bound:
    """The most that a request can use: tokens of all its charged calls, by our own estimate."""

    prompt_tokens: int
    completion_tokens: int
    calls: int

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Usage:
    """What was used, as far as it is known."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.calls + other.calls,
        )


class SummariserError(Exception):
    """A call that gave no reply. ``code`` names the fault (`rules.faults` says what follows from
    it), ``retry_after`` (seconds) is what the endpoint asked for.

    ``spent`` is what earlier calls for the same request used; ``unknown``: the last one may have
    been charged without our knowing.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after: float | None = None,
        spent: Usage | None = None,
        unknown: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.spent = spent or Usage()
        self.unknown = unknown


class Summariser(Protocol):
    """Two exist: the model behind an OpenAI-compatible endpoint, and the offline extract."""

    name: str  # OFFLINE, or the model's name
    endpoint: str  # a digest of address, model and key; "" when nothing is called
    endpoint_name: str  # for people: host and model

    def prompt_version(self, request: Request) -> str:
        """What the reply will carry, known beforehand: it is part of the input key."""
        ...

    def bound(self, request: Request, way: Way = Way.WHOLE) -> Bound:
        """The most that `summarise` can use in this way, by our estimate of tokens."""
        ...

    def summarise(self, request: Request, way: Way = Way.WHOLE) -> Reply:
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
