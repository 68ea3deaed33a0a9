"""What a summariser is asked and what it answers (S3), as plain values.

A summariser reads a `Request`, answers with a `Reply` whose text is a bullet list with
references, and `reply.parse_reply` turns that text into lines with sources or says why not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol
from zoneinfo import ZoneInfo

from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.identity import MemoryScope, MemoryType

Language = Literal["ja", "en", "conversation"]

NOTHING = "NOTHING"  # the one word for "nothing here is worth keeping" (rule 8)
OFFLINE = "offline"  # the name of the summariser that needs no model
MAX_SOURCES = 5  # a line cites at most so many messages
MAX_WORKSPACE_LINES = 8  # at most, of what is going on in a workspace (rule 6)


class PromptForm(StrEnum):
    """How a model is asked. The probe of its endpoint picks one; a bad answer is asked in the other.

    ``FULL`` asks for kinds and references and has merges write the whole memory anew. ``SIMPLE`` asks
    for sentences only: code finds kinds and sources, and a long-term memory is only added to.
    """

    FULL = "full"
    SIMPLE = "simple"

    @property
    def other(self) -> "PromptForm":
        return PromptForm.SIMPLE if self is PromptForm.FULL else PromptForm.FULL


class Kind(StrEnum):
    """What a line of a memory is (DESIGN section 3)."""

    DECISION = "decision"
    TASK = "task"  # who does what, by when
    QUESTION = "question"  # still open
    STATUS = "status"  # how things stand
    EVENT = "event"  # what happened


@dataclass(frozen=True)
class MessageLine:
    """A message as the summariser may cite it: ``ref`` counts from 1 within the request.

    ``at`` is in the workspace's zone; ``text`` is readable text (markup resolved, no newlines
    escaped yet). ``thread`` is the root's ts for a reply, "" for a top-level message.
    ``mentions`` are the names in the text, with their ``@`` or ``#``.
    """

    ref: int
    at: datetime
    author: str
    text: str
    thread: str = ""
    mentions: tuple[str, ...] = ()
    is_bot: bool = False


@dataclass(frozen=True)
class MemoryLine:
    """A line of an earlier memory that may be carried on; ``ref`` shares the messages' count.

    ``by_person``: a person wrote or pinned it, so a merge keeps it word for word. ``at_us`` is the
    time of its newest message, in microseconds.
    """

    ref: int
    text: str
    by_person: bool = False
    kind: Kind | None = None
    at_us: int = 0


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
    operations: bool = False  # a merge is asked for changes; else it writes the whole text (S1)
    form: PromptForm = PromptForm.FULL
    thinking_tokens: int = 0  # room for what a reasoning model thinks before it answers
    input_limit: int | None = None  # of a model that reads less than others (rule 11)

    @property
    def memory_lines(self) -> "list[MemoryLine]":
        """The lines of memories: those there are, then those that are merged in."""
        return [*self.existing, *(line for added in self.additions for line in added.lines)]

    def local_time(self, at_us: int) -> datetime | None:
        """A moment in microseconds in the workspace's zone; None for 0, which is not known."""
        return from_micros(at_us).astimezone(ZoneInfo(self.zone)) if at_us else None

    @property
    def completion_limit(self) -> int:
        """Tokens that a call for this request may answer with, thoughts included."""
        return self.max_tokens + self.thinking_tokens

    @property
    def most_lines(self) -> int | None:
        """Lines that the answer may have at most; None: as many as its tokens allow."""
        is_short = self.memory_type is MemoryType.SHORT_TERM
        is_workspace = self.scope is MemoryScope.WORKSPACE
        return MAX_WORKSPACE_LINES if is_short and is_workspace else None

    @property
    def uses_operations(self) -> bool:
        """Whether the answer holds changes to the existing lines, which else stay as they are."""
        is_merge = self.memory_type is MemoryType.LONG_TERM and bool(self.existing)
        return is_merge and self.form is PromptForm.FULL and self.operations

    @property
    def only_adds(self) -> bool:
        """Whether the answer holds new lines only, and the existing ones stay as they are."""
        return (
            self.form is PromptForm.SIMPLE
            and self.memory_type is MemoryType.LONG_TERM
            and bool(self.existing)
        )

    @property
    def begins_text(self) -> bool:
        """Whether the answer is the first text of a memory that operations change from then on."""
        is_merge = self.memory_type is MemoryType.LONG_TERM and not self.existing
        return is_merge and self.operations

    @property
    def is_empty(self) -> bool:
        """Nothing to summarise: no call is made (S3)."""
        return not any(m.text.strip() for m in self.messages) and not any(
            a.lines for a in self.additions
        )


@dataclass(frozen=True)
class Reply:
    """What came back, as it is kept on the job before anything is made of it.

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
    form: str = PromptForm.FULL  # in which it was asked
    thinking_tokens: int = 0  # the room it was given
    # The offline summariser's: pairs of a ref and the ref of the line that replaces it.
    superseded: tuple[tuple[int, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        pairs = [list(pair) for pair in self.superseded]
        return asdict(self) | {"left_out": list(self.left_out), "superseded": pairs}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Reply":
        pairs = tuple((old, new) for old, new in data.get("superseded", ()))
        left_out = tuple(data.get("left_out", ()))
        return cls(**{**data, "left_out": left_out, "superseded": pairs})


class RequestStrategy(StrEnum):
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
    """A call that gave no reply. ``code`` names the fault (`rules.generate.faults` says what follows from
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
    """Two exist: the model behind an OpenAI-compatible endpoint, and the offline highlights."""

    name: str  # OFFLINE, or the model's name
    endpoint: str  # a digest of address, model and key; "" when nothing is called
    endpoint_name: str  # for people: host and model

    def prompt_version(self, request: Request) -> str:
        """What the reply will carry, known beforehand: it is part of the input key."""
        ...

    def bound(self, request: Request, way: RequestStrategy = RequestStrategy.WHOLE) -> Bound:
        """The most that `summarise` can use in this way, by our estimate of tokens."""
        ...

    def summarise(self, request: Request, way: RequestStrategy = RequestStrategy.WHOLE) -> Reply:
        """One reply, from as many calls as a long input needs; raises SummariserError."""
        ...


@dataclass(frozen=True)
class ReplyLine:
    """A line of a reply and the refs it rests on, at most five; () when nothing says it.

    ``is_quote``: it only copies a message. ``unverified`` are its numbers, dates and links that no
    source holds.
    """

    text: str
    refs: tuple[int, ...] = ()
    kind: Kind | None = None
    is_quote: bool = False
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParsedReply:
    """What a reply is worth: ``lines``, or nothing worth keeping, or ``fault`` says why not.

    Of a merge by operations ``lines`` are the whole text. ``superseded`` maps the number of a line to
    the text in its place; ``settled`` are numbers of removed lines; ``archived`` are lines that had no
    room; ``dropped`` are texts of operations that were not carried out, each with the reason.
    """

    lines: Sequence[ReplyLine] = field(default=())
    nothing: bool = False
    fault: str = ""
    superseded: Mapping[int, str] = field(default_factory=dict)
    settled: tuple[int, ...] = ()
    archived: tuple[ReplyLine, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    is_of_operations: bool = False

    @property
    def is_copied(self) -> bool:
        """Whether more than half of its lines only copy messages."""
        return len(self.lines) > 1 and 2 * sum(line.is_quote for line in self.lines) > len(
            self.lines
        )
