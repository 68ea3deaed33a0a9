"""Contexts, sources, searches and notes of a key, for the HTTP API and for MCP."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from memories.api import serialize
from memories.api.problems import Problem
from memories.api.schemas import NoteIn, ProposalIn, SearchOut, SourcesOut
from memories.api.slackbot import ReadsAs
from memories.models import (
    ApiKey,
    Line,
    Member,
    Memory,
    MemoryVersion,
    Message,
    Note,
    NotesDisabled,
    Proposal,
    Reader,
    Workspace,
)
from memories.models.access.audience import read_once, whole_workspaces
from memories.models.ingest.names import names_in
from memories.pipeline.context.build import build_context
from memories.pipeline.memory.proposals import shareable_messages
from memories.pipeline.search.finding import Group, find
from memories.rules.context.blocks import Part
from memories.rules.context.contents import DEFAULT_BUDGET, Context, NoSuchChannel, NoThread
from memories.rules.ingest.characters import make_storable
from memories.rules.memory.lines import strip_bullet
from memories.rules.notes.fields import FLAGS, InvalidNote
from memories.rules.search.query import MAX_QUERY_LENGTH, MAX_TERMS, parse

MAX_OPEN_PROPOSALS = 100  # of a key


def get_or_404(rows: QuerySet[Any], **lookup: Any) -> Any:
    """Return one row. Raise Problem 404 with one text for unknown and for unreadable rows."""
    row = rows.filter(**lookup).first()
    if row is None:
        raise Problem(404, "There is no such thing here, or this key may not read it.")
    return row


def context_for(
    key: ReadsAs,
    *,
    channel: str = "",
    thread: str = "",
    query: str = "",
    budget: int = DEFAULT_BUDGET,
    at: datetime | None = None,
    without: list[Part] | None = None,
    now: datetime,
) -> Context:
    """Return the context for the key's reader, as the command and the page build it.

    Raises Problem 404 for an unknown or unreadable channel or thread.
    """
    try:
        return build_context(
            key.workspace,
            read_once(key.reader(now)),
            channel=channel or None,
            thread_ts=thread or None,
            budget=budget,
            question=query,
            without=without or [],
            now=now,
            at=at,
        )
    except (NoSuchChannel, NoThread) as error:
        raise Problem(404, str(error)) from error


def readable_messages(reader: Reader, workspace: Workspace) -> Any:
    rows = Message.objects.visible_to(reader).rememberable()
    return rows.filter(channel__workspace=workspace).select_related("channel", "author")


def sources_for(key: ReadsAs, pk: int, now: datetime) -> tuple[Line, SourcesOut]:
    """Return a line and its sources. Raises Problem 404."""
    reader, workspace = read_once(key.reader(now)), key.workspace
    readable = MemoryVersion.objects.visible_to(reader).filter(memory__workspace=workspace)
    line: Line = get_or_404(Line.objects.filter(version__in=readable), pk=pk)
    messages = list(readable_messages(reader, workspace).filter(lines=line).in_order())
    return line, SourcesOut(
        line=line.pk,
        text=line.text,
        messages=serialize.messages_out(messages, workspace, reader),
        withheld=line.sources.count() - len(messages),
    )


def search_for(key: ReadsAs, q: str, channel: str, limit: int, now: datetime) -> SearchOut:
    """Return the hits that the key's reader may read, grouped by kind, the best of each kind.

    Messages that are no sources are left out, as in contexts: one may hold an order to a model.
    Raises Problem 404 for an unknown channel, and 422 for a query that would be read in part.
    """
    reader = read_once(key.reader(now))
    if len(q) > MAX_QUERY_LENGTH:
        raise Problem(422, f"A search has at most {MAX_QUERY_LENGTH} characters.")
    query = parse(q)
    if query.wrong:
        raise Problem(
            422,
            f"This part of the search could not be read: {', '.join(query.wrong)}. A date is such as"
            f" 2026-11-24, and a search has at most {MAX_TERMS} words.",
        )
    if channel:
        query = replace(query, channel=make_storable(channel).removeprefix("#"))
    rows = key.workspace.channels.visible_to(reader)
    named = list(rows.named(query.channel)) if query.channel else []
    result = find(query, key.workspace, reader, named, only_sources=True)
    if result.unknown:
        raise Problem(404, f"There is no channel {result.unknown!r}.")
    hits = _share(result.groups, limit)
    texts = [row.text for row in hits if isinstance(row, Message)]
    names = names_in(texts, key.workspace, reader)
    return SearchOut(results=[serialize.hit_out(row, query.terms, names) for row in hits])


def _share(groups: Sequence[Group], limit: int) -> list[Any]:
    """Return so many hits in the order of the groups, of each group as many as of another."""
    ranks = [(rank, i) for i, group in enumerate(groups) for rank in range(len(group.rows))]
    return [groups[i].rows[rank] for i, rank in sorted((i, p) for p, i in sorted(ranks)[:limit])]


def propose(key: ApiKey, memory_pk: int, given: ProposalIn, now: datetime) -> Proposal:
    """Add a proposal for a person to decide. Raises Problem 403, 404, 409 or 422."""
    reader = key.reader(now)
    if key.user is not None and key.workspace.role_of(reader) not in Member.READING:
        raise Problem(403, "The account of this key may not propose corrections here.")
    memories = Memory.objects.visible_to(reader).filter(workspace=key.workspace)
    memory: Memory = get_or_404(memories.with_current(), pk=memory_pk)
    readable = MemoryVersion.objects.visible_to(reader).filter(memory=memory)
    current = readable.filter(pk=memory.current_id or 0).first()
    if current is None:
        raise Problem(409, "The memory has no text that this key may correct.")
    if key.proposals.open().count() >= MAX_OPEN_PROPOSALS:
        raise Problem(
            409, f"{MAX_OPEN_PROPOSALS} proposals of this key wait for a decision already."
        )
    line = _find_line(current, readable, given.line) if given.line else None
    messages = shareable_messages(memory, reader).in_bulk(given.sources)
    if len(messages) < len(set(given.sources)):
        raise Problem(422, "A source is no message that all readers of the memory may read.")
    try:
        return Proposal.objects.propose(
            current,
            line,
            given.text,
            reason=given.reason,
            sources=messages.values(),
            author=key.user,
            api_key=key,
        )
    except ValueError as error:
        raise Problem(422, str(error)) from error


def _find_line(current: MemoryVersion, readable: QuerySet[MemoryVersion], pk: int) -> Line:
    """Return the line of the current version with the words of this line of any version."""
    named: Line = get_or_404(Line.objects.filter(version__in=readable, redacted=False), pk=pk)
    words = strip_bullet(named.text)
    lines = current.lines.filter(redacted=False)
    line = next((line for line in lines if strip_bullet(line.text) == words), None)
    if line is None:
        raise Problem(409, "The memory does not have this line any more: read it again.")
    return line


def check_edits(key: ApiKey, now: datetime) -> None:
    """Raise Problem 403 for a key of an account that may not edit. A key without an account writes
    by its scope alone: only the command issues it."""
    if key.user is not None and key.workspace.role_of(key.reader(now)) not in Member.EDITING:
        raise Problem(403, "The account of this key may not write notes here.")


def write_note(key: ApiKey, fields: NoteIn, now: datetime) -> Note:
    """Write a note as the key's account. Raises Problem 403, 404, 409 or 422."""
    check_edits(key, now)
    reader, channel, source = key.reader(now), None, None
    if fields.channel:
        rows = key.workspace.channels.visible_to(reader)
        channel = get_or_404(rows.named(fields.channel).order_by("pk"))
    if fields.source is not None:
        source = get_or_404(readable_messages(reader, key.workspace), pk=fields.source)
        if channel not in (None, source.channel):
            raise Problem(422, "The source is a message of another channel.")
        channel = source.channel
    if channel is None and key.is_narrowed:
        raise Problem(422, "This key is limited to channels: name the note's channel.")
    if channel is None:
        get_or_404(whole_workspaces(reader), pk=key.workspace_id)
    try:
        return Note.objects.write(
            key.workspace,
            fields.content,
            tags=fields.tags,
            kind=fields.type,
            title=fields.title,
            channel=channel,
            author=key.user,
            source=source,
            now=now,
            **fields.model_dump(include={*FLAGS}),
        )
    except NotesDisabled as error:
        raise Problem(409, str(error)) from error
    except InvalidNote as error:
        raise Problem(422, str(error)) from error
