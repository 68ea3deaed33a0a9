"""Memories and their versions. An edit or a restore adds a version, as on the pages."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    ChangeOnly,
    ReadOnlyAdmin,
    ReadOnlyInline,
    VisibleFilter,
    preview,
)
from memories.admin.memory_form import MemoryForm
from memories.models import Line, Memory, MemoryVersion, StaleBase, Unchanged
from memories.models.memory.new_version import number_and_revision
from memories.rules.memory.lines import Origin

ORIGINS = {Origin.MODEL: _("model"), Origin.PERSON: _("person"), Origin.RESTORE: _("restore")}


@admin.register(Memory)
class MemoryAdmin(ChangeOnly, AudienceAdmin):
    form = MemoryForm
    list_display = ("name", "workspace", "number", "beginning", "changed")
    list_filter = (
        "scope",
        "memory_type",
        ("workspace", VisibleFilter),
        ("channel", VisibleFilter),
    )
    list_select_related = ("workspace", "channel", "current")
    search_fields = ("scope_id", "channel__name", "current__content")
    ordering = ("-pk",)
    readonly_fields = (
        "workspace",
        "scope",
        "channel",
        "thread_ts",
        "memory_type",
        "current_text",
        "versions",
    )

    @admin.display(description=_("memory"), ordering="pk")
    def name(self, memory: Memory) -> str:
        return str(memory)

    @admin.display(description=_("version"), ordering="current__number")
    def number(self, memory: Memory) -> int | None:
        return memory.current.number if memory.current else None

    @admin.display(description=_("text"))
    def beginning(self, memory: Memory) -> str:
        return preview(memory.current.content) if memory.current else ""

    @admin.display(description=_("changed"), ordering="current__updated_at")
    def changed(self, memory: Memory) -> Any:
        return memory.current.updated_at if memory.current else None

    @admin.display(description=_("current text"))
    def current_text(self, memory: Memory) -> str:
        return memory.current.content if memory.current else ""

    @admin.display(description=_("versions"))
    def versions(self, memory: Memory) -> str:
        address = reverse("admin:memories_memoryversion_changelist")
        return format_html(
            '<a href="{}?memory__id__exact={}">{}</a>', address, memory.pk, gettext("All versions")
        )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        is_editable = self.has_change_permission(request, obj)
        return (*self.readonly_fields, *(MemoryForm.base_fields if is_editable else ()))

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        return type("MemoryForm", (form,), {"user": request.user})

    def save_model(self, request: HttpRequest, obj: Memory, form: Any, change: Any) -> None:
        # The form has saved the version and the pins.
        if form.has_changed_pins and form.is_text_unchanged:
            self.message_user(request, gettext("Pins saved."), messages.SUCCESS)

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, *args: Any
    ) -> list[dict[str, dict[str, list[str]]]]:
        if form.is_text_unchanged and not form.has_changed_pins:
            return []
        return super().construct_change_message(request, form, formsets, *args)

    def response_change(self, request: HttpRequest, obj: Memory) -> HttpResponse:
        if obj.current and str(obj.current.number) == request.POST.get("based_on"):
            if not messages.get_messages(request):
                text = gettext("Nothing changed, so there is no new version.")
                self.message_user(request, text, messages.INFO)
            return HttpResponseRedirect(request.path)
        return super().response_change(request, obj)


class LineInline(ReadOnlyInline):
    model = Line
    fields = readonly_fields = ("text", "written_by", "pinned", "since", "source_count")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Line.objects.annotate(source_count=Count("sources"))

    @admin.display(description=_("written by"))
    def written_by(self, line: Line) -> Any:
        return ORIGINS[Origin(line.origin)]

    @admin.display(description=_("source messages"))
    def source_count(self, line: Any) -> int:
        count: int = line.source_count
        return count


class RestoreForm(ActionForm):
    """The time when the list was rendered, to find out which text the user saw."""

    rendered_at = forms.CharField(label="", widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["rendered_at"].initial = timezone.now().isoformat()


def is_unchanged_since(current: MemoryVersion | None, rendered_at: str) -> bool:
    """Return whether the current text is older than the list. False for an unreadable time."""
    try:
        moment = datetime.fromisoformat(rendered_at)
    except ValueError:
        return False
    return moment.tzinfo is not None and (current is None or current.updated_at <= moment)


@admin.register(MemoryVersion)
class MemoryVersionAdmin(ReadOnlyAdmin):
    list_display = (
        "memory",
        "number",
        "beginning",
        "origin",
        "author",
        "is_current",
        "provisional",
        "source_message_count",
        "created_at",
    )
    list_display_links = ("memory", "number")
    list_filter = (
        "origin",
        "provisional",
        "memory__scope",
        "memory__memory_type",
        ("memory__workspace", VisibleFilter),
        ("memory__channel", VisibleFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("memory__channel", "memory__workspace", "author")
    search_fields = ("content", "memory__scope_id", "memory__channel__name")
    ordering = ("-pk",)
    actions = ("restore",)
    action_form = RestoreForm
    inlines = (LineInline,)
    details = (
        "name",
        "content",
        "base",
        "restored_from",
        "job",
        "segment",
        "revision",
        "source_latest_message_ts",
        "trigger",
        "kept",
        "put_back",
        "updated_at",
    )

    @admin.display(description=_("text"))
    def beginning(self, version: MemoryVersion) -> str:
        return preview(version.content)

    @admin.display(description=_("current"), boolean=True)
    def is_current(self, version: MemoryVersion) -> bool:
        return version.memory.current_id == version.pk

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """To restore a version changes its memory."""
        return request.user.has_perm("memories.change_memory")

    @admin.action(description=_("Restore as new version"), permissions=["operate"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        versions = list(queryset.select_related("memory__current")[:2])
        if len(versions) != 1:
            text = gettext("Select one version to restore.")
            self.message_user(request, text, messages.WARNING)
            return
        (version,) = versions
        current = version.memory.current
        based_on, revision = number_and_revision(current)
        if not is_unchanged_since(current, request.POST.get("rendered_at", "")):
            based_on = -1  # no version has this number, so `restore` raises StaleBase
        try:
            restored = version.memory.restore(
                version, by=request.user, based_on=based_on, revision=revision
            )
        except Unchanged:
            text = gettext("This is already the current text.")
            self.message_user(request, text, messages.INFO)
        except StaleBase:
            text = gettext("Somebody saved another text in the meantime. Check it, then try again.")
            self.message_user(request, text, messages.ERROR)
        else:
            text = gettext("Version %(old)s was restored as version %(new)s.")
            self.message_user(request, text % {"old": version.number, "new": restored.number})
