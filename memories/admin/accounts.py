"""Accounts, their rights and passwords, and the people in Slack that they are.

Of the login's own tables only addresses are shown.
"""

from copy import copy
from functools import partial
from typing import Any, cast

from allauth.account import admin as account_admin
from allauth.account.models import EmailAddress
from allauth.mfa import admin as factor_admin
from allauth.mfa.models import Authenticator
from allauth.socialaccount import admin as social_admin
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    Kept,
    ReadOnly,
    Recorded,
    VisibleChoices,
    VisibleFilter,
    runs_all,
)
from memories.admin.forgetting import Forgetting
from memories.admin.workspaces import MemberInline
from memories.models import AuditEvent, Member, Person, Reader, User, Workspace
from memories.models.access.users import no_operator_but
from memories.models.ingest.people import BY_OPERATOR
from memories.pipeline.access import operators

RIGHTS = ("is_active", "is_staff", "is_superuser")

for _registered_by in (account_admin, factor_admin, social_admin):
    assert _registered_by  # imported first, so that there is something to take away
for _model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(_model)


@admin.register(EmailAddress)
class EmailAddressAdmin(ReadOnly, AudienceAdmin):
    """A verified one links the account to the people in Slack who have it. So nobody says here which
    is: an address is verified by a login with Slack."""

    list_display = ("email", "user", "primary", "verified")
    list_filter = ("primary", "verified")
    list_select_related = ("user",)
    search_fields = ("email", "user__username")
    ordering = ("email",)
    fields = ("user", "email", "primary", "verified")

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows if reader.is_operator else rows.none()


def reason_field() -> forms.CharField:
    return forms.CharField(
        label=_("reason"),
        max_length=200,
        required=False,
        help_text=_(
            "Needed where the person is in private channels. It is kept in the record, with your name."
            " These channels open for an hour, and for good when the person signs in with Slack."
        ),
    )


class PersonForm(forms.ModelForm):  # type: ignore[type-arg]
    reason = reason_field()

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        is_linked = "user" in self.changed_data and given.get("user")
        if is_linked and self.instance.is_in_private and not given.get("reason"):
            self.add_error("reason", _("Say why: this person is in private channels."))
        return given


@admin.register(Person)
class PersonAdmin(Forgetting, Kept, AudienceAdmin):
    """People come from Slack; here an operator links each to the account that reads as it."""

    form = PersonForm
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
        "opens_until",
    )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        own = ("user", "reason") if runs_all(request) else ("user",)
        return (*own, *self.readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Nobody but an operator says whom an account reads as: least of all its own person."""
        return self.readonly_fields if runs_all(request) else ("user", *self.readonly_fields)

    def save_model(self, request: HttpRequest, obj: Person, form: Any, change: Any) -> None:
        """Whom an account is decides what it reads: only the link is saved, by its own rule."""
        reason = form.cleaned_data.get("reason", "")
        if not runs_all(request) or not ("user" in form.changed_data or reason):
            return
        user, by = obj.user, cast(User, request.user)
        obj.refresh_from_db(fields=["user", "opens_until"])
        obj.link(user, BY_OPERATOR, was=obj.user, by=by, reason=reason)


class GivenPasswordForm(AdminPasswordChangeForm):  # type: ignore[type-arg]
    """A new password of somebody else, or none."""

    reason = reason_field()

    def __init__(self, *args: Any, by: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by = by

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        is_given = given.get("set_usable_password", True) and self.user != self.by
        people = self.user.people.all()
        if is_given and not given.get("reason") and any(person.is_in_private for person in people):
            self.add_error("reason", _("Say why: this person is in private channels."))
        return given

    def save(self, *args: Any, **kwargs: Any) -> User:
        usable = self.cleaned_data.get("set_usable_password", True)
        password = self.cleaned_data["password1"] if usable else None
        operators.give_password(self.user, password, by=self.by, reason=self.cleaned_data["reason"])
        return cast(User, self.user)


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

    Staff may look after names; accounts, rights and passwords are given by operators alone, and their
    accounts are theirs.
    """

    form = AccountForm
    change_user_password_template = "admin/memories/give_password.html"
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = (*DjangoUserAdmin.list_filter, ("date_joined", admin.DateFieldListFilter))
    filter_horizontal = ()  # two boxes made by a script, which leaves them without names
    readonly_fields = ("last_login", "date_joined", "linked_people")
    inlines = (MemberInline,)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        given = ("username", "email", *RIGHTS, "groups", "user_permissions")
        return self.readonly_fields if runs_all(request) else (*self.readonly_fields, *given)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return runs_all(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        """Its form says who sets it."""
        if not runs_all(request):
            raise PermissionDenied
        own: Any = copy(self)
        own.change_password_form = partial(GivenPasswordForm, by=cast(User, request.user))
        return super(UserAdmin, own).user_change_password(request, id, form_url)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The last operator is not deleted, nor a workspace's last admin, nor all of them at once."""
        result = super().get_deleted_objects(objs, request)
        going = [user.pk for user in objs]
        refused = result[2]
        refused.discard(str(Member._meta.verbose_name))  # roles go with whose they are
        if no_operator_but(going) and any(user.is_operator for user in objs):
            refused.add(str(_("last operator")))
        if Workspace.objects.left_without_admin(going).exists():
            refused.add(str(_("last admin")))
        return result

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = list(super().get_fieldsets(request, obj))
        return fieldsets + [(_("People in Slack"), {"fields": ("linked_people",)})] * bool(obj)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: Any) -> None:
        if not change and obj.has_usable_password():
            obj.password_given_at = timezone.now()
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


def _may_touch(request: HttpRequest, user: User | None) -> bool:
    return user is None or not user.is_superuser or runs_all(request)


admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(Recorded, DjangoGroupAdmin):
    """Django's own, with its changes in the record, and for operators: it gives rights to many."""

    filter_horizontal = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return runs_all(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return runs_all(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return runs_all(request)
