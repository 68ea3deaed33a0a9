"""Notes: lasting statements of people and agents. Browse, search, add, change, delete (S4)."""

from typing import Any

from django import forms
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.models import Note, User
from memories.rules.notes import LONGEST_TITLE, title_of
from memories.views.access import Place, UserRequest, must_edit, open_note, open_workspace
from memories.views.pages import render_page, render_page_or_part

MOST_SHOWN = 200


class NoteForm(forms.Form):
    """A note as it is typed. Where it belongs is chosen once, when it is added."""

    content = forms.CharField(
        label=gettext_lazy("Note"), strip=False, widget=forms.Textarea(attrs={"rows": 4})
    )
    title = forms.CharField(
        label=gettext_lazy("Title"),
        required=False,
        max_length=LONGEST_TITLE,
        help_text=gettext_lazy("Left empty, it is made from the beginning of the note."),
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("Type"), required=False, choices=[("", "–"), *Note.Kind.choices]
    )
    tags = forms.CharField(
        label=gettext_lazy("Tags"),
        required=False,
        max_length=500,
        help_text=gettext_lazy("Parted by commas."),
    )
    channel = forms.ChoiceField(label=gettext_lazy("Where it holds"), required=False)

    def __init__(self, *args: Any, place: Place, note: Note | None = None, **kwargs: Any) -> None:
        if note is not None:
            kwargs["initial"] = {
                "content": note.content,
                "title": note.title,
                "kind": note.kind,
                "tags": ", ".join(tag for tag in note.tags if tag != note.kind),
            }
        super().__init__(*args, **kwargs)
        self.place = place
        self.note = note
        if note is not None:
            del self.fields["channel"]
            return
        channel = self.fields["channel"]
        assert isinstance(channel, forms.ChoiceField)
        everywhere = [("", _("the whole workspace"))] if place.reads_workspace else []
        channel.required = not everywhere
        channel.choices = [*everywhere, *((c.slack_id, str(c)) for c in place.channels)]

    def clean_content(self) -> str:
        content: str = self.cleaned_data["content"].replace("\r\n", "\n")
        if not content.strip():
            raise forms.ValidationError(_("A note needs a text."))
        return content

    def write(self, author: User) -> Note:
        """Save what is valid: a new note, or other words for the one at hand."""
        given = self.cleaned_data
        words = {
            "tags": given["tags"].split(","),
            "kind": given["kind"],
            "title": given["title"],
        }
        if self.note is not None:
            self.note.rewrite(given["content"], **words)
            return self.note
        channel = self.place.channels_by_id.get(given["channel"])
        return Note.objects.write(
            self.place.workspace, given["content"], channel=channel, author=author, **words
        )


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """The notes the reader may read, newest first; ``?q=`` searches, POST adds one."""
    place = open_workspace(request, slug)
    _must_be_on(place)
    if request.method == "POST":
        must_edit(place)
        form = NoteForm(request.POST, place=place)
        if form.is_valid():
            note = form.write(author=request.user)
            toasts.success(request, _("Note added."))
            return redirect(f"{request.path}#note-{note.pk}")
        return _list(request, place, form, status=422)
    form = NoteForm(place=place, initial={"channel": request.GET.get("channel", "")})
    return _list(request, place, form)


@login_required
def edit(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    place, note = open_note(request, slug, pk)
    _must_be_on(place)
    must_edit(place)
    if request.method != "POST":
        form = NoteForm(place=place, note=note)
        return render_page(request, "notes/edit.html", {"place": place, "note": note, "form": form})
    form = NoteForm(request.POST, place=place, note=note)
    if not form.is_valid():
        context = {"place": place, "note": note, "form": form}
        return render_page(request, "notes/edit.html", context, status=422)
    form.write(author=request.user)
    toasts.success(request, _("Note saved."))
    return redirect(f"{_notes_path(slug)}#note-{note.pk}")


@login_required
def delete(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """GET asks, POST deletes: there is no way back."""
    place, note = open_note(request, slug, pk)
    _must_be_on(place)
    must_edit(place)
    if request.method != "POST":
        return render_page(request, "notes/delete.html", {"place": place, "note": note})
    note.remove()
    toasts.success(request, _("Note deleted."))
    return redirect("notes-index", slug)


def _list(request: UserRequest, place: Place, form: NoteForm, *, status: int = 200) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    notes = Note.objects.visible_to(place.reader).in_use(place.workspace)
    newest = notes.select_related("channel", "author").order_by("-date", "-pk")
    found = newest.search(query) if query else list(newest[: MOST_SHOWN + 1])
    return render_page_or_part(
        request,
        "notes/index.html",
        "notes/_notes.html",
        {
            "place": place,
            # A title that was made from the text would say the same twice.
            "notes": [(note, note.title != title_of(note.content)) for note in found[:MOST_SHOWN]],
            "count": len(found),
            "has_more": len(found) > MOST_SHOWN,
            "query": query,
            "form": form,
        },
        status=status,
    )


def _must_be_on(place: Place) -> None:
    if not place.workspace.memory_settings.notes_enabled:
        raise Http404


def _notes_path(slug: str) -> str:
    return reverse("notes-index", args=[slug])
