"""The operations of `/api/v1/`. Each begins with the key's reader; the queries are those of pages."""

import difflib
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import NinjaAPI, Query, Status

from memories.api import serialize, webhooks
from memories.api.auth import KeyAuth, needs, reader_of
from memories.api.problems import Problem, ProblemOut, add_handlers
from memories.api.schemas import (
    ChangesOut,
    ChannelOut,
    ChannelsOut,
    ContextOut,
    DiffOut,
    Id,
    MemoryOut,
    MessageOut,
    NoteIn,
    NoteOut,
    NotePatch,
    NotesOut,
    NotesSyncIn,
    NotesSyncOut,
    SearchOut,
    SourcesOut,
    StatusOut,
    Text,
    VersionOut,
    VersionsOut,
)
from memories.models import (
    ApiKey,
    Channel,
    Line,
    Member,
    Memory,
    MemoryVersion,
    Message,
    Note,
    NotesDisabled,
    Reader,
    StaleNote,
    Workspace,
)
from memories.models.ingest.channels import ChannelQuerySet
from memories.pipeline.context.build import build_context
from memories.pipeline.notes.files import NotesFileError, sync_text
from memories.pipeline.search.finding import find
from memories.rules.context.blocks import Part
from memories.rules.context.contents import DEFAULT_BUDGET, Context, NoSuchChannel, NoThread
from memories.rules.ingest.timestamps import from_micros
from memories.rules.notes.fields import InvalidNote
from memories.rules.notes.notes_file import Fate
from memories.rules.search.query import parse

MOST_TOKENS = 20_000
PAGE = 100


class API(NinjaAPI):
    """`NinjaAPI` whose document gives problem details their own media type."""

    def get_openapi_schema(self, **options: Any) -> Any:
        document = super().get_openapi_schema(**options)
        for operations in document["paths"].values():
            for operation in operations.values():
                for status, answer in operation["responses"].items():
                    if int(status) >= 400 and "content" in answer:
                        answer["content"] = {
                            "application/problem+json": answer["content"].pop("application/json")
                        }
        return document


api = API(
    title="Memory Hub",
    version="1",
    description="Memories of a team's Slack, as the key's reader may read them.",
    auth=KeyAuth(),
    urls_namespace="api",
)
add_handlers(api)
api.add_router("/webhooks", webhooks.router)


Cursor = Annotated[int | None, Query(None, ge=0, le=2**63 - 1)]
Limit = Annotated[int, Query(PAGE, ge=1, le=PAGE)]

READS = {400: ProblemOut, 401: ProblemOut, 404: ProblemOut, 422: ProblemOut, 429: ProblemOut}
WRITES = READS | {403: ProblemOut, 409: ProblemOut, 412: ProblemOut, 428: ProblemOut}


def _workspace(request: HttpRequest) -> Workspace:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    return key.workspace


def get_or_404(rows: QuerySet[Any], **lookup: Any) -> Any:
    """Return one row. Raise Problem 404, in the same words for unknown and unreadable ones."""
    row = rows.filter(**lookup).first()
    if row is None:
        raise Problem(404, "There is no such thing here, or this key may not read it.")
    return row


# ---- contexts


def context_for(
    key: ApiKey,
    *,
    channel: str = "",
    thread: str = "",
    query: str = "",
    budget: int = DEFAULT_BUDGET,
    at: datetime | None = None,
    without: list[Part] | None = None,
    now: datetime,
) -> Context:
    """Return the context that the key's reader gets, as the command and the page build it.

    Raises Problem 404 for an unknown or unreadable channel or thread.
    """
    try:
        return build_context(
            key.workspace,
            key.reader(now),
            channel=channel or None,
            thread_ts=thread or None,
            budget=budget,
            question=query,
            without=without or [],
            now=at or now,
        )
    except (NoSuchChannel, NoThread) as error:
        raise Problem(404, str(error)) from error


@api.get(
    "/context",
    response={200: ContextOut} | READS,
    summary="The context for an agent",
    openapi_extra={
        "responses": {
            200: {
                "description": "The text, or with format=json its parts",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            304: {"description": "Unchanged since the ETag in If-None-Match"},
        }
    },
)
def context(
    request: HttpRequest,
    channel: Annotated[Text, Query("", description="id or name")],
    thread: Annotated[
        str, Query("", pattern=r"^([0-9]{1,16}\.[0-9]{6})?$", description="ts, with its channel")
    ],
    query: Annotated[Text, Query("", max_length=2_000, description="a question")],
    budget: Annotated[int, Query(DEFAULT_BUDGET, ge=1, le=MOST_TOKENS)],
    at: Annotated[datetime | None, Query(None, description="conversation up to this moment")],
    without: Annotated[list[Part], Query([])],
    format: Annotated[str, Query("text", pattern="^(text|json)$")],
) -> HttpResponse | ContextOut:
    now = timezone.now()
    if at is not None and timezone.is_naive(at):
        raise Problem(422, "`at` needs a time zone, such as 2026-11-24T09:00:00Z.")
    built = context_for(
        request.auth,  # type: ignore[attr-defined]
        channel=channel,
        thread=thread,
        query=query,
        budget=budget,
        at=at,
        without=without,
        now=now,
    )
    if format == "json":
        return ContextOut(as_of=at or now, **built.as_json())
    text = built.text if built.text.endswith("\n") else f"{built.text}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


# ---- channels and memories


@api.get("/channels", response={200: ChannelsOut} | READS, summary="Channels, by id")
def channels(request: HttpRequest, cursor: Cursor, limit: Limit) -> ChannelsOut:
    rows = readable_channels(reader_of(request), _workspace(request))
    page, following = _page(rows, cursor, limit)
    return ChannelsOut(items=_with_memories(request, page), next=following)


@api.get("/channels/{slack_id}", response={200: ChannelOut} | READS, summary="A channel")
def channel(request: HttpRequest, slack_id: Text) -> ChannelOut:
    rows = readable_channels(reader_of(request), _workspace(request))
    return _with_memories(request, [get_or_404(rows, slack_id=slack_id)])[0]


def _with_memories(request: HttpRequest, rows: list[Channel]) -> list[ChannelOut]:
    """Each channel with the ids of its own memories, by type. One query."""
    memories: dict[int, dict[str, int]] = {}
    readable = Memory.objects.visible_to(reader_of(request))
    own = readable.filter(channel__in=rows, scope="channel")
    for pk, channel_pk, memory_type in own.values_list("pk", "channel", "memory_type"):
        memories.setdefault(channel_pk, {})[memory_type] = pk
    return [serialize.channel_out(row, memories.get(row.pk, {})) for row in rows]


@api.get("/memories/{pk}", response={200: MemoryOut} | READS, summary="A memory, with its lines")
def memory(request: HttpRequest, pk: Id) -> MemoryOut:
    row = _memory(request, pk)
    current = _versions(request, row).filter(pk=row.current_id or 0).first()
    return serialize.memory_out(row, current)


@api.get("/memories/{pk}/versions", response={200: VersionsOut} | READS, summary="Newest first")
def versions(request: HttpRequest, pk: Id, cursor: Cursor, limit: Limit) -> VersionsOut:
    rows = _versions(request, _memory(request, pk))
    if cursor is not None:
        rows = rows.filter(number__lt=cursor)
    page = list(rows.order_by("-number")[: limit + 1])
    following = str(page[limit - 1].number) if len(page) > limit else None
    return VersionsOut(items=[serialize.version_out(row) for row in page[:limit]], next=following)


@api.get("/memories/{pk}/versions/{number}", response={200: VersionOut} | READS)
def version(request: HttpRequest, pk: Id, number: Id) -> VersionOut:
    return serialize.version_out(
        get_or_404(_versions(request, _memory(request, pk)), number=number)
    )


@api.get("/memories/{pk}/diff", response={200: DiffOut} | READS, summary="Two versions compared")
def diff(
    request: HttpRequest,
    pk: Id,
    older: Annotated[int, Query(..., alias="from", ge=1, le=2**31)],
    newer: Annotated[int, Query(..., alias="to", ge=1, le=2**31)],
) -> DiffOut:
    rows = _versions(request, _memory(request, pk))
    old, new = (get_or_404(rows, number=number).content for number in (older, newer))
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"v{older}", f"v{newer}", lineterm=""
    )
    return DiffOut(older=older, newer=newer, diff="\n".join(lines))


def _memory(request: HttpRequest, pk: int) -> Memory:
    rows = Memory.objects.visible_to(reader_of(request)).with_current()
    row: Memory = get_or_404(rows, pk=pk, workspace=_workspace(request))
    return row


def _versions(request: HttpRequest, memory: Memory) -> QuerySet[MemoryVersion]:
    rows = MemoryVersion.objects.visible_to(reader_of(request)).filter(memory=memory)
    return rows.prefetch_related("lines")


@api.get("/lines/{pk}/sources", response={200: SourcesOut} | READS, summary="What a line rests on")
def sources(request: HttpRequest, pk: Id) -> SourcesOut:
    return sources_for(request.auth, pk, timezone.now())[1]  # type: ignore[attr-defined]


