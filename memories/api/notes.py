"""The operations of `/api/v1/notes`."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Status

from memories.api import serialize
from memories.api.auth import needs, reader_of
from memories.api.idempotency import IDEMPOTENCY_PARAMETER, add_once
from memories.api.operations import READ_ERRORS, WRITE_ERRORS, Cursor, Limit, page_of, workspace_of
from memories.api.problems import Problem
from memories.api.queries import check_edits, get_or_404, write_note
from memories.api.schemas import (
    Id,
    NoteIn,
    NoteOut,
    NotePatch,
    NotesOut,
    NotesSyncIn,
    NotesSyncOut,
)
from memories.models import ApiKey, Note, NotesDisabled, StaleNote
from memories.pipeline.notes.files import NotesFileError, sync_text
from memories.rules.notes.fields import FLAGS, InvalidNote
from memories.rules.notes.notes_file import Outcome

router = Router()
IF_MATCH = {
    "in": "header",
    "name": "If-Match",
    "required": True,
    "schema": {"type": "string"},
    "description": "The ETag of the note that the change is based on.",
}


def _notes(request: HttpRequest) -> Any:
    return Note.objects.in_use(workspace_of(request)).visible_to(reader_of(request))


@router.get("", response={200: NotesOut} | READ_ERRORS, summary="Notes, oldest first")
def notes(request: HttpRequest, cursor: Cursor, limit: Limit) -> NotesOut:
    page, following = page_of(_notes(request), cursor, limit)
    return NotesOut(items=[serialize.note_out(note) for note in page], next=following)


@router.post("/sync", response={200: NotesSyncOut} | WRITE_ERRORS, summary="Sync a notes file")
@needs(ApiKey.Scope.NOTES)
def sync_notes(request: HttpRequest, given: NotesSyncIn) -> NotesSyncOut:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    now = timezone.now()
    check_edits(key, now)
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
        added=done.outcomes[Outcome.ADDED],
        updated=done.outcomes[Outcome.UPDATED],
        deleted=done.deleted,
        conflicts=done.conflicts,
    )


@router.get("/{pk}", response={200: NoteOut} | READ_ERRORS, summary="A note")
def note(request: HttpRequest, pk: Id, response: HttpResponse) -> NoteOut:
    return _answer(get_or_404(_notes(request), pk=pk), response)


@router.post(
    "",
    response={201: NoteOut} | WRITE_ERRORS,
    summary="Add a note",
    openapi_extra={"parameters": [IDEMPOTENCY_PARAMETER]},
)
@needs(ApiKey.Scope.NOTES)
def add_note(request: HttpRequest, given: NoteIn, response: HttpResponse) -> Status[NoteOut]:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    pk = add_once(request, lambda: write_note(key, given, timezone.now()))
    return Status(201, _answer(get_or_404(_notes(request), pk=pk), response))


@router.patch(
    "/{pk}",
    response={200: NoteOut} | WRITE_ERRORS,
    summary="Change a note",
    openapi_extra={"parameters": [IF_MATCH]},
)
@needs(ApiKey.Scope.NOTES)
@transaction.atomic
def change_note(request: HttpRequest, pk: Id, given: NotePatch, response: HttpResponse) -> NoteOut:
    row = _matching_note(request, pk)
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    tags = given.tags
    if tags is None:  # a new type replaces the old one, which is a tag too
        tags = [tag for tag in row.tags if tag != row.kind]
    try:
        row.rewrite(
            row.content if given.content is None else given.content,
            tags=tags,
            kind=given.type or row.kind,
            title=given.title,
            by=key.user,
            based_on=row.number,
            revision=row.revision,
        )
        flags = given.model_dump(include={*FLAGS}, exclude_unset=True)
        if flags:
            row.set_flags(**flags)
    except StaleNote as error:
        raise Problem(412, str(error)) from error
    except InvalidNote as error:
        raise Problem(422, str(error)) from error
    return _answer(get_or_404(_notes(request), pk=pk), response)


@router.delete(
    "/{pk}",
    response={204: None} | WRITE_ERRORS,
    summary="Put into the trash",
    openapi_extra={"parameters": [IF_MATCH]},
)
@needs(ApiKey.Scope.NOTES)
def delete_note(request: HttpRequest, pk: Id) -> Status[None]:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    with transaction.atomic():
        _matching_note(request, pk).remove(by=key.user)
    return Status(204, None)


def _matching_note(request: HttpRequest, pk: int) -> Note:
    """Lock and return the note of a conditional write.

    Raises Problem 403 for an account that may not edit, 428 without If-Match, and 412 if the note
    has changed.
    """
    check_edits(request.auth, timezone.now())  # type: ignore[attr-defined]
    row: Note = get_or_404(_notes(request).select_for_update(of=("self",)), pk=pk)
    etag = request.headers.get("If-Match")
    if not etag:
        raise Problem(428, "Send the note's ETag in If-Match.")
    # A proxy that compresses makes ETags weak.
    if etag.removeprefix("W/") != serialize.note_etag(row):
        raise Problem(412, "The note has changed since: read it again.")
    return row


def _answer(row: Note, response: HttpResponse) -> NoteOut:
    out = serialize.note_out(row)
    response["ETag"] = out.etag
    return out
