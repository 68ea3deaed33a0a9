"""Accounts with their rights and passwords, and their links to people in Slack.

Of allauth's tables, the admin shows only e-mail addresses.
"""

from copy import copy
from functools import partial
from typing import Any

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
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    AuditedChanges,
    ChangeOnly,
    OperatorAdmin,
    VisibleChoices,
    VisibleFilter,
    row_action,
    user_of,
    visible_rows,
)
from memories.admin.forgetting import ForgettingAdmin
from memories.admin.workspaces import MemberInline
from memories.models import AuditEvent, Digest, Member, Person, User, Workspace
from memories.models.access.users import no_operator_except
from memories.models.ingest.people import BY_OPERATOR
from memories.pipeline.access import operators, single_sign_on

RIGHTS = ("is_active", "is_staff", "is_superuser")

assert account_admin and factor_admin and social_admin  # their imports register the models
for _model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(_model)


@admin.register(EmailAddress)
class EmailAddressAdmin(OperatorAdmin):
    """Read-only, because a verified address links the account to the people in Slack who have it.

    Only a sign-in with Slack verifies an address.
    """

    list_display = ("email", "user", "primary", "verified")
    list_filter = ("primary", "verified")
    list_select_related = ("user",)
    search_fields = ("email", "user__username")
    ordering = ("email",)