def sources_for(key: ApiKey, pk: int, now: datetime) -> tuple[Line, SourcesOut]:
    """Return a line and the messages that it rests on. Raises Problem 404."""
    reader, workspace = key.reader(now), key.workspace
    readable = MemoryVersion.objects.visible_to(reader).filter(memory__workspace=workspace)
    line: Line = get_or_404(Line.objects.filter(version__in=readable), pk=pk)
    messages = list(readable_messages(reader, workspace).filter(lines=line).in_order())
    return line, SourcesOut(
        line=line.pk,
        text=line.text,
        messages=serialize.messages_out(messages, workspace, reader),
        withheld=line.sources.count() - len(messages),
    )


def readable_channels(reader: Reader, workspace: Workspace) -> ChannelQuerySet:
    return Channel.objects.visible_to(reader).filter(workspace=workspace)


def readable_messages(reader: Reader, workspace: Workspace) -> Any:
    rows = Message.objects.visible_to(reader).rememberable()
    return rows.filter(channel__workspace=workspace).select_related("channel", "author")


@api.get("/messages/{pk}", response={200: MessageOut} | READS, summary="A message")
def message(request: HttpRequest, pk: Id) -> MessageOut:
    reader, workspace = reader_of(request), _workspace(request)
    row = get_or_404(readable_messages(reader, workspace), pk=pk)
    return serialize.messages_out([row], workspace, reader)[0]


# ---- search


@api.get("/search", response={200: SearchOut} | READS, summary="Notes, memories and messages")
def search(
    request: HttpRequest,
    q: Annotated[Text, Query(..., min_length=1, max_length=500)],
    channel: Annotated[Text, Query("", alias="in", description="id or name of a channel")],
    limit: Annotated[int, Query(10, ge=1, le=50)],
) -> SearchOut:
    return search_for(request.auth, q, channel, limit, timezone.now())  # type: ignore[attr-defined]


def search_for(key: ApiKey, q: str, channel: str, limit: int, now: datetime) -> SearchOut:
    """Return what the key's reader finds: notes first, then memories, threads and messages."""
    reader = key.reader(now)
    query = parse(f"{q} in:{channel}" if channel else q)
    rows = readable_channels(reader, key.workspace)
    named = list(rows.named(query.channel)) if query.channel else []
    result = find(query, key.workspace, reader, named)
    if result.unknown:
        raise Problem(404, f"There is no channel {result.unknown!r}.")
    hits = [row for group in result.groups for row in group.rows][:limit]
    texts = [row.text for row in hits if isinstance(row, Message)]
    names = serialize.names_in(texts, key.workspace, reader)
    return SearchOut(results=[serialize.hit_out(row, query.terms, names) for row in hits])


# ---- notes


def _notes(request: HttpRequest) -> Any:
    return Note.objects.in_use(_workspace(request)).visible_to(reader_of(request))


@api.get("/notes", response={200: NotesOut} | READS, summary="Notes, oldest first")
def notes(request: HttpRequest, cursor: Cursor, limit: Limit) -> NotesOut:
    page, following = _page(_notes(request), cursor, limit)
    return NotesOut(items=[serialize.note_out(note) for note in page], next=following)


@api.post("/notes/sync", response={200: NotesSyncOut} | WRITES, summary="Sync a notes file")
@needs(ApiKey.Scope.NOTES)
def sync_notes(request: HttpRequest, given: NotesSyncIn) -> NotesSyncOut:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    now = timezone.now()
    _check_edits(key, now)
    try:
        done = sync_text(
            key.workspace, key.reader(now), given.text, given.base, author=key.user, now=now
        )
    except NotesDisabled as error:
        raise Problem(409, str(error)) from error
    except (InvalidNote, NotesFileError) as error:
        raise Problem(422, str(error)) from error
    return NotesSyncOut(
        text=done.text,
        added=done.fates[Fate.ADDED],
        updated=done.fates[Fate.UPDATED],
        deleted=done.deleted,
        conflicts=done.conflicts,
    )


@api.get("/notes/{pk}", response={200: NoteOut} | READS, summary="A note")
def note(request: HttpRequest, pk: Id, response: HttpResponse) -> NoteOut:
    return _answer(get_or_404(_notes(request), pk=pk), response)


@api.post("/notes", response={201: NoteOut} | WRITES, summary="Add a note")
@needs(ApiKey.Scope.NOTES)
def add_note(request: HttpRequest, given: NoteIn, response: HttpResponse) -> Status[NoteOut]:
    written = note_from(request.auth, given, timezone.now())  # type: ignore[attr-defined]
    return Status(201, _answer(written, response))


