"""The form of a note."""

from datetime import date
from typing import Any

from django import forms
from django.utils.text import normalize_newlines
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.forms import is_field_changed
from memories.models import Channel, Note, User, Workspace
from memories.models.notes.note_versions import kind_words
from memories.models.notes.notes import check_length
from memories.rules.notes.fields import MAX_TITLE_LENGTH, today
from memories.views.access.access import WorkspaceAccess


class NoteForm(forms.Form):
    """The form of a new note, or of a change of ``note``.

    The channel is set for a new note only. A change has the version that the user saw.
    """

    content = forms.CharField(
        label=gettext_lazy("Note"), strip=False, widget=forms.Textarea(attrs={"rows": 3})
    )
    channel = forms.CharField(label=gettext_lazy("Applies to"), required=False, max_length=200)
    title = forms.CharField(
        label=gettext_lazy("Title"),
        required=False,
        max_length=MAX_TITLE_LENGTH,
        help_text=gettext_lazy("If empty, the title is taken from the start of the note."),
    )
    kind = forms.ChoiceField(label=gettext_lazy("Type"), required=False)
    tags = forms.CharField(
        label=gettext_lazy("Tags"),
        required=False,
        max_length=500,
        help_text=gettext_lazy("Separated by commas."),
    )
    review_on = forms.DateField(
        label=gettext_lazy("Review on"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text=gettext_lazy("From that day on, the note is shown as due for review."),
    )
    METADATA = ("title", "kind", "tags", "review_on")

    based_on = forms.IntegerField(required=False, widget=forms.HiddenInput)
    revision = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, access: WorkspaceAccess, note: Note | None = None, **kwargs: Any
    ) -> None:
        if note is not None:
            kwargs["initial"] = {
                **metadata_of(note),
                "content": note.content,
                "based_on": note.number,
                "revision": note.revision,
            }
        super().__init__(*args, **kwargs)
        self.access = access
        self.note = note
        self.fields["kind"].choices = kind_choices(access.workspace, note)  # type: ignore[attr-defined]
        for name in self.METADATA:
            self.fields[name].show_hidden_initial = note is not None
        if note is not None:
            del self.fields["channel"]
            return
        del self.fields["based_on"], self.fields["revision"]
        channel = self.fields["channel"]
        everywhere = [("", _("the whole workspace"))] if access.reads_workspace else []
        channel.required = not everywhere
        if access.has_few_channels:
            rows = ((row.slack_id, str(row)) for row in access.channels)
            channel.widget = forms.Select(choices=[*everywhere, *rows])

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """The fields of a quick note. The template folds the others."""
        return [self["content"], self["channel"]]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.METADATA]

    @property
    def has_more_errors(self) -> bool:
        return any(field.errors for field in self.more_fields)

    def clean_channel(self) -> Channel | None:
        """Return the channel by id or name. An unreadable one gives the error of an unknown one."""
        name = self.cleaned_data["channel"]
        if not name:
            return None
        channel = self.access.readable_channels.named(name).first()
        if channel is None:
            raise forms.ValidationError(_("This channel does not exist."))
        return channel

    def clean_content(self) -> str:
        content: str = normalize_newlines(self.cleaned_data["content"])
        if not content.strip():
            raise forms.ValidationError(_("A note needs a text."))
        check_length(content)
        return content

    def clean_review_on(self) -> date | None:
        """Refuse a day before the note, unless it is the note's already."""
        day: date | None = self.cleaned_data["review_on"]
        if self.note and day == self.note.review_on:
            return day
        written_on = self.note.date if self.note else today(self.access.now, self.access.zone)
        if day is not None and day < written_on:
            raise forms.ValidationError(_("This day is before the note. Choose a later day."))
        return day

    def write(self, author: User) -> Note:
        """Save a new note."""
        fields = self.cleaned_data
        return Note.objects.write(
            self.access.workspace,
            fields["content"],
            channel=fields["channel"],
            review_on=fields["review_on"],
            author=author,
            **self._words,
        )

    def rewrite(self, author: User) -> bool:
        """Save the changed note. Return False if nothing differs. Raises StaleNote.

        The review date is saved only if the user changed it.
        """
        assert self.note is not None
        fields = self.cleaned_data
        is_changed = self.note.rewrite(
            fields["content"],
            by=author,
            based_on=fields["based_on"] or 0,
            revision=fields["revision"] or 0,
            **self._words,
        )
        if is_field_changed(self, "review_on"):
            self.note.set_flags(review_on=fields["review_on"])
            return True
        return is_changed

    @property
    def _words(self) -> dict[str, Any]:
        fields = self.cleaned_data
        return {
            "tags": fields["tags"].split(","),
            "kind": fields["kind"],
            "title": fields["title"],
        }

    def show_differences(self, saved: Note) -> None:
        """Add the value of the saved note to the help of each field that differs."""
        for name, value in metadata_of(saved).items():
            if self.data.get(name) != value:
                words = (kind_words(value) if name == "kind" else value) or _("empty")
                self.fields[name].help_text = _("Saved text: %(words)s") % {"words": words}


def kind_choices(workspace: Workspace, note: Note | None) -> list[tuple[str, str]]:
    """Return the types of the workspace's notes, and that of the note."""
    kinds = [*workspace.memory_settings.all_note_types, *([note.kind] if note else [])]
    names = dict.fromkeys(kind for kind in kinds if kind)
    return [("", "–"), *((kind, kind_words(kind)) for kind in names)]


def metadata_of(note: Note) -> dict[str, str]:
    """Return the metadata of a note as a form posts it."""
    tags = ", ".join(tag for tag in note.tags if tag != note.kind)
    day = note.review_on.isoformat() if note.review_on else ""
    return {"title": note.title, "kind": note.kind, "tags": tags, "review_on": day}
