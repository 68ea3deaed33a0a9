"""The operations of `/api/v1/`. Each reads with the access rules of the key's reader."""

import difflib
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import NinjaAPI, Query

from memories.api import changes, notes, proposals, serialize, webhooks
from memories.api.auth import KeyAuth, reader_of
from memories.api.etags import context_state, find_etag_with, not_modified
from memories.api.operations import READ_ERRORS, AsOf, Cursor, Limit, page_of, workspace_of
from memories.api.problems import Problem, add_handlers
from memories.api.queries import (
    context_for,
    get_or_404,
    readable_messages,
    search_for,
    sources_for,
)
from memories.api.schemas import (
    ChannelOut,
    ChannelsOut,
    ContextOut,
    DiffOut,
    Id,
    MemoryOut,
    MessageOut,
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
    EarlierWording,
    Member,
    Memory,
    MemoryVersion,
    Message,
)
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.rules.context.blocks import Part
from memories.rules.context.contents import API_BUDGET, DEFAULT_BUDGET
from memories.rules.health import find_problems
from memories.rules.ingest.timestamps import from_micros, in_utc, to_micros
from memories.rules.search.query import MAX_QUERY_LENGTH
from memories.views.access.access import WorkspaceAccess
from memories.views.sync.coverage import find_coverage, shares_of


class API(NinjaAPI):
    """A `NinjaAPI` whose OpenAPI document declares the media type of problem details."""

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
api.add_router("/notes", notes.router)
api.add_router("/changes", changes.router)
api.add_router("", proposals.router)
api.add_router("/webhooks", webhooks.router)


def _with_zone(at: datetime | None) -> datetime | None:
    """Return the time in UTC, at most now. Raise Problem 422 for one without a zone or in no year."""
    if at is not None and timezone.is_naive(at):
        raise Problem(422, "`at` needs a time zone, such as 2026-11-24T09:00:00Z.")
    try:
        return min(in_utc(at), timezone.now()) if at is not None else None
    except ValueError as error:
        raise Problem(422, f"`at`: {error}") from error


# ---- contexts


@api.get(
    "/context",
    response={200: ContextOut} | READ_ERRORS,
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
    budget: Annotated[int, Query(DEFAULT_BUDGET, ge=1, le=API_BUDGET)],
    at: AsOf,
    without: Annotated[list[Part], Query([])],
    format: Annotated[str, Query("text", pattern="^(text|json)$")],
) -> HttpResponse | ContextOut:
    now, at = timezone.now(), _with_zone(at)
    state = request.context_state = context_state(request, now)  # type: ignore[attr-defined]
    if etag := find_etag_with(request, state):
        return not_modified(etag)
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


@api.get("/channels", response={200: ChannelsOut} | READ_ERRORS, summary="Channels, by id")
def channels(request: HttpRequest, cursor: Cursor, limit: Limit) -> ChannelsOut:
    rows = workspace_of(request).channels.visible_to(reader_of(request)).select_related("sync")
    page, following = page_of(rows, cursor, limit)
    return ChannelsOut(items=_with_memories(request, page), next=following)


@api.get("/channels/{slack_id}", response={200: ChannelOut} | READ_ERRORS, summary="A channel")
def channel(request: HttpRequest, slack_id: Text) -> ChannelOut:
    rows = workspace_of(request).channels.visible_to(reader_of(request))
    return _with_memories(request, [get_or_404(rows, slack_id=slack_id)])[0]


def _with_memories(request: HttpRequest, rows: list[Channel]) -> list[ChannelOut]:
    """Return the channels with their memories by type, and their coverage."""
    access = _access(request)
    rows = access.with_workspace(rows)
    shares = shares_of(access, rows, to_micros(access.now), remembering=())
    memories: dict[int, dict[str, tuple[int, int | None]]] = {}
    readable = Memory.objects.visible_to(reader_of(request))
    own = readable.filter(channel__in=rows, scope="channel")
    columns = ("pk", "channel", "memory_type", "current__number")
    for pk, channel_pk, memory_type, number in own.values_list(*columns):
        memories.setdefault(channel_pk, {})[memory_type] = (pk, number)
    return [
        serialize.channel_out(
            row,
            memories.get(row.pk, {}),
            serialize.coverage_out(shares[row.pk][0], find_coverage(access, row, access.now)),
        )
        for row in rows
    ]


def _access(request: HttpRequest) -> WorkspaceAccess:
    return WorkspaceAccess(workspace_of(request), reader_of(request))


