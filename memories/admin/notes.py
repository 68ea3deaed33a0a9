"""Notes, with the same rules as on the pages (S4)."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import AudienceAdmin, ValueFilter, VisibleFilter, user_of
from memories.models import Note
from memories.rules.notes import fields as rules


class NoteForm(forms.ModelForm):  # type: ignore[type-arg]
    """A note. Without a title it gets the beginning of the text, and without a date it gets today.

    ``based_on`` is the version with which the form was opened. If the note has changed since, the form
    saves nothing, shows the new version, and takes that as ``based_on``.
    """

    based_on = forms.CharField(required=False, widget=forms.HiddenInput)
    tags = forms.CharField(label=_("tags"), required=False, help_text=_("Separated by commas."))

    class Meta:
        model = Note
        help_texts = {
            "kind": _(
                "pattern, architecture, solution, or a type from the settings of the workspace. It "
                "may be empty."
            )
        }
        fields = (
            *("workspace", "channel", "content", "title", "kind", "tags", "date"),
            *rules.FLAGS,
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("title", "date"):
            if name in self.fields:
                self.fields[name].required = False
        self.initial["tags"] = ", ".join(self.instance.tags)
        self.initial["based_on"] = _version_key(self.instance)
        self.is_stale = False

    def clean_tags(self) -> list[str]:
        return list(rules.clean_tags([self.cleaned_data["tags"]]))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        self._check_version(cleaned)
        workspace = cleaned.get("workspace") or getattr(self.instance, "workspace", None)
        if workspace is None:
            return cleaned
        settings = workspace.memory_settings
        if not settings.notes_enabled:
            self.add_error("workspace", _("Notes are turned off in this workspace."))
        cleaned["date"] = cleaned.get("date") or rules.today(timezone.now(), settings.zone)
        if not cleaned.get("title"):
            cleaned["title"] = rules.title_of(cleaned.get("content", ""))
        return cleaned

    def _check_version(self, cleaned: dict[str, Any]) -> None:
        """Lock the note until it is saved. Add an error if the form shows an older version."""
        if self.instance.pk is None:
            return
        newest = Note.objects.select_for_update(of=("self",)).get(pk=self.instance.pk)
        if cleaned.get("based_on") == _version_key(newest):
            return
        self.is_stale = True
        data: Any = self.data.copy()  # type: ignore[attr-defined]
        data["based_on"] = _version_key(newest)
        self.data = data
        details = {
            "number": newest.number,
            "name": newest.written_by or _("an agent or a job"),
            "text": newest.content,
        }
        self.add_error(
            None,
            _(
                "Nothing was saved. %(name)s saved version %(number)s after you opened this form. "
                "Your text is still below. Saving again replaces the text of version %(number)s: "
                "%(text)s"
            )
            % details,
        )


def _version_key(note: Note) -> str:
    return f"{note.number}.{note.revision}"


@admin.register(Note)
class NoteAdmin(AudienceAdmin):
    """Notes, read-only where the workspace has switched them off. A deleted note moves to the trash."""

    form = NoteForm
    list_display = ("title", "kind", "tag_list", "workspace", "channel", "author", "date")
    list_filter = (
        ("kind", ValueFilter),
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
        """A note keeps its workspace, because its older versions belong there."""
        return self.readonly_fields if obj is None else ("workspace", *self.readonly_fields)

    def get_fields(self, request: HttpRequest, obj: Note | None = None) -> tuple[str, ...]:
        return self.fields if obj is None else ("based_on", *self.fields)

    @admin.display(description=_("tags"))
    def tag_list(self, note: Note) -> str:
        return ", ".join(note.tags)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search title, content and tags without regard to case, as the pages do (S4)."""
        if not search_term:
            return queryset, False
        matches = Note.objects.filter(pk__in=queryset).select_related("channel").search(search_term)
        return queryset.filter(pk__in=[note.pk for note in matches]), False

    def has_change_permission(self, request: HttpRequest, obj: Note | None = None) -> bool:
        return super().has_change_permission(request, obj) and self._has_notes_enabled(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Note | None = None) -> bool:
        return super().has_delete_permission(request, obj) and self._has_notes_enabled(obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Count only the notes. Their versions stay with them in the trash."""
        rows, _counts, perms_needed, _protected = super().get_deleted_objects(objs, request)
        counts = {str(Note._meta.verbose_name_plural): len(objs)}
        # Django nests the related rows in lists.
        names = [row for row in rows if isinstance(row, str)]
        return names, counts, perms_needed & {str(Note._meta.verbose_name)}, []

    def delete_model(self, request: HttpRequest, obj: Note) -> None:
        obj.remove(by=user_of(request))

    @staticmethod
    def _has_notes_enabled(note: Note | None) -> bool:
        return note is None or note.workspace.memory_settings.notes_enabled

    def save_model(self, request: HttpRequest, obj: Note, form: Any, change: Any) -> None:
        if not change:
            obj.author = obj.written_by = user_of(request)
            super().save_model(request, obj, form, change)
            return
        obj.save_wording(by=user_of(request))
        obj.set_flags(is_pinned=obj.is_pinned, in_context=obj.in_context, review_on=obj.review_on)
