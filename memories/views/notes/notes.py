"""Notes: lasting statements of people and agents. Browse, search, add, change, delete (S4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.text import normalize_newlines
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from memories.models import Message, Note, NoteVersion, StaleNote
from memories.models.access.audience import notes_with_trash
from memories.rules.memory.compare import compare_lines
from memories.rules.memory.conflicts import (
    Hunk,
    find_hunks,
    is_edited_by_hand,
    join_choices,
    read_choices,
    resolved_text,
)
from memories.rules.notes.fields import title_of, today
from memories.views import paths
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_edit,
    number_in,
    number_or_none,
    open_note,
    open_note_or_trashed,
    open_notes,
)
from memories.views.notes.note_form import NoteForm, metadata_of
from memories.views.pages import render_page, render_page_or_part, render_part, wants_part

MAX_SHOWN = 200
PAGE_SIZE = 50
TRASH_CHANGED = "trash-changed"  # pages with the number of deleted notes reload it

# Examples for a workspace without notes: text, type, tags.
EXAMPLES = (
    (
        gettext_lazy("Customers get a reply on the day they ask, even if it only says when."),
        Note.Kind.PATTERN,
        gettext_lazy("support"),
    ),
    (
        gettext_lazy(
            "If the nightly import hangs, a restart left its lock behind: remove the lock, then "
            "start the import again."
        ),
        Note.Kind.SOLUTION,
        gettext_lazy("import"),
    ),
)


@dataclass(frozen=True)
class NoteCard:
    """A note as a card. ``has_title`` is false for a title that was made from the content."""

    note: Note
    has_title: bool
    is_due: bool


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List or search (``?q=``) the notes that the user may read, pinned first, then newest.

    POST adds a note.
    """
    access = open_notes(request, slug)
    if request.method == "POST":
        must_edit(access)
        form = NoteForm(_posted(request, access, number_in(request, "note")), access=access)
        if form.is_valid():
            return _added(request, access, form.write(author=request.user))
        return _invalid(request, access, form)
    form = NoteForm(access=access, initial={"channel": request.GET.get("channel", "")})
    return _list(request, access, form)


@login_required
@require_safe
def detail(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Show a note with its versions; ``?v=`` shows one of them and the changes since.

    Only editors may open a note in the trash.
    """
    access, note = open_note_or_trashed(request, slug, pk)
    return _detail(request, access, note)


@login_required
def edit(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Edit a note. Return 422 for an invalid form.

    Return 409 with both texts, by paragraph, if the note was changed or deleted meanwhile.
    """
    access, note = open_note_or_trashed(request, slug, pk)
    must_edit(access)
    if request.method != "POST":
        if note.deleted_at:
            return redirect("notes-detail", slug, pk)
        context = {"access": access, "note": note, "form": NoteForm(access=access, note=note)}
        return render_page(request, "notes/edit.html", context)
    if request.POST.get("do") == "choose":
        return _conflict(
            request, access, note, yours=_yours(request), seen=number_in(request, "seen")
        )
    form = NoteForm(_posted(request, access, pk), access=access, note=note)
    if not form.is_valid():
        if "seen" in request.POST:
            yours, seen = _yours(request), number_in(request, "seen")
            return _conflict(request, access, note, yours=yours, seen=seen, invalid=form)
        context = {"access": access, "note": note, "form": form}
        return render_page(request, "notes/edit.html", context, status=422)
    try:
        is_changed = form.rewrite(author=request.user)
    except StaleNote as error:
        fields = form.cleaned_data
        yours, seen = fields["content"], fields["based_on"] or 0
        return _conflict(request, access, error.current, yours=yours, seen=seen)
    toasts.success(request, _("Note saved.") if is_changed else _("Nothing changed."))
    return redirect(_card_path(note))


@login_required
@require_POST
def mark(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Set ``pinned`` or ``in_context`` to 1 or 0, or mark the note as ``reviewed``."""
    access, note = open_note(request, slug, pk)
    must_edit(access)
    if "pinned" in request.POST:
        note.set_flags(is_pinned=request.POST["pinned"] == "1")
        news = _("Pinned.") if note.is_pinned else _("Unpinned.")
    elif "in_context" in request.POST:
        note.set_flags(in_context=request.POST["in_context"] == "1")
        news = (
            _("Bots and agents now receive this note.")
            if note.in_context
            else _("Bots and agents no longer receive this note.")
        )
    elif "reviewed" in request.POST:
        note.set_flags(review_on=None)
        news = _("Marked as reviewed. Edit the note to set another date.")
    else:
        raise Http404
    return render_card(request, access, note, news)


@login_required
@require_POST
def restore(request: UserRequest, slug: str, pk: int, number: int) -> HttpResponse:
    """Restore a version of a note. Return 409 if the note was changed meanwhile."""
    access, note = open_note(request, slug, pk)
    must_edit(access)
    version = get_object_or_404(_versions(access, note), number=number)
    based_on, revision = number_in(request, "based_on"), number_in(request, "revision")
    try:
        done = note.restore(version, by=request.user, based_on=based_on, revision=revision)
    except StaleNote as error:
        conflict = _("Nothing was restored. v%(n)s was saved after you opened this page.") % {
            "n": error.current.number
        }
        return _detail(request, access, error.current, conflict=conflict, status=409)
    news = (
        _("Version %(old)s was restored as version %(new)s.") % {"old": number, "new": note.number}
        if done
        else _("This is already the current text.")
    )
    toasts.success(request, news)
    return redirect("notes-detail", slug, pk)


@login_required
@require_POST
def delete(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Move a note to the trash."""
    access, note = open_note(request, slug, pk)
    must_edit(access)
    note.remove(by=request.user)
    news = _("The note is in the trash.")
    if not wants_part(request):
        toasts.success(request, news)
        return redirect("notes-index", slug)
    context = {"access": access, "note": note, "news": news}
    answer = render_part(request, "notes/_gone.html", context)
    return trigger_client_event(answer, TRASH_CHANGED)


def render_card(
    request: UserRequest, access: WorkspaceAccess, note: Note, news: str
) -> HttpResponse:
    """Return the card of a changed note for htmx, else a redirect to the list."""
    if not wants_part(request):
        toasts.success(request, news)
        return redirect(_card_path(note))
    [card] = note_cards([note], access)
    context = {"access": access, "card": card, "news": news, "takes_focus": True}
    return render_part(request, "notes/_note.html", context)


def note_cards(notes: Iterable[Note], access: WorkspaceAccess) -> list[NoteCard]:
    day = today(timezone.now(), access.workspace.memory_settings.zone)
    return [NoteCard(n, n.title != title_of(n.content), n.is_due(day)) for n in notes]


def _added(request: UserRequest, access: WorkspaceAccess, note: Note) -> HttpResponse:
    news = _("Note added.")
    if not wants_part(request):
        toasts.success(request, news)
        return redirect(_card_path(note))
    [card] = note_cards([note], access)
    form = NoteForm(
        access=access, initial={"channel": note.channel.slack_id if note.channel else ""}
    )
    context = {"access": access, "card": card, "form": form, "takes_focus": True, "news": news}
    context["is_first"] = _notes(access).count() == 1
    context["is_example"] = "example" in request.POST  # the form keeps what the user types
    return render_part(request, "notes/_added.html", context)


def _invalid(request: UserRequest, access: WorkspaceAccess, form: NoteForm) -> HttpResponse:
    if not wants_part(request):
        return _list(request, access, form, status=422)
    context = {"access": access, "form": form}
    part = "notes/_add.html"
    response = render_part(request, part, context, status=422)
    response["HX-Retarget"], response["HX-Reswap"] = "#add", "outerHTML"
    return response


def _list(
    request: UserRequest, access: WorkspaceAccess, form: NoteForm, *, status: int = 200
) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    notes = _notes(access).first_pinned()
    matches = notes.search(query) if query else list(notes[: MAX_SHOWN + 1])
    context = {
        "access": access,
        "notes": note_cards(matches[:MAX_SHOWN], access),
        "count": len(matches),
        "has_more": len(matches) > MAX_SHOWN,
        "query": query,
        "form": form,
        "examples": EXAMPLES if access.can_edit and access.reads_workspace else (),
    }
    if access.can_edit and not wants_part(request):
        notes = notes_with_trash(access.reader).filter(workspace=access.workspace)
        context["in_trash"] = notes.in_trash().count()
    return render_page_or_part(
        request, "notes/index.html", "notes/_notes.html", context, status=status
    )


def _detail(
    request: UserRequest,
    access: WorkspaceAccess,
    note: Note,
    *,
    conflict: str = "",
    status: int = 200,
) -> HttpResponse:
    versions = _versions(access, note)
    page = Paginator(versions.newest_first(), PAGE_SIZE).get_page(request.GET.get("page"))
    context: dict[str, Any] = {
        "access": access,
        "note": note,
        "card": note_cards([note], access)[0],
        "page": page,
        "conflict": conflict,
        "source_path": _source_path(access, note),
    }
    number = number_or_none(request.GET.get("v", ""))
    if number is not None and number != note.number:
        version = get_object_or_404(versions, number=number)
        context |= {"version": version, "rows": compare_lines(version.content, note.content)}
    return render_page(request, "notes/detail.html", context, status=status)


def _source_path(access: WorkspaceAccess, note: Note) -> str:
    """Return the path of the message that the note keeps, "" unless the reader may read it."""
    messages = Message.objects.visible_to(access.reader).select_related("channel")
    source = messages.filter(pk=note.source_id).first() if note.source_id else None
    return paths.message_path(access.workspace.slug, source) if source else ""


def _conflict(
    request: UserRequest,
    access: WorkspaceAccess,
    theirs: Note,
    *,
    yours: str,
    seen: int,
    invalid: NoteForm | None = None,
) -> HttpResponse:
    """Return 409 with the user's text beside the saved one, by paragraph.

    With ``do=choose`` return the text of the choices, unless the note has changed again. Return
    422 for an ``invalid`` result. A deleted note has to be restored before it is saved.
    """
    conflict_hunks = _hunks(access, theirs, yours=yours, seen=seen, on=theirs.number)
    on = (number_in(request, "based_on"), number_in(request, "revision"))
    chooses = request.POST.get("do") == "choose"
    is_chosen = chooses and on == (theirs.number, theirs.revision)
    choices_from: Mapping[str, str] = request.POST if is_chosen or invalid else {}
    choices = read_choices(choices_from, conflict_hunks)
    typed = request.POST.copy()
    typed["content"] = join_choices(conflict_hunks, choices)
    for name, value in metadata_of(theirs).items():
        initial = f"initial-{name}"
        if typed.get(name) == typed.get(initial):  # the user has not changed it
            typed[name] = value
        typed[initial] = value
    form = invalid or NoteForm(typed, access=access, note=theirs)
    form.show_differences(theirs)
    context = {
        "access": access,
        "note": theirs,
        "form": form,
        "theirs": theirs,
        "yours": yours,
        "seen": seen,
        "paragraphs": list(zip(conflict_hunks, choices, strict=True)),
        "is_put_together": is_chosen,
    }
    content = request.POST.get("content", "")
    if chooses and (
        not is_chosen or is_edited_by_hand(request.POST, conflict_hunks, content, str.splitlines)
    ):
        context["replaced"] = content
    status = 422 if invalid else 200 if is_chosen else 409
    return render_page(request, "notes/conflict.html", context, status=status)


def _posted(request: UserRequest, access: WorkspaceAccess, pk: int) -> QueryDict:
    """Return the posted fields. Of a conflict the content is that of the choices, or as typed.

    The note may have been purged meanwhile.
    """
    fields = request.POST.copy()
    notes = notes_with_trash(access.reader).filter(workspace=access.workspace, pk=pk)
    note = notes.first() if "seen" in fields else None
    if note is not None:
        seen, on = number_in(request, "seen"), number_in(request, "based_on")
        conflict_hunks = _hunks(access, note, yours=_yours(request), seen=seen, on=on)
        content = fields.get("content", "")
        fields["content"] = resolved_text(fields, conflict_hunks, content, str.splitlines)
    return fields


def _hunks(access: WorkspaceAccess, note: Note, *, yours: str, seen: int, on: int) -> list[Hunk]:
    """Return the differing paragraphs of ``yours``, based on version ``seen``, and version ``on``."""
    contents = {
        version.number: version.content
        for version in _versions(access, note).filter(number__in=(seen, on))
    }
    theirs = contents.get(on, note.content)
    return find_hunks(contents.get(seen, theirs), yours, theirs, str.splitlines)


def _yours(request: UserRequest) -> str:
    return normalize_newlines(request.POST.get("yours", ""))


def _notes(access: WorkspaceAccess) -> Any:
    notes = Note.objects.visible_to(access.reader).in_use(access.workspace)
    return notes.select_related("channel", "author", "written_by")


def _versions(access: WorkspaceAccess, note: Note) -> Any:
    versions = NoteVersion.objects.visible_to(access.reader).filter(note=note)
    return versions.select_related("written_by", "channel")


def _card_path(note: Note) -> str:
    return f"{reverse('notes-index', args=[note.workspace.slug])}#note-{note.pk}"
