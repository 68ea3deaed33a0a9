"""Workspaces with their settings and members, and the heartbeats of workers."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    ReadOnlyAdmin,
    ReadOnlyInline,
    VisibleFilter,
    user_of,
    visible_rows,
)
from memories.forms import SettingsForm
from memories.models import AuditEvent, Heartbeat, Member, Reader, Workspace
from memories.rules.settings import KEYS


class MemberInline(ReadOnlyInline):
    """Read-only. The page People changes roles, and keeps the last admin."""

    model = Member
    verbose_name_plural = _("members")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(pk__in=visible_rows(Member, request))


class WorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    """The fields of a workspace and, if it exists, the settings form of the pages.

    A shorter retention, which deletes messages, needs the confirmation of the settings page.
    """

    class Meta:
        model = Workspace
        fields = ("slug", "name", "team_id", "domain")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        data = self.data if self.is_bound else None
        self.settings_form = SettingsForm(data, workspace=self.instance)
        if self.instance.pk:
            self.fields.update(self.settings_form.fields)
            self.initial = {**self.initial, **self.settings_form.initial}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.instance.pk:
            for name, errors in self.settings_form.errors.items():
                if name not in self.errors:
                    self.add_error(name, list(errors))
            if self.settings_form.is_valid() and self.settings_form.shorter_retention_days:
                text = _(
                    "To shorten this period, use the settings page. It shows a confirmation first."
                )
                self.add_error("retention_days", text)
        return cleaned


@admin.register(Workspace)
class WorkspaceAdmin(AudienceAdmin):
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
        """Only operators change the team whose sign-ins count for the workspace."""
        own = () if user_of(request).is_operator else ("team_id",)
        return (*own, *self.readonly_fields)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        kwargs["fields"] = WorkspaceForm.Meta.fields  # the form adds the settings
        return super().get_form(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        by = user_of(request)
        names = [name for name in WorkspaceForm.Meta.fields if name in form.changed_data]
        if changed := {name: [form.initial.get(name, ""), getattr(obj, name)] for name in names}:
            AuditEvent.objects.record("workspace", by=by, workspace=obj, changed=changed)
        if change:
            form.settings_form.save(by=by)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False. A deletion would include rows that the user may not read."""
        return False

    @admin.display(description=_("settings"))
    def settings_set(self, workspace: Workspace) -> str:
        """Return the settings for users without the permission to change them."""
        settings = workspace.memory_settings
        return "\n".join(f"{key} = {getattr(settings, key)}" for key in KEYS)


@admin.register(Member)
class MemberAdmin(ReadOnlyAdmin):
    list_display = ("user", "workspace", "role")
    list_filter = ("role", ("workspace", VisibleFilter))
    list_select_related = ("user", "workspace")
    search_fields = ("user__username", "user__email", "workspace__slug", "workspace__name")
    ordering = ("workspace", "user__username")

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(workspace__in=Workspace.objects.visible_to(reader).values("pk"))


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("name", "at")
    search_fields = ("name",)

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows
