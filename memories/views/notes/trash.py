"""The trash: list, restore and purge deleted notes. For editors."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from memories.models.access.audience import notes_with_trash
from memories.views.access.access import UserRequest, must_edit, open_note_or_trashed, open_notes
from memories.views.notes.notes import TRASH_CHANGED, render_card
from memories.views.pages import render_page_or_part

PAGE_SIZE = 50


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List deleted notes, the last deleted first. Return only their number for htmx."""
    access = open_notes(request, slug)
    must_edit(access)
    notes = notes_with_trash(access.reader).filter(workspace=access.workspace).in_trash()
    paginator = Paginator(notes.select_related("channel", "deleted_by"), PAGE_SIZE)
    page = paginator.get_page(request.GET.get("page"))
    context = {"access": access, "page": page, "in_trash": paginator.count}
    return render_page_or_part(
        request, "notes/trash/index.html", "notes/trash/_count.html", context
    )


@login_required
@require_POST
def undelete(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Restore a note from the trash."""
    access, note = open_note_or_trashed(request, slug, pk)
    must_edit(access)
    note.undelete()
    note.refresh_from_db(fields=["deleted_at", "deleted_by"])
    response = render_card(request, access, note, _("The note was restored."))
    return trigger_client_event(response, TRASH_CHANGED)


@login_required
def purge(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """GET shows a confirmation, POST deletes the note and its versions for good."""
    access, note = open_note_or_trashed(request, slug, pk)
    must_edit(access)
    if request.method != "POST":
        if note.deleted_at is None:
            return redirect("notes-detail", slug, pk)
        context = {"access": access, "note": note}
        return render_page_or_part(
            request, "notes/trash/purge.html", "notes/trash/_purge.html", context
        )
    if note.purge(by=request.user):
        toasts.success(request, _("The note was permanently deleted."))
    else:
        toasts.warning(request, _("Nothing was changed. The note is not in the trash."))
    return redirect("trash-index", slug)
