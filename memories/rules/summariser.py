"""The interface of a summariser as plain values (S3): request, reply, usage and error.

A summariser reads a `Request` and returns a `Reply`, whose text is a bullet list with refs.
`reply.parse_reply` turns that text into a `ParsedReply`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol
from zoneinfo import ZoneInfo

from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.kinds import Kind

Language = Literal["ja", "en", "conversation"]

NOTHING = "NOTHING"  # the reply that nothing is worth keeping (rule 8)
OFFLINE = "offline"  # the name of the summariser that needs no model
MAX_MODEL_NAME = 100  # characters of a model's name, as in the columns
MAX_SOURCES = 5  # of one line
MAX_WORKSPACE_LINES = 8  # of a workspace's short-term memory (rule 6)
_SIMPLE_ROOM = 2  # times the token limit: a small model writes more than requested


class PromptForm(StrEnum):
    """The two forms of a prompt. The probe of the endpoint chooses one; a bad reply changes it.

    ``FULL`` requests kinds and refs. ``SIMPLE`` requests sentences only: code adds kinds and sources, and
    a long-term memory only gets additions.
    """

    FULL = "full"
    SIMPLE = "simple"

    @property
    def opposite(self) -> "PromptForm":
        return PromptForm.SIMPLE if self is PromptForm.FULL else PromptForm.FULL


@dataclass(frozen=True)
class MessageLine:
    """A message in a request. ``ref`` counts from 1 within the request.

    ``at`` is in the workspace's zone. ``text`` is plain text without Slack's markup. ``thread`` is the ts
    of a reply's parent, "" for a top-level message. ``mentions`` are names in the text, with ``@`` or ``#``.
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
    """A line of an earlier memory in a request. ``ref`` shares the count of the messages.

    ``by_person``: a person wrote or pinned it, so a merge keeps it word for word. ``at_us`` is the time of
    its newest message in microseconds, 0 when unknown. ``unverified``: its sources lack one of its facts.
    """

    ref: int
    text: str
    by_person: bool = False
    kind: Kind | None = None
    at_us: int = 0
    unverified: bool = False


@dataclass(frozen=True)
class Addition:
    """A memory to merge: a short-term version, or a channel's memory. Oldest line first."""

    title: str  # its period in words, or "#channel"
    lines: Sequence[MemoryLine]


@dataclass(frozen=True)
class Reference:
    """Background from a wider scope (S3's table), which the reply does not summarise.

    ``same_memory``: an earlier text of the requested memory itself.
    """

    title: str  # "workspace memory", "memory of #general", "previous memory"
    text: str
    same_memory: bool = False


@dataclass(frozen=True)
class Request:
    """A request for one memory from ``messages`` (segments, threads) or ``additions`` (merges)."""

    scope: MemoryScope
    memory_type: MemoryType
    max_tokens: int
    language: Language
    zone: str
    scope_name: str  # "#general", or the workspace's name
    messages: Sequence[MessageLine] = ()
    existing: Sequence[MemoryLine] = ()  # the current text, oldest line first
    additions: Sequence[Addition] = ()
    references: Sequence[Reference] = ()
    operations: bool = False  # a merge writes operations instead of the whole text (S1)
    form: PromptForm = PromptForm.FULL
    thinking_tokens: int = 0  # allowance for a reasoning model, beside ``max_tokens``
    input_limit: int | None = None  # prompt tokens, for a model with a short context (rule 11)

    @property
    def memory_lines(self) -> list[MemoryLine]:
        """The existing lines, then the added ones."""
        return [*self.existing, *(line for added in self.additions for line in added.lines)]

    @property
    def source_texts(self) -> list[str]:
        """The texts to summarise, without references."""
        texts = [message.text for message in self.messages]
        return texts + [line.text for line in self.memory_lines]

    def local_time(self, at_us: int) -> datetime | None:
        """Return a time in the workspace's zone, or None for 0."""
        return from_micros(at_us).astimezone(ZoneInfo(self.zone)) if at_us else None

    @property
    def completion_limit(self) -> int:
        room = _SIMPLE_ROOM if self.form is PromptForm.SIMPLE else 1
        return room * self.max_tokens + self.thinking_tokens

    @property
    def max_lines(self) -> int | None:
        """The most lines of the reply. None: only the tokens limit it."""
        is_short = self.memory_type is MemoryType.SHORT_TERM
        return MAX_WORKSPACE_LINES if is_short and self.scope is MemoryScope.WORKSPACE else None

    @property
    def _extends_memory(self) -> bool:
        return self.memory_type is MemoryType.LONG_TERM and bool(self.existing)

    @property
    def uses_operations(self) -> bool:
        """Whether the reply holds operations. Existing lines without one stay."""
        return self._extends_memory and self.form is PromptForm.FULL and self.operations

    @property
    def only_adds(self) -> bool:
        """Whether the reply holds new lines only. All existing lines stay."""
        return self._extends_memory and self.form is PromptForm.SIMPLE

    @property
    def changes_text(self) -> bool:
        """Whether the reply only changes the existing text, in either form."""
        return self.uses_operations or self.only_adds

    @property
    def begins_text(self) -> bool:
        """Whether the reply is the first text of a memory that later merges change by operations."""
        is_first = self.memory_type is MemoryType.LONG_TERM and not self.existing
        return is_first and self.operations

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to summarise. Then no call is made (S3)."""
        return not any(message.text.strip() for message in self.messages) and not any(
            addition.lines for addition in self.additions
        )


@dataclass(frozen=True)
class Usage:
    """The tokens and charged calls of a request: counted, or the most that it can use."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.calls + other.calls,
        )


