"""Inputs and responses of the API. Times are ISO 8601 in UTC."""

from datetime import date, datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import BeforeValidator, Field

Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
NoteText = Annotated[str, Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", max_length=20_000)]
Id = Annotated[int, Field(ge=1, le=2**63 - 1)]


def refuse_numbers(value: Any) -> Any:
    """Refuse a number, which pydantic reads as seconds since 1970. Times and dates are in ISO 8601."""
    if isinstance(value, int | float) or (isinstance(value, str) and "-" not in value[1:]):
        raise ValueError("not a time in ISO 8601")
    return value


Day = Annotated[date | None, BeforeValidator(refuse_numbers)]


class OmissionOut(Schema):
    """A number of lines, notes, messages or channels that a context leaves out, and the reason."""

    what: str
    id: str
    count: int
    reason: str


class ContextOut(Schema):
    """A context as parts, and as one ``text`` of about so many ``tokens``.

    ``versions`` are the ids of the versions of memories in it.
    """

    persona: str
    conversation_history: list[str]
    workspace_long_term_memory: str | None
    workspace_short_term_memory: str | None
    workspace_includes: list[str]
    channel_memories: dict[str, Any]
    thread_memories: dict[str, str]
    target_thread_ts: str | None
    notes: list[dict[str, Any]]
    earlier_messages: list[str]
    tokens: int
    versions: list[int]
    left_out: list[OmissionOut]
    text: str
    as_of: datetime


class CoverageOut(Schema):
    """How much of a channel is in its memories.

    The counts are of messages since the channel's start mark. The messages from ``read_from`` to
    ``read_until`` were read from Slack. ``read_from`` is null if these begin with the first message
    of the channel, and ``read_until`` is null if none was read. ``why`` is the reason if some
    messages are missing, else "". Without a connection to Slack these fields are empty.
    """

    remembered: int
    waiting: int
    skipped: int
    cancelled: int
    read_from: datetime | None = None
    read_until: datetime | None = None
    synced_at: datetime | None = None
    why: str = ""


class ChannelOut(Schema):
    """A channel. ``memories`` has the ids of its memories, ``versions`` their current numbers."""

    id: str
    name: str
    kind: str
    is_archived: bool
    memories: dict[str, int]
    versions: dict[str, int]
    coverage: CoverageOut


class ChannelsOut(Schema):
    items: list[ChannelOut]
    next: str | None


class LineOut(Schema):
    """A line. ``since`` is the time of its newest message.

    ``author`` is the user name of the person who wrote it, also in the workspace's memory.
    ``superseded_by`` is the text of the line of the next version that replaced it.
    """

    id: int
    text: str
    kind: str
    since: datetime | None
    origin: str
    author: str | None
    pinned: bool
    unverified: bool
    superseded_by: str | None = None


class VersionOut(Schema):
    id: int
    number: int
    origin: str
    created_at: datetime
    until: datetime
    text: str
    lines: list[LineOut]


class VersionsOut(Schema):
    items: list[VersionOut]
    next: str | None


class MemoryOut(Schema):
    id: int
    scope: str
    scope_id: str
    type: str
    channel: str | None
    current: VersionOut | None


class DiffOut(Schema):
    """The unified diff of two versions."""

    older: int
    newer: int
    diff: str


class MessageOut(Schema):
    id: int
    channel: str
    ts: str
    thread_ts: str
    author: str
    text: str
    sent_at: datetime
    permalink: str | None


class SourcesOut(Schema):
    """The sources of a line. ``withheld`` counts those that the key may not read."""

    line: int
    text: str
    messages: list[MessageOut]
    withheld: int


class HitOut(Schema):
    """A hit. ``id`` is a kind and a number, such as ``message-12``. The MCP tool `fetch` takes it."""

    id: str
    kind: str
    title: str
    snippet: str
    since: datetime
    url: str


class SearchOut(Schema):
    results: list[HitOut]


class NoteIn(Schema):
    """A new note. ``channel`` is an id or a name, "" for a note of the whole workspace.

    ``type`` is pattern, architecture, solution or one of the workspace's own types. With ``source``,
    the id of a message, the note is for the readers of that message, in its channel.
    """

    content: NoteText
    title: Text = ""
    type: Text = ""
    tags: list[Text] = []
    channel: Text = ""
    source: Id | None = None
    is_pinned: bool = False
    in_context: bool = True
    review_on: Day = None


# A file is blank, or begins with the heading ``# Memories``, or contains a note (``## ``).
NotesFile = Annotated[
    str, Field(pattern=r"^([ \t\r\n]*|# Memories(\r?\n[^\x00]*)?|([^\x00]*\n)?## [^\x00]*)$")
]


class NotesSyncIn(Schema):
    """The text of a file memories.md. ``base`` is its text after the last sync, "" without one."""

    text: NotesFile
    base: NotesFile = ""


class NotesSyncOut(Schema):
    """The result of a sync. ``text`` is the new content of the file."""

    text: str
    added: int
    updated: int
    deleted: int
    conflicts: list[str]


class NotePatch(Schema):
    """Changes of a note. Fields that the request leaves out keep their values.

    A blank ``type`` counts as left out.
    """

    content: NoteText | None = None
    title: Text | None = None
    type: Text = ""
    tags: list[Text] | None = None
    is_pinned: bool = False
    in_context: bool = True
    review_on: Day = None


class NoteOut(Schema):
    id: int
    title: str
    content: str
    type: str
    tags: list[str]
    review_on: date | None
    date: date
    channel: str | None
    version: int
    is_pinned: bool
    in_context: bool
    etag: str


class NotesOut(Schema):
    items: list[NoteOut]
    next: str | None


class ProposalIn(Schema):
    """A correction. ``line`` is the id of a line of the memory; without it the text is a new line.

    ``sources`` are ids of messages that all readers of the memory may read.
    """

    text: Annotated[str, Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", max_length=2_000)]
    line: Id | None = None
    reason: Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=2_000)] = ""
    sources: Annotated[list[Id], Field(max_length=5)] = []


class ProposalOut(Schema):
    """A proposal. ``state`` is open, approved or rejected."""

    id: int
    memory: int
    line: str
    text: str
    reason: str
    state: str
    created_at: datetime
    decided_at: datetime | None
    url: str


class ProposalsOut(Schema):
    items: list[ProposalOut]
    next: str | None


class ChangeOut(Schema):
    """A change. ``kind`` is version, note or proposal, and ``event`` is what happened to it.

    ``memory`` and ``number`` are part of the address of a version. ``scope``, ``scope_id`` and
    ``type`` are those of its memory.
    """

    cursor: str
    kind: str
    event: str
    at: datetime
    memory: int | None = None
    version: int | None = None
    number: int | None = None
    scope: str | None = None
    scope_id: str | None = None
    type: str | None = None
    note: int | None = None
    proposal: int | None = None


class ChangesOut(Schema):
    items: list[ChangeOut]
    next: str


class HealthProblemOut(Schema):
    """A reason why memories are not up to date, and what a person can do about it."""

    problem: str
    detail: str
    remedy: str


class StatusOut(Schema):
    """What a key reads, and how recent it is.

    ``synced_at`` is the end of the last complete read of Slack. ``worker_at`` is when a worker was
    last active; guests and keys without an account do not see it.
    """

    workspace: str
    reads_as: str
    scopes: list[str]
    channels: int
    newest_message_at: datetime | None
    newest_version_at: datetime | None
    unremembered_messages: int
    synced_at: datetime | None
    worker_at: datetime | None
    problems: list[HealthProblemOut]
