"""Workspaces with their settings, who is in them, and the accounts."""

from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    Kept,
    ReadOnly,
    Recorded,
    VisibleChoices,
    VisibleFilter,
    visible_rows,
)
from memories.admin.forgetting import Forgetting
from memories.forms import SettingsForm
from memories.models import AuditEvent, Heartbeat, Member, Person, Reader, User, Workspace
from memories.rules.settings import KEYS

if TYPE_CHECKING:
    _Mixin = admin.ModelAdmin[Any]
else:
    _Mixin = object

RIGHTS = ("is_active", "is_staff", "is_superuser")


class MemberInline(VisibleChoices, admin.TabularInline):  # type: ignore[type-arg]
    model = Member
    extra = 0
    autocomplete_fields = ("workspace", "user")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(pk__in=visible_rows(Member, request))


class WorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    """The workspace's own fields and, once it exists, its settings as the pages check them."""

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
        return given


class RolesRecorded(_Mixin):
    """Who may do what is recorded when it is changed beside something else."""

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: Any) -> None:
        super().save_formset(request, form, formset, change)
        if formset.model is not Member:
            return
        before = {row.instance.pk: row.initial.get("role") for row in formset.initial_forms}
        for member in formset.new_objects:
            record_role(request, member, None, member.role)
        for member, _fields in formset.changed_objects:
            record_role(request, member, before[member.pk], member.role)
        for member in formset.deleted_objects:
            record_role(request, member, member.role, None)


def record_role(
    request: HttpRequest, member: Member, before: str | None, after: str | None
) -> None:
    """``before`` None: newly in; ``after`` None: no longer."""
    if before == after:
        return
    AuditEvent.objects.record(
        "role",
        by=cast(User, request.user),
        workspace=member.workspace,
        subject=member.user.get_username(),
        before=before,
        after=after,
    )


@admin.register(Workspace)
class WorkspaceAdmin(RolesRecorded, AudienceAdmin):
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
class MemberAdmin(AudienceAdmin):
    list_display = ("user", "workspace", "role")
    list_filter = ("role", ("workspace", VisibleFilter))
    list_select_related = ("user", "workspace")
    search_fields = ("user__username", "user__email", "workspace__slug", "workspace__name")
    autocomplete_fields = ("workspace", "user")
    ordering = ("workspace", "user__username")

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows.filter(workspace__in=Workspace.objects.visible_to(reader).values("pk"))

    def save_model(self, request: HttpRequest, obj: Member, form: Any, change: Any) -> None:
        before = Member.objects.filter(pk=obj.pk).select_related("user", "workspace").first()
        super().save_model(request, obj, form, change)
        is_same_one = before and (before.user, before.workspace) == (obj.user, obj.workspace)
        if before is not None and not is_same_one:
            record_role(request, before, before.role, None)
        record_role(request, obj, before.role if before and is_same_one else None, obj.role)

    def delete_model(self, request: HttpRequest, obj: Member) -> None:
        record_role(request, obj, obj.role, None)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for member in queryset:
            self.delete_model(request, member)


@admin.register(Person)
class PersonAdmin(Forgetting, Kept, AudienceAdmin):
    """People come from Slack; here each is linked to the account that reads as it."""

    list_display = (
        "name",
        "real_name",
        "slack_id",
        "workspace",
        "user",
        "is_bot",
        "is_guest",
        "is_external",
        "is_deleted",
    )
    list_filter = (
        ("workspace", VisibleFilter),
        ("user", admin.EmptyFieldListFilter),
        "is_bot",
        "is_guest",
        "is_external",
        "is_deleted",
        "is_placeholder",
    )
    list_select_related = ("workspace", "user")
    search_fields = ("name", "real_name", "email", "slack_id", "user__username")
    autocomplete_fields = ("user",)
    readonly_fields = (
        "workspace",
        "slack_id",
        "name",
        "real_name",
        "email",
        "is_bot",
        "is_guest",
        "is_external",
        "is_deleted",
        "is_placeholder",
    )
    fields = ("user", *readonly_fields)

    def save_model(self, request: HttpRequest, obj: Person, form: Any, change: Any) -> None:
        """Whom an account is decides what it reads."""
        if "user" in form.changed_data:
            obj.linked_by = ""  # an operator's word, which no address changes
        super().save_model(request, obj, form, change)
        if "user" in form.changed_data:
            AuditEvent.objects.record(
                "person_link",
                by=cast(User, request.user),
                workspace=obj.workspace,
                subject=obj.slack_id,
                account=obj.user.get_username() if obj.user else None,
            )


@admin.register(User)
class UserAdmin(Recorded, RolesRecorded, VisibleChoices, DjangoUserAdmin):  # type: ignore[type-arg]
    """What an account may read follows from its people and memberships, shown at the end."""

    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    date_hierarchy = "date_joined"
    readonly_fields = ("linked_people",)
    inlines = (MemberInline,)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = list(super().get_fieldsets(request, obj))
        return fieldsets + [(_("People in Slack"), {"fields": self.readonly_fields})] * bool(obj)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        if rights := {name: getattr(obj, name) for name in RIGHTS if name in form.changed_data}:
            by = cast(User, request.user)
            AuditEvent.objects.record("account", by=by, subject=obj.get_username(), **rights)

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return self.inlines if obj else ()

    @admin.display(description=_("people"))
    def linked_people(self, user: User) -> str:
        people = user.people.select_related("workspace")
        return format_html_join(", ", "{} ({})", ((p.name, p.workspace) for p in people)) or "–"


admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(Recorded, DjangoGroupAdmin):
    """Django's own, with its changes in the record: a group may give rights to many."""


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnly, AudienceAdmin):
    list_display = ("name", "at", "asked_at", "seen_at")
    search_fields = ("name",)

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows
