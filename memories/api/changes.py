"""`/api/v1/changes`: what changed since a cursor, of all that the reader of a key may read now."""

from datetime import datetime
from typing import Annotated, Any

from django.db.models import Model, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from memories.api.auth import reader_of
from memories.api.operations import READ_ERRORS, Limit, workspace_of
from memories.api.schemas import ChangeOut, ChangesOut
from memories.models import MemoryVersion, Note, Proposal
from memories.models.access.audience import notes_with_trash
from memories.pipeline.access.webhooks import SETTLED_AFTER
from memories.rules.ingest.timestamps import from_micros, to_micros

router = Router()

Since = Annotated[
    str,
    Query("", pattern=r"^([0-9]{1,16}-[a-z]{1,8}-[0-9]{1,18})?$", description="a `next` or cursor"),
]
Position = tuple[datetime, str, int]  # time, kind of row, primary key: the order of the feed


@router.get("", response={200: ChangesOut} | READ_ERRORS, summary="What changed since a cursor")
def changes(request: HttpRequest, since: Since, limit: Limit) -> ChangesOut:
    """List changed versions, changed and deleted notes, and decided proposals, oldest first.

    A change appears after a minute: a transaction that began earlier may commit an earlier time
    later. So a cursor never passes a change.
    """
    until = timezone.now() - SETTLED_AFTER
    start = _parse(since)
    rows: list[tuple[Position, Any]] = []
    for kind, changed in _changed_rows(request).items():
        page = changed.filter(_after(start, kind), changed_at__lte=until)
        for row in page.order_by("changed_at", "pk")[:limit]:
            rows.append(((row.changed_at, kind, row.pk), row))
    rows.sort(key=lambda item: item[0])
    items = [_change_out(position, row) for position, row in rows[:limit]]
    return ChangesOut(items=items, next=items[-1].cursor if items else since)


def _changed_rows(request: HttpRequest) -> dict[str, QuerySet[Any]]:
    """Return the readable rows of each kind, with ``changed_at``."""
    reader, workspace = reader_of(request), workspace_of(request)
    # Also those whose whole text was redacted: a copy of it must go as well.
    versions = MemoryVersion.objects.visible_to(reader)
    proposals = Proposal.objects.visible_to(reader).exclude(state=Proposal.State.OPEN)
    rows: dict[str, QuerySet[Any]] = {
        "version": versions.filter(memory__workspace=workspace)
        .select_related("memory")
        .annotate(changed_at=Coalesce("updated_at", "created_at")),
        "proposal": proposals.filter(memory__workspace=workspace).annotate(
            changed_at=Coalesce("decided_at", "created_at")
        ),
    }
    if workspace.memory_settings.notes_enabled:
        notes = notes_with_trash(reader).filter(workspace=workspace)
        rows["note"] = notes.annotate(changed_at=Coalesce("deleted_at", "updated_at"))
    return rows


def _parse(since: str) -> Position:
    if not since:
        return from_micros(0), "", 0
    us, kind, pk = since.split("-")
    return from_micros(int(us)), kind, int(pk)


def _after(start: Position, kind: str) -> Q:
    at, last_kind, pk = start
    after = Q(changed_at__gt=at)
    if kind > last_kind:
        return after | Q(changed_at=at)
    return after | Q(changed_at=at, pk__gt=pk) if kind == last_kind else after


def _change_out(position: Position, row: Model) -> ChangeOut:
    at, kind, pk = position
    out = ChangeOut(cursor=f"{to_micros(at)}-{kind}-{pk}", kind=kind, event="", at=at)
    if isinstance(row, MemoryVersion):
        memory = row.memory
        out.event = "added" if row.updated_at == row.created_at else "changed"
        out.memory, out.version, out.number = memory.pk, pk, row.number
        out.scope, out.scope_id, out.type = memory.scope, memory.scope_id, memory.memory_type
    elif isinstance(row, Note):
        # The feed never had a state of the note before this one.
        is_new = row.updated_at - row.created_at < SETTLED_AFTER
        out.note = pk
        out.event = "deleted" if row.deleted_at else "added" if is_new else "changed"
    elif isinstance(row, Proposal):
        out.memory, out.proposal, out.event = row.memory_id, pk, row.state
    return out