@api.get(
    "/memories/{pk}", response={200: MemoryOut} | READ_ERRORS, summary="A memory, with its lines"
)
def memory(request: HttpRequest, pk: Id, at: AsOf) -> MemoryOut:
    row, moment = _memory(request, pk), _with_zone(at)
    versions = _versions(request, row)
    if moment is None:
        return serialize.memory_out(row, versions.filter(pk=row.current_id or 0).first())
    past = list(versions.current_at(Memory.objects.filter(pk=row.pk), moment))
    EarlierWording.objects.load_into(past, moment)
    return serialize.memory_out(row, past[0] if past else None)


@api.get(
    "/memories/{pk}/versions", response={200: VersionsOut} | READ_ERRORS, summary="Newest first"
)
def versions(request: HttpRequest, pk: Id, cursor: Cursor, limit: Limit) -> VersionsOut:
    rows = _versions(request, _memory(request, pk))
    if cursor is not None:
        rows = rows.filter(number__lt=cursor)
    page = list(rows.order_by("-number")[: limit + 1])
    following = str(page[limit - 1].number) if len(page) > limit else None
    items = _with_successors(request, page[:limit])
    return VersionsOut(items=items, next=following)


@api.get("/memories/{pk}/versions/{number}", response={200: VersionOut} | READ_ERRORS)
def version(request: HttpRequest, pk: Id, number: Id) -> VersionOut:
    row = get_or_404(_versions(request, _memory(request, pk)), number=number)
    return _with_successors(request, [row])[0]


def _with_successors(request: HttpRequest, rows: list[MemoryVersion]) -> list[VersionOut]:
    """Return the versions, whose lines have the lines that supersede them. One query."""
    readable = MemoryVersion.objects.visible_to(reader_of(request))
    successors = serialize.find_successors(rows, readable)
    return [serialize.version_out(row, successors=successors) for row in rows]


@api.get(
    "/memories/{pk}/diff", response={200: DiffOut} | READ_ERRORS, summary="Two versions compared"
)
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
    row: Memory = get_or_404(rows, pk=pk, workspace=workspace_of(request))
    return row


def _versions(request: HttpRequest, memory: Memory) -> MemoryVersionQuerySet:
    rows = MemoryVersion.objects.visible_to(reader_of(request)).filter(memory=memory)
    return rows.prefetch_related("lines__author")


@api.get(
    "/lines/{pk}/sources", response={200: SourcesOut} | READ_ERRORS, summary="What a line rests on"
)
def sources(request: HttpRequest, pk: Id) -> SourcesOut:
    return sources_for(request.auth, pk, timezone.now())[1]  # type: ignore[attr-defined]


@api.get("/messages/{pk}", response={200: MessageOut} | READ_ERRORS, summary="A message")
def message(request: HttpRequest, pk: Id) -> MessageOut:
    reader, workspace = reader_of(request), workspace_of(request)
    row = get_or_404(readable_messages(reader, workspace), pk=pk)
    return serialize.messages_out([row], workspace, reader)[0]


# ---- search


@api.get("/search", response={200: SearchOut} | READ_ERRORS, summary="Notes, memories and messages")
def search(
    request: HttpRequest,
    q: Annotated[Text, Query(..., min_length=1, max_length=MAX_QUERY_LENGTH)],
    channel: Annotated[Text, Query("", alias="in", description="id or name of a channel")],
    limit: Annotated[int, Query(10, ge=1, le=50)],
) -> SearchOut:
    return search_for(request.auth, q, channel, limit, timezone.now())  # type: ignore[attr-defined]


# ---- how the workspace does


@api.get(
    "/status", response={200: StatusOut} | READ_ERRORS, summary="What this key reads, and how fresh"
)
def status(request: HttpRequest) -> StatusOut:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    reader, workspace = reader_of(request), workspace_of(request)
    readable = workspace.channels.visible_to(reader)
    waiting = Message.objects.visible_to(reader).waiting().filter(channel__workspace=workspace)
    newest = Message.objects.visible_to(reader).filter(channel__workspace=workspace)
    micros = newest.aggregate(at=Max("micros"))["at"]
    rows = MemoryVersion.objects.visible_to(reader).filter(memory__workspace=workspace)
    access = _access(request)
    is_member = access.role in Member.READING
    return StatusOut(
        workspace=workspace.slug,
        reads_as=key.user.get_username() if key.user else "public channels",
        scopes=key.scopes,
        channels=readable.count(),
        newest_message_at=from_micros(micros) if micros else None,
        newest_version_at=rows.aggregate(at=Max("created_at"))["at"],
        unremembered_messages=waiting.count(),
        synced_at=workspace.synced_at,
        worker_at=access.health_signals.worker_at if is_member else None,
        problems=[
            serialize.problem_out(problem)
            for problem in find_problems(access.health_signals, access.now)
        ],
    )
