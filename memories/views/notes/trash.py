"""Deleted notes: looked through, brought back, or purged for good. For editors."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from memories.models import Note
from memories.views.access.access import UserRequest, must_edit, open_kept_note, open_workspace
from memories.views.notes.notes import TRASH_CHANGED, answer_row, must_be_on
from memories.views.pages import render_page_or_part

AT_ONCE = 50


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    """The last deleted one first; to htmx no more than how many there are."""
    place = open_workspace(request, slug)
    must_be_on(place)
    must_edit(place)
    notes = Note.objects.kept_for(place.reader).filter(workspace=place.workspace).in_trash()
    paginator = Paginator(notes.select_related("channel", "deleted_by"), AT_ONCE)
    page = paginator.get_page(request.GET.get("page"))
    context = {"place": place, "page": page, "in_trash": paginator.count}
    return render_page_or_part(
        request, "notes/trash/index.html", "notes/trash/_count.html", context
    )


@login_required
@require_POST
def undelete(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Back among the notes, as it was."""
    place, note = open_kept_note(request, slug, pk)
    must_be_on(place)
    must_edit(place)
    note.undelete()
    note.refresh_from_db(fields=["deleted_at", "deleted_by"])
    answer = answer_row(request, place, note, _("The note is back."))
    return trigger_client_event(answer, TRASH_CHANGED)


@login_required
def purge(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """GET asks, in the note's row or on a page; POST takes it away for good, with its versions."""
    place, note = open_kept_note(request, slug, pk)
    must_be_on(place)
    must_edit(place)
    if request.method != "POST":
        if note.deleted_at is None:
            return redirect("notes-detail", slug, pk)
        context = {"place": place, "note": note}
        return render_page_or_part(
            request, "notes/trash/purge.html", "notes/trash/_purge.html", context
        )
    if note.purge(by=request.user):
        toasts.success(request, _("The note is gone for good."))
    else:
        toasts.warning(request, _("Nothing was done: the note is not in the trash."))
    return redirect("trash-index", slug)
