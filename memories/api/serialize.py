"""Serialise rows for the API and MCP. All rows were filtered by `visible_to`."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.db.models import F, QuerySet
from django.urls import reverse

from memories.api.schemas import (
    ChannelOut,
    CoverageOut,
    HealthProblemOut,
    HitOut,
    LineOut,
    MemoryOut,
    MessageOut,
    NoteOut,
    ProposalOut,
    VersionOut,
)
from memories.models import (
    Channel,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Proposal,
    Reader,
    Workspace,
)
from memories.models.ingest.names import Names, names_in
from memories.pipeline.sync.coverage import Coverage
from memories.rules.generate.coverage import MessageCounts
from memories.rules.health import HealthProblem
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.markup import render_plain
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.permalinks import permalink
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.lines import strip_bullet
from memories.rules.search.snippet import snippet
from memories.rules.search.tokenizer import Term
from memories.views import paths

# (key of a version, position of a line) → the text of the line that supersedes it
Successors = Mapping[tuple[int, int], str]


def find_successors(
    versions: Collection[MemoryVersion], readable: QuerySet[MemoryVersion]
) -> dict[tuple[int, int], str]:
    """Return the lines of readable versions that supersede lines of these versions. One query."""
    following = readable.order_by().filter(base__in=[version.pk for version in versions])
    lines = Line.objects.filter(
        version__in=following.values("pk"),
        redacted=False,
        version__base__lines__outcome=Line.Outcome.SUPERSEDED,
        version__base__lines__successor=F("position"),
    )
    rows = lines.order_by("version").values_list(
        "version__base", "version__base__lines__position", "text"
    )
    return {(version or 0, position): text for version, position, text in rows}


def line_out(line: Line, superseded_by: str | None) -> LineOut:
    return LineOut(
        id=line.pk,
        text=line.text,
        kind=line.kind,
        since=from_micros(line.at_us) if line.at_us else None,
        origin=line.origin,
        author=line.author.get_username() if line.author else None,
        pinned=line.pinned,
        unverified=line.unverified,
        superseded_by=superseded_by,
    )


def version_out(
    version: MemoryVersion,
    lines: Sequence[Line] | None = None,
    successors: Successors = MappingProxyType({}),
) -> VersionOut:
    """Serialise a version with ``lines``, or with its own if that is None."""
    return VersionOut(
        id=version.pk,
        number=version.number,
        origin=version.origin,
        created_at=version.created_at,
        until=from_micros(version.until_us),
        text=version.content,
        lines=[
            line_out(line, successors.get((version.pk, line.position)))
            for line in (version.lines.all() if lines is None else lines)
        ],
    )


def memory_out(memory: Memory, current: MemoryVersion | None) -> MemoryOut:
    """Serialise a memory. ``current`` is the version to show, None if the reader may read none."""
    return MemoryOut(
        id=memory.pk,
        scope=memory.scope,
        scope_id=memory.scope_id,
        type=memory.memory_type,
        channel=memory.channel.slack_id if memory.channel else None,
        current=version_out(current, getattr(current, "lines_then", None)) if current else None,
    )


PROBLEMS = {
    HealthProblem.STOPPED: (
        "Slack ended the connection.",
        "An admin connects the workspace again, on the page of the connection.",
    ),
    HealthProblem.WORKER: (
        "No worker is active, so no new memories are made.",
        "An operator starts `manage.py worker`.",
    ),
    HealthProblem.MODEL: (
        "Calls to the model are paused.",
        "An admin finds the reason on the page of the jobs, and resumes the calls there.",
    ),
    HealthProblem.SLACK: (
        "Slack was not read for a long time.",
        "An operator checks that the worker is active.",
    ),
    HealthProblem.CHANNELS: (
        "Some channels are not read.",
        "Each of them says why, in its `coverage`.",
    ),
    HealthProblem.JOBS: (
        "Some jobs failed.",
        "An admin retries them on the page of the jobs.",
    ),
}


def problem_out(problem: HealthProblem) -> HealthProblemOut:
    detail, remedy = PROBLEMS[problem]
    return HealthProblemOut(problem=problem, detail=detail, remedy=remedy)


def coverage_out(counts: MessageCounts, reading: Coverage | None) -> CoverageOut:
    """Serialise how many messages of a channel are remembered, and how far Slack was read.

    ``reading`` is None without a connection.
    """
    out = CoverageOut(
        remembered=counts.remembered,
        waiting=counts.waiting,
        skipped=counts.skipped,
        cancelled=counts.cancelled,
    )
    if reading is not None:
        out.read_from, out.read_until = reading.begin, reading.end
        out.synced_at, out.why = reading.synced_at, str(reading.why)
    return out


def channel_out(
    channel: Channel, memories: dict[str, tuple[int, int | None]], coverage: CoverageOut
) -> ChannelOut:
    """``memories`` has the id of each memory and the number of its current version, by type."""
    return ChannelOut(
        id=channel.slack_id,
        name=channel.name,
        kind=channel.kind,
        is_archived=channel.is_archived,
        memories={name: pk for name, (pk, _number) in memories.items()},
        versions={name: number for name, (_pk, number) in memories.items() if number is not None},
        coverage=coverage,
    )


def message_title(message: Message) -> str:
    """Return the names of channel and author as one line, cleaned of what reads like a statement."""
    return f"#{safe_name(message.channel.name)}: {safe_name(message.author_name)}"


def message_out(message: Message, domain: str, names: Names) -> MessageOut:
    link = permalink(domain, message.channel.slack_id, message.ts, message.thread_ts)
    return MessageOut(
        id=message.pk,
        channel=message.channel.slack_id,
        ts=message.ts,
        thread_ts=message.thread_ts,
        author=message.author_name,
        text=render_plain(strip_invisible(message.text), names),
        sent_at=from_micros(message.micros),
        permalink=link or None,
    )


def messages_out(
    messages: Sequence[Message], workspace: Workspace, reader: Reader
) -> list[MessageOut]:
    """Serialise messages with the names that they mention. Two queries."""
    names = names_in((message.text for message in messages), workspace, reader)
    return [message_out(message, workspace.domain, names) for message in messages]


def note_out(note: Note) -> NoteOut:
    return NoteOut(
        id=note.pk,
        title=note.title,
        content=note.content,
        type=note.kind,
        tags=note.tags,
        date=note.date,
        channel=note.channel.slack_id if note.channel else None,
        version=note.number,
        is_pinned=note.is_pinned,
        in_context=note.in_context,
        review_on=note.review_on,
        etag=note_etag(note),
    )


def note_etag(note: Note) -> str:
    flags = f"{note.is_pinned:d}{note.in_context:d}{note.review_on or ''}"
    return f'"{note.pk}-{note.number}-{note.revision}-{flags}"'


def proposal_out(proposal: Proposal) -> ProposalOut:
    return ProposalOut(
        id=proposal.pk,
        memory=proposal.memory_id,
        line=proposal.line_text,
        text=proposal.text,
        reason=proposal.reason,
        state=proposal.state,
        created_at=proposal.created_at,
        decided_at=proposal.decided_at,
        url=paths.full_url(reverse("proposals-detail", args=[proposal.memory_id])),
    )


def hit_out(row: Any, terms: Sequence[Term], names: Names) -> HitOut:
    """Serialise a hit of a search: a message, a version, a note or a line."""
    if isinstance(row, Message):
        path = paths.message_path(row.channel.workspace.slug, row)
        text = render_plain(strip_invisible(row.text), names)
        return _hit("message", row.pk, message_title(row), text, path, terms, row.micros)
    if isinstance(row, Note):
        path = reverse("notes-detail", args=[row.workspace.slug, row.pk])
        return _hit(
            "note", row.pk, row.title, strip_invisible(row.content), path, terms, row.created_at
        )
    if isinstance(row, Line):
        memory = row.version.memory
        path = paths.card_path(memory)
        if row.outcome == Line.Outcome.ARCHIVED:
            path = f"{reverse('archive-index', args=[memory.pk])}?line={row.pk}"
        title = f"{paths.scope_name(memory)}: {paths.type_name(memory)}"
        return _hit(
            "line", row.pk, title, strip_invisible(strip_bullet(row.text)), path, terms, row.at_us
        )
    path = reverse("versions-detail", args=[row.pk])
    memory = row.memory
    title = f"{paths.scope_name(memory)}: {paths.type_name(memory)}, v{row.number}"
    return _hit("version", row.pk, title, strip_invisible(row.content), path, terms, row.created_at)


def _hit(
    kind: str, pk: int, title: str, text: str, path: str, terms: Sequence[Term], at: Any
) -> HitOut:
    words = "".join(piece.text for piece in snippet(text, terms))
    since = from_micros(at) if isinstance(at, int) else at
    return HitOut(
        id=f"{kind}-{pk}",
        kind=kind,
        title=strip_invisible(title),
        snippet=words,
        since=since,
        url=paths.full_url(path),
    )