def note_from(key: ApiKey, given: NoteIn, now: datetime) -> Note:
    """Write a note as the key's account. Raises Problem 403, 404, 409 or 422."""
    _check_edits(key, now)
    place = None
    if given.channel:
        rows = readable_channels(key.reader(now), key.workspace)
        place = get_or_404(rows.named(given.channel).order_by("pk"))
    elif key.is_narrowed:
        raise Problem(422, "This key is limited to channels: name the note's channel.")
    try:
        return Note.objects.write(
            key.workspace,
            given.content,
            tags=given.tags,
            title=given.title,
            channel=place,
            author=key.user,
            now=now,
        )
    except NotesDisabled as error:
        raise Problem(409, str(error)) from error
    except InvalidNote as error:
        raise Problem(422, str(error)) from error


@api.patch("/notes/{pk}", response={200: NoteOut} | WRITES, summary="Change a note (If-Match)")
@needs(ApiKey.Scope.NOTES)
def change_note(request: HttpRequest, pk: Id, given: NotePatch, response: HttpResponse) -> NoteOut:
    row = _matching_note(request, pk)
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    try:
        row.rewrite(
            row.content if given.content is None else given.content,
            tags=row.tags if given.tags is None else given.tags,
            title=given.title,
            by=key.user,
            based_on=row.number,
            revision=row.revision,
        )
    except StaleNote as error:
        raise Problem(412, str(error)) from error
    except InvalidNote as error:
        raise Problem(422, str(error)) from error
    return _answer(get_or_404(_notes(request), pk=pk), response)


@api.delete("/notes/{pk}", response={204: None} | WRITES, summary="Put into the trash (If-Match)")
@needs(ApiKey.Scope.NOTES)
def delete_note(request: HttpRequest, pk: Id) -> Status[None]:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    _matching_note(request, pk).remove(by=key.user)
    return Status(204, None)


def _check_edits(key: ApiKey, now: datetime) -> None:
    """Raise Problem 403 for a key of an account that may not edit. A key without an account writes
    by its scope alone: only the command issues it."""
    if key.user is not None and key.workspace.role_of(key.reader(now)) not in Member.EDITING:
        raise Problem(403, "The account of this key may not write notes here.")


def _matching_note(request: HttpRequest, pk: int) -> Note:
    """Return the note. Raise Problem 403 for an account that may not edit, 428 without If-Match, 412
    when the note has changed since."""
    _check_edits(request.auth, timezone.now())  # type: ignore[attr-defined]
    row: Note = get_or_404(_notes(request), pk=pk)
    etag = request.headers.get("If-Match")
    if not etag:
        raise Problem(428, "Send the note's ETag in If-Match.")
    if etag != serialize.note_etag(row):
        raise Problem(412, "The note has changed since: read it again.")
    return row


def _answer(row: Note, response: HttpResponse) -> NoteOut:
    out = serialize.note_out(row)
    response["ETag"] = out.etag
    return out


# ---- what is new, and how the workspace does


@api.get("/changes", response={200: ChangesOut} | READS, summary="Versions saved since a cursor")
def changes(
    request: HttpRequest,
    since: Annotated[int, Query(0, ge=0, le=2**63 - 1, description="a cursor of an answer before")],
    limit: Limit,
) -> ChangesOut:
    rows = MemoryVersion.objects.visible_to(reader_of(request)).with_text()
    rows = rows.filter(memory__workspace=_workspace(request), pk__gt=since)
    page = list(rows.select_related("memory").order_by("pk")[:limit])
    last = str(page[-1].pk) if page else str(since)
    return ChangesOut(items=[serialize.change_out(row) for row in page], next=last)


@api.get("/status", response={200: StatusOut} | READS, summary="What this key reads, and how fresh")
def status(request: HttpRequest) -> StatusOut:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    reader, workspace = reader_of(request), _workspace(request)
    readable = readable_channels(reader, workspace)
    waiting = Message.objects.visible_to(reader).waiting().filter(channel__workspace=workspace)
    newest = Message.objects.visible_to(reader).filter(channel__workspace=workspace)
    micros = newest.aggregate(at=Max("micros"))["at"]
    rows = MemoryVersion.objects.visible_to(reader).filter(memory__workspace=workspace)
    return StatusOut(
        workspace=workspace.slug,
        reads_as=key.user.get_username() if key.user else "public channels",
        scopes=key.scopes,
        channels=readable.count(),
        newest_message_at=from_micros(micros) if micros else None,
        newest_version_at=rows.aggregate(at=Max("created_at"))["at"],
        unremembered_messages=waiting.count(),
    )


def _page(rows: QuerySet[Any], cursor: int | None, limit: int) -> tuple[list[Any], str | None]:
    """A page in the order of keys, and the cursor of the next one."""
    if cursor is not None:
        rows = rows.filter(pk__gt=cursor)
    page = list(rows.order_by("pk")[: limit + 1])
    return page[:limit], str(page[limit - 1].pk) if len(page) > limit else None