@dataclass(frozen=True)
class Reply:
    """A reply as a job stores it. The field names are its JSON keys."""

    text: str
    finish_reason: str  # as the endpoint gives it; only "stop" is good
    model: str
    prompt_version: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    seconds: float = 0.0
    left_out: tuple[int, ...] = ()  # refs of messages that the model refused one by one
    form: str = PromptForm.FULL
    thinking_tokens: int = 0
    # Pairs of a ref and the ref of the line that replaces it, from the offline summariser.
    superseded: tuple[tuple[int, int], ...] = ()

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt_tokens, self.completion_tokens, self.calls)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Reply":
        pairs = tuple((old, new) for old, new in data.get("superseded", ()))
        left_out = tuple(data.get("left_out", ()))
        return cls(**{**data, "left_out": left_out, "superseded": pairs})


class RequestStrategy(StrEnum):
    """How a request is sent. Each strategy follows when the one before it failed."""

    WHOLE = "whole"  # in one call, or in parts when the prompt exceeds the limit
    SPLIT = "split"  # in two parts or more: the prompt or the reply was too long
    ISOLATE = "isolate"  # in ever smaller parts: the model refuses a message, which is left out


class SummariserError(Exception):
    """A call without a reply. ``code`` is a key of `faults.POLICIES`.

    ``retry_after`` is the endpoint's own delay in seconds. ``spent`` is the usage of all calls for the
    request, as far as it is certain. ``may_be_charged``: the failed call may cost something more.
    ``is_partly_paid``: the endpoint answered earlier calls for the request.
    """

    is_partly_paid = False

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after: float | None = None,
        spent: Usage | None = None,
        may_be_charged: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.spent = spent or Usage()
        self.may_be_charged = may_be_charged


class Summariser(Protocol):
    """`llm.ModelSummariser` and `llm.OfflineSummariser` implement this."""

    name: str  # OFFLINE, or the model's name
    endpoint: str  # an HMAC of address, model and key; "" when nothing is called
    endpoint_name: str  # host and model, for pages

    def prompt_version(self, request: Request) -> str:
        """Return the prompt version of the reply. It is part of the input key."""
        ...

    def upper_bound(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Usage:
        """Return the most that `summarise` can use, by our estimate of tokens."""
        ...

    def summarise(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Reply:
        """Return one reply, from as many calls as the input needs; raise SummariserError."""
        ...


@dataclass(frozen=True)
class ReplyLine:
    """A line of a reply with its refs, at most MAX_SOURCES.

    ``is_quote``: it only copies a message. ``unverified`` are its numbers, dates, links and names that no
    source contains, and a speaker who did not write its best source. It is the whole text if all sources
    are unverified lines, or if only the line or only its sources are questions.
    """

    text: str
    refs: tuple[int, ...] = ()
    kind: Kind | None = None
    is_quote: bool = False
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParsedReply:
    """The result of a reply: ``lines``, or ``is_nothing``, or a ``fault``.

    After operations, ``lines`` are the whole text. ``superseded`` maps the ref of a line to the text that
    replaces it. ``settled`` are refs of removed lines. ``archived`` are lines above the token limit.
    ``dropped`` are rejected operations, each with the reason.
    """

    lines: Sequence[ReplyLine] = field(default=())
    is_nothing: bool = False
    fault: str = ""
    superseded: Mapping[int, str] = field(default_factory=dict)
    settled: tuple[int, ...] = ()
    archived: tuple[ReplyLine, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    uses_operations: bool = False

    @property
    def is_copied(self) -> bool:
        """Whether more than half of two or more lines only copy messages."""
        quotes = sum(line.is_quote for line in self.lines)
        return len(self.lines) > 1 and 2 * quotes > len(self.lines)
