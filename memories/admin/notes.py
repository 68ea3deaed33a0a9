"""Notes: written, changed and deleted here as in the pages (S4)."""

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import AudienceAdmin, VisibleFilter
from memories.models import Note, User
from memories.rules.notes import fields as rules


class NoteForm(forms.ModelForm):  # type: ignore[type-arg]
    """A blank title is made from the text, a blank date is today's in the workspace's zone.

    ``based_on`` says which wording the person saw. When another one was saved since, nothing is
    saved: the form shows that wording, and from then on stands on it.
    """

    based_on = forms.CharField(required=False, widget=forms.HiddenInput)
    tags = forms.CharField(label=_("tags"), required=False, help_text=_("Parted by commas."))

    class Meta:
        model = Note
        fields = (
            *("workspace", "channel", "content", "title", "kind", "tags", "date"),
            *("is_pinned", "in_context", "review_on"),
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("title", "date"):
            if name in self.fields:
                self.fields[name].required = False
        self.initial["tags"] = ", ".join(self.instance.tags)
        self.initial["based_on"] = _wording_of(self.instance)
        self.is_stale = False

    def clean_tags(self) -> list[str]:
        return list(rules.clean_tags([self.cleaned_data["tags"]]))

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        self._compare_with_newest(given)
        workspace = given.get("workspace") or getattr(self.instance, "workspace", None)
        if workspace is None:
            return given
        settings = workspace.memory_settings
        if not settings.notes_enabled:
            self.add_error("workspace", _("Notes are switched off in this workspace."))
        given["date"] = given.get("date") or rules.today(timezone.now(), settings.zone)
        if not given.get("title"):
            given["title"] = rules.title_of(given.get("content", ""))
        return given

    def _compare_with_newest(self, given: dict[str, Any]) -> None:
        """Lock the note until it is saved, and report a wording that the person has not seen."""
        if self.instance.pk is None:
            return
        newest = Note.objects.select_for_update(of=("self",)).get(pk=self.instance.pk)
        if given.get("based_on") == _wording_of(newest):
            return
        self.is_stale = True
        data: Any = self.data.copy()  # type: ignore[attr-defined]
        data["based_on"] = _wording_of(newest)
        self.data = data
        by = newest.worded_by or _("an agent or a job")
        words = {"number": newest.number, "name": by, "text": newest.content}
        self.add_error(
            None,
            _(
                "Nothing was saved: %(name)s saved version %(number)s after you opened this form. "
                "Your text is still below. Saving again replaces theirs, which says: %(text)s"
            )
            % words,
        )


def _wording_of(note: Note) -> str:
    return f"{note.number}.{note.revision}"


@admin.register(Note)
class NoteAdmin(AudienceAdmin):
    """Where notes are switched off they stay as they are: to be read, not written or removed. What
    is deleted here comes into the trash, which the pages show."""

    form = NoteForm
    list_display = ("title", "kind", "words", "workspace", "channel", "author", "date")
    list_filter = (
        "kind",
        ("workspace", VisibleFilter),
        ("channel", VisibleFilter),
        ("date", admin.DateFieldListFilter),
    )
    list_select_related = ("workspace", "channel", "author")
    search_fields = ("title", "content")
    ordering = ("-pk",)
    autocomplete_fields = ("workspace", "channel")
    readonly_fields = ("author", "created_at", "updated_at")
    fields = (*NoteForm.Meta.fields, *readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Note | None = None) -> tuple[str, ...]:
        """What it said before belongs where it was said: a note stays in its workspace."""
        return self.readonly_fields if obj is None else ("workspace", *self.readonly_fields)

    def get_fields(self, request: HttpRequest, obj: Note | None = None) -> tuple[str, ...]:
        return self.fields if obj is None else ("based_on", *self.fields)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """409 when another wording was saved since the form was opened, as on the pages."""
        response = super().changeform_view(request, *args, **kwargs)
        shown = getattr(response, "context_data", None) or {}
        if "adminform" in shown and getattr(shown["adminform"].form, "is_stale", False):
            response.status_code = 409
        return response

    @admin.display(description=_("tags"))
    def words(self, note: Note) -> str:
        return ", ".join(note.tags)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """As everywhere: title, content and tags, whatever the case (S4)."""
        if not search_term:
            return queryset, False
        matches = Note.objects.filter(pk__in=queryset).select_related("channel").search(search_term)
        return queryset.filter(pk__in=[note.pk for note in matches]), False

    def has_change_permission(self, request: HttpRequest, obj: Note | None = None) -> bool:
        return super().has_change_permission(request, obj) and self._is_open(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Note | None = None) -> bool:
        return super().has_delete_permission(request, obj) and self._is_open(obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The notes alone: what they said before goes along, and comes back with them."""
        rows, _counts, refused, _protected = super().get_deleted_objects(objs, request)
        notes = Note._meta
        counts = {str(notes.verbose_name_plural): len(objs)}
        names = [row for row in rows if isinstance(row, str)]  # a list is what hangs on one
        return names, counts, refused & {str(notes.verbose_name)}, []

    def delete_model(self, request: HttpRequest, obj: Note) -> None:
        obj.remove(by=cast(User, request.user))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Note]) -> None:
        for note in queryset.select_related("workspace"):
            self.delete_model(request, note)

    @staticmethod
    def _is_open(note: Note | None) -> bool:
        return note is None or note.workspace.memory_settings.notes_enabled

    def save_model(self, request: HttpRequest, obj: Note, form: Any, change: Any) -> None:
        if not change:
            obj.author = obj.worded_by = cast(User, request.user)
            super().save_model(request, obj, form, change)
            return
        obj.save_wording(by=cast(User, request.user))
        obj.mark(is_pinned=obj.is_pinned, in_context=obj.in_context, review_on=obj.review_on)
