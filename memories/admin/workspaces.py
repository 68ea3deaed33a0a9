"""Workspaces with their settings, who is in them, and the accounts."""

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    Kept,
    ReadOnly,
    ReadOnlyInline,
    Recorded,
    VisibleChoices,
    VisibleFilter,
    visible_rows,
)
from memories.admin.forgetting import Forgetting
from memories.forms import SettingsForm
from memories.models import AuditEvent, Heartbeat, Member, Person, Reader, User, Workspace
from memories.models.users import no_operator_but
from memories.rules.settings import KEYS

RIGHTS = ("is_active", "is_staff", "is_superuser")


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

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Nobody but an operator says whom an account reads as: least of all its own person."""
        return self.readonly_fields if _runs_all(request) else self.fields

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


class AccountForm(UserChangeForm):  # type: ignore[type-arg]
    """Somebody is left who runs the installation."""

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        stays = all(given.get(right, True) for right in ("is_active", "is_superuser"))
        if not stays and self.instance.would_leave_none():
            raise ValidationError(
                _("This is the last operator. Make somebody else an operator first.")
            )
        return given


@admin.register(User)
class UserAdmin(Recorded, VisibleChoices, DjangoUserAdmin):  # type: ignore[type-arg]
    """What an account may read follows from its people and memberships, shown at the end.

    Staff may look after accounts; rights are given by operators alone, and their accounts are theirs.
    """

    form = AccountForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    date_hierarchy = "date_joined"
    filter_horizontal = ()  # two boxes made by a script, which leaves them without names
    readonly_fields = ("last_login", "date_joined", "linked_people")
    inlines = (MemberInline,)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        given = (*RIGHTS, "groups", "user_permissions")
        return self.readonly_fields if _runs_all(request) else (*self.readonly_fields, *given)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The last operator is not deleted, nor a workspace's last admin, nor all of them at once."""
        found = super().get_deleted_objects(objs, request)
        going = [user.pk for user in objs]
        refused = found[2]
        refused.discard(str(Member._meta.verbose_name))  # roles go with whose they are
        if no_operator_but(going) and any(user.is_operator for user in objs):
            refused.add(str(_("last operator")))
        if Workspace.objects.left_without_admin(going).exists():
            refused.add(str(_("last admin")))
        return found

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = list(super().get_fieldsets(request, obj))
        return fieldsets + [(_("People in Slack"), {"fields": ("linked_people",)})] * bool(obj)

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


def _runs_all(request: HttpRequest) -> bool:
    return cast(User, request.user).is_operator


def _may_touch(request: HttpRequest, user: User | None) -> bool:
    return user is None or not user.is_superuser or _runs_all(request)


admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(Recorded, DjangoGroupAdmin):
    """Django's own, with its changes in the record, and for operators: it gives rights to many."""

    filter_horizontal = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _runs_all(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _runs_all(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _runs_all(request)


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnly, AudienceAdmin):
    list_display = ("name", "at", "asked_at", "seen_at")
    search_fields = ("name",)

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows
