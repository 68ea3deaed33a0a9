"""The form of a note."""

from typing import Any

from django import forms
from django.utils.text import normalize_newlines
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.forms import is_changed
from memories.models import Channel, Note, User
from memories.models.notes.notes import check_length
from memories.rules.notes.fields import LONGEST_TITLE
from memories.views.access.access import (
    WorkspaceContext,
)


class NoteForm(forms.Form):
    """A note as it is typed. Where it belongs is chosen once, when it is added; a change carries the
    version that was on screen."""

    content = forms.CharField(
        label=gettext_lazy("Note"), strip=False, widget=forms.Textarea(attrs={"rows": 3})
    )
    channel = forms.CharField(label=gettext_lazy("Where it holds"), required=False, max_length=200)
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
    review_on = forms.DateField(
        label=gettext_lazy("Review on"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text=gettext_lazy("From that day on the note says that it is due."),
    )
    BESIDE = ("title", "kind", "tags", "review_on")  # what stands beside the text

    based_on = forms.IntegerField(required=False, widget=forms.HiddenInput)
    revision = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, place: WorkspaceContext, note: Note | None = None, **kwargs: Any
    ) -> None:
        if note is not None:
            kwargs["initial"] = {
                **beside(note),
                "content": note.content,
                "based_on": note.number,
                "revision": note.revision,
            }
        super().__init__(*args, **kwargs)
        self.place = place
        self.note = note
        for name in self.BESIDE:
            self.fields[name].show_hidden_initial = note is not None
        if note is not None:
            del self.fields["channel"]
            return
        del self.fields["based_on"], self.fields["revision"]
        channel = self.fields["channel"]
        everywhere = [("", _("the whole workspace"))] if place.reads_workspace else []
        channel.required = not everywhere
        if place.nav.is_whole:
            rows = ((row.slack_id, str(row)) for row in place.channels)
            channel.widget = forms.Select(choices=[*everywhere, *rows])

    @property
    def at_once(self) -> list[forms.BoundField]:
        """What a quick note needs; the rest is folded."""
        return [self["content"], self["channel"]]

    @property
    def folded(self) -> list[forms.BoundField]:
        return [self[name] for name in self.BESIDE]

    @property
    def is_open(self) -> bool:
        return any(field.errors for field in self.folded)

    def clean_channel(self) -> Channel | None:
        """By its id or name. One that is hidden is as unknown as one that is not there."""
        name = self.cleaned_data["channel"]
        if not name:
            return None
        channel = self.place.readable_channels.named(name).first()
        if channel is None:
            raise forms.ValidationError(_("There is no such channel."))
        return channel

    def clean_content(self) -> str:
        content: str = normalize_newlines(self.cleaned_data["content"])
        if not content.strip():
            raise forms.ValidationError(_("A note needs a text."))
        check_length(content)
        return content

    def write(self, author: User) -> Note:
        """Save what is valid as a new note."""
        given = self.cleaned_data
        return Note.objects.write(
            self.place.workspace,
            given["content"],
            channel=given["channel"],
            review_on=given["review_on"],
            author=author,
            **self._words,
        )

    def rewrite(self, author: User) -> bool:
        """Save what is valid as other words for the note at hand; False when nothing is different.
        Raises StaleNote when it has others by now. A date that somebody else set since stays, unless
        this form has another one than it was drawn with."""
        assert self.note is not None
        given = self.cleaned_data
        is_other = self.note.rewrite(
            given["content"],
            by=author,
            based_on=given["based_on"] or 0,
            revision=given["revision"] or 0,
            **self._words,
        )
        if is_changed(self, "review_on"):
            self.note.mark(review_on=given["review_on"])
            return True
        return is_other

    @property
    def _words(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {
            "tags": given["tags"].split(","),
            "kind": given["kind"],
            "title": given["title"],
        }

    def tell(self, theirs: Note) -> None:
        """Beside each field that says something else than ``theirs``: what that says."""
        for name, value in beside(theirs).items():
            if self.data.get(name) != value:
                words = str(dict(Note.Kind.choices).get(value, value)) or _("nothing")
                self.fields[name].help_text = _("In the saved one: %(words)s") % {"words": words}


def beside(note: Note) -> dict[str, str]:
    """What stands beside its text, as a form sends it."""
    tags = ", ".join(tag for tag in note.tags if tag != note.kind)
    day = note.review_on.isoformat() if note.review_on else ""
    return {"title": note.title, "kind": note.kind, "tags": tags, "review_on": day}