class ReasonForm(forms.Form):
    """A change that opens private channels needs a reason."""

    reason = forms.CharField(
        label=_("reason"),
        max_length=200,
        required=False,
        help_text=_(
            "Required if the person is in private channels. The reason is stored in the audit "
            "log with your name. Access to these channels ends after an hour, unless the person "
            "signs in with Slack."
        ),
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not cleaned.get("reason") and self.opens_private(cleaned):
            self.add_error("reason", _("Enter a reason. This person is in private channels."))
        return cleaned

    def opens_private(self, cleaned: dict[str, Any]) -> bool:
        """Return whether the change opens private channels. It may, unless a form knows better."""
        return True


class PersonForm(ReasonForm, forms.ModelForm):  # type: ignore[type-arg]
    def opens_private(self, cleaned: dict[str, Any]) -> bool:
        is_linked = "user" in self.changed_data and cleaned.get("user")
        return bool(is_linked and self.instance.is_in_private)


@admin.register(Person)
class PersonAdmin(ForgettingAdmin, ChangeOnly, AudienceAdmin):
    """People come from Slack. Operators link them to accounts."""

    form = PersonForm
    link_fields = (
        "name",
        "real_name",
        "slack_id",
        "workspace",
        "is_bot",
        "is_guest",
        "is_external",
        "is_deleted",
    )
    list_display = (*link_fields, "user")
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
    readonly_fields = (*link_fields, "email", "is_placeholder", "link_valid_until")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        own = ("user", "reason") if user_of(request).is_operator else ("user",)
        return (*own, *self.readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only operators change links."""
        own = () if user_of(request).is_operator else ("user",)
        return (*own, *self.readonly_fields)

    def save_model(self, request: HttpRequest, obj: Person, form: Any, change: Any) -> None:
        """Save only the link, by its own rule: it decides what an account reads."""
        reason = form.cleaned_data.get("reason", "")
        if not user_of(request).is_operator or not ("user" in form.changed_data or reason):
            return
        user, by = obj.user, user_of(request)
        obj.refresh_from_db(fields=["user", "link_valid_until"])
        obj.link(user, BY_OPERATOR, was=obj.user, by=by, reason=reason)


class OperatorPasswordForm(ReasonForm, AdminPasswordChangeForm):  # type: ignore[type-arg]
    """A new password for another account, or none."""

    def __init__(self, *args: Any, by: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by = by

    def opens_private(self, cleaned: dict[str, Any]) -> bool:
        return (
            cleaned.get("set_usable_password", True)
            and self.user != self.by
            and any(person.is_in_private for person in self.user.people.all())
        )

    def save(self, *args: Any, **kwargs: Any) -> User:
        usable = self.cleaned_data.get("set_usable_password", True)
        password = self.cleaned_data["password1"] if usable else None
        operators.give_password(self.user, password, by=self.by, reason=self.cleaned_data["reason"])
        user: User = self.user
        return user


class AccountForm(UserChangeForm):  # type: ignore[type-arg]
    """The name and the rights of an account. The last operator keeps theirs."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        is_operator = all(cleaned.get(right, True) for right in ("is_active", "is_superuser"))
        if not is_operator and self.instance.is_last_operator():
            raise ValidationError(
                _("This is the last operator. Give the operator role to another account first.")
            )
        return cleaned


@admin.register(User)
class UserAdmin(AuditedChanges, VisibleChoices, DjangoUserAdmin):  # type: ignore[type-arg]
    """Accounts, with their people and memberships, which decide what they may read.

    Staff may change names. Only operators add accounts, change rights and passwords, and change the
    accounts of operators.
    """

    form = AccountForm
    change_user_password_template = "admin/memories/give_password.html"
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = (*DjangoUserAdmin.list_filter, ("date_joined", admin.DateFieldListFilter))
    filter_horizontal = ()  # the script of these widgets creates boxes without labels
    readonly_fields = ("last_login", "date_joined", "linked_people")
    inlines = (MemberInline,)
    actions = (
        row_action("unlink_single_sign_on", _("Unlink from single sign-on"), single_sign_on.unlink),
    )

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return user_of(request).is_operator

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if user_of(request).is_operator:
            return self.readonly_fields
        return (*self.readonly_fields, "username", "email", *RIGHTS, "groups", "user_permissions")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return user_of(request).is_operator

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        user: Any = super().get_object(request, *args, **kwargs)
        if user is not None:
            user.visible_people = visible_rows(Person, request).filter(user=user)
        return user

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _may_change(request, obj)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        if not user_of(request).is_operator:
            raise PermissionDenied
        model_admin: Any = copy(self)
        model_admin.change_password_form = partial(OperatorPasswordForm, by=user_of(request))
        return super(UserAdmin, model_admin).user_change_password(request, id, form_url)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_change(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Refuse to delete all operators, or all admins of a workspace."""
        result = super().get_deleted_objects(objs, request)
        keys = [user.pk for user in objs]
        refused = result[2]
        refused.discard(str(Member._meta.verbose_name))  # a role is deleted with its account
        if no_operator_except(keys) and any(user.is_operator for user in objs):
            refused.add(str(_("last operator")))
        if Workspace.objects.without_other_admins(keys).exists():
            refused.add(str(_("last admin")))
        return result

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = list(super().get_fieldsets(request, obj))
        return fieldsets + [(_("People in Slack"), {"fields": ("linked_people",)})] * bool(obj)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: Any) -> None:
        if not change and obj.has_usable_password():
            obj.password_set_at = timezone.now()
        super().save_model(request, obj, form, change)
        if "email" in form.changed_data and obj != user_of(request):
            # Else their digests, with private text, would go to an address that they did not see.
            Digest.objects.filter(user=obj).stop_mails()
        if rights := {name: getattr(obj, name) for name in RIGHTS if name in form.changed_data}:
            subject = obj.get_username()
            AuditEvent.objects.record("account", by=user_of(request), subject=subject, **rights)

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return self.inlines if obj else ()

    @admin.display(description=_("people"))
    def linked_people(self, user: Any) -> str:
        people = user.visible_people.select_related("workspace")
        return format_html_join(", ", "{} ({})", ((p.name, p.workspace) for p in people)) or "–"


def _may_change(request: HttpRequest, user: User | None) -> bool:
    return user is None or not user.is_superuser or user_of(request).is_operator


admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(AuditedChanges, DjangoGroupAdmin):
    """Groups, for operators only, because a group gives rights to many accounts."""

    filter_horizontal = ()

    def _is_operator(self, request: HttpRequest, obj: Any = None) -> bool:
        return user_of(request).is_operator

    has_add_permission = has_change_permission = has_delete_permission = _is_operator
