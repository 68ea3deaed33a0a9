"""Workspaces with their settings, who is in them, and the pulses of workers."""

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    ReadOnly,
    ReadOnlyInline,
    VisibleFilter,
    runs_all,
    visible_rows,
)
from memories.forms import SettingsForm
from memories.models import AuditEvent, Heartbeat, Member, Reader, User, Workspace
from memories.rules.settings import KEYS


class MemberInline(ReadOnlyInline):
    """Roles are given and taken on the workspace's page of people, which keeps the last admin."""

    model = Member
    verbose_name_plural = _("members")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(pk__in=visible_rows(Member, request))


class WorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    """The workspace's own fields and, once it exists, its settings as the pages check them. What
    would remove messages is asked there alone."""

    class Meta:
        model = Workspace
        fields = ("slug", "name", "team_id", "domain")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given = self.data if self.is_bound else None
        self.settings_form = SettingsForm(given, workspace=self.instance)
        if self.instance.pk:
            self.fields.update(self.settings_form.fields)
            self.initial = {**self.initial, **self.settings_form.initial}

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.instance.pk:
            for name, errors in self.settings_form.errors.items():
                if name not in self.errors:
                    self.add_error(name, list(errors))
            if self.settings_form.is_valid() and self.settings_form.removes_after:
                self.add_error("retention_days", _("Shorten it in the pages: they ask first."))
        return given


@admin.register(Workspace)
class WorkspaceAdmin(AudienceAdmin):
    """Its settings come from `MemorySettings`, so a new one shows up here by itself."""

    form = WorkspaceForm
    list_display = ("slug", "name", "team_id", "domain", "connected_at", "synced_at")
    search_fields = ("slug", "name", "team_id", "domain")
    readonly_fields = ("settings_set", "created_at", "connected_at", "synced_at")
    inlines = (MemberInline,)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        own = (None, {"fields": WorkspaceForm.Meta.fields})
        if obj is None:
            return [own]
        shown = KEYS if self.has_change_permission(request, obj) else ("settings_set",)
        return [
            own,
            (_("Settings"), {"fields": shown}),
            (_("Slack"), {"fields": self.readonly_fields[1:]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Whose logins with Slack count here is an operator's to say."""
        return self.readonly_fields if runs_all(request) else ("team_id", *self.readonly_fields)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        kwargs["fields"] = WorkspaceForm.Meta.fields  # the form itself adds the settings
        return super().get_form(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        by = cast(User, request.user)
        if fields := [name for name in WorkspaceForm.Meta.fields if name in form.changed_data]:
            AuditEvent.objects.record("workspace", by=by, workspace=obj, fields=fields)
        if change:
            form.settings_form.save(by=by)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """It would take all history with it, also what this user may not read."""
        return False

    @admin.display(description=_("settings"))
    def settings_set(self, workspace: Workspace) -> str:
        """For those who only look."""
        settings = workspace.memory_settings
        return "\n".join(f"{key} = {getattr(settings, key)}" for key in KEYS)


@admin.register(Member)
class MemberAdmin(ReadOnly, AudienceAdmin):
    list_display = ("user", "workspace", "role")
    list_filter = ("role", ("workspace", VisibleFilter))
    list_select_related = ("user", "workspace")
    search_fields = ("user__username", "user__email", "workspace__slug", "workspace__name")
    ordering = ("workspace", "user__username")

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows.filter(workspace__in=Workspace.objects.visible_to(reader).values("pk"))


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnly, AudienceAdmin):
    list_display = ("name", "at")
    search_fields = ("name",)

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows
