"""API keys: operators make and revoke them. A token is shown once."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import AudienceAdmin, ReadOnly, VisibleFilter, user_of, visible_rows
from memories.models import ApiKey, Channel, Reader, Workspace

DAYS = ((30, _("in 30 days")), (90, _("in 90 days")), (365, _("in a year")), (0, _("never")))


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A new key. It reads as the account of its maker, or public channels only.

    A key for another account would give its maker what only that account may read.
    """

    workspace = forms.ModelChoiceField(Workspace.objects.none(), label=_("workspace"))
    is_own = forms.BooleanField(
        label=_("reads as my account"),
        required=False,
        help_text=_("Otherwise the key reads public channels only."),
    )
    scopes = forms.MultipleChoiceField(
        label=_("scopes"),
        choices=[scope for scope in ApiKey.Scope.choices if scope[0] != ApiKey.Scope.READ],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    channels = forms.ModelMultipleChoiceField(
        Channel.objects.none(),
        label=_("only these channels"),
        required=False,
        help_text=_("Without a channel, the key reads all that its account may read."),
    )
    days = forms.TypedChoiceField(label=_("expires"), coerce=int, choices=DAYS, initial=90)

    class Meta:
        model = ApiKey
        fields = ("workspace", "name", "requests_per_minute")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        workspace = cleaned.get("workspace")
        if any(channel.workspace != workspace for channel in cleaned.get("channels", ())):
            self.add_error("channels", _("This channel is in another workspace."))
        return cleaned


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnly, AudienceAdmin):
    form = ApiKeyForm
    list_display = (
        *("id", "name", "workspace", "user", "scope_list", "is_narrowed", "created_at"),
        *("last_used_at", "expires_at", "revoked_at"),
    )
    list_display_links = ("id", "name")
    list_filter = (
        ("workspace", VisibleFilter),
        ("revoked_at", admin.EmptyFieldListFilter),
        ("last_used_at", admin.DateFieldListFilter),
    )
    list_select_related = ("workspace", "user")
    search_fields = ("name", "user__username")
    ordering = ("-pk",)
    actions = ("revoke",)
    fields = (
        *("workspace", "name", "user", "scope_list", "is_narrowed", "requests_per_minute"),
        *("created_at", "created_by", "last_used_at", "expires_at", "revoked_at"),
    )

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows if reader.is_operator else rows.none()

    @admin.display(description=_("scopes"))
    def scope_list(self, key: ApiKey) -> str:
        return ", ".join(str(ApiKey.Scope(scope).label) for scope in key.scopes)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return user_of(request).is_operator

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None:
            return self.fields
        return ("workspace", "name", "is_own", "scopes", "channels", "days", "requests_per_minute")

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        kwargs["fields"] = ApiKeyForm.Meta.fields
        form: Any = super().get_form(request, *args, **kwargs)
        form.base_fields["workspace"].queryset = visible_rows(Workspace, request)
        form.base_fields["channels"].queryset = visible_rows(Channel, request)
        return form

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: Any) -> None:
        values, by = form.cleaned_data, user_of(request)
        days = values["days"]
        key, token = ApiKey.objects.issue(
            values["workspace"],
            name=values["name"],
            by=by,
            user=by if values["is_own"] else None,
            scopes=values["scopes"],
            channels=list(values["channels"]),
            expires_at=timezone.now() + timedelta(days=days) if days else None,
            requests_per_minute=values["requests_per_minute"],
        )
        obj.pk = key.pk
        request.api_key_token = token  # type: ignore[attr-defined]

    def save_related(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `save_model` has saved the channels."""

    def response_add(self, request: HttpRequest, obj: ApiKey, *args: Any) -> HttpResponse:
        """Show the token in the response to the form alone: no message and no cookie has it."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("API key created"),
            "opts": self.opts,
            "token": request.api_key_token,  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, "admin/memories/api_key_token.html", context)

    @admin.action(description=_("Revoke: the key stops working at once"), permissions=["operate"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        rows = queryset.filter(revoked_at__isnull=True)
        count = len(rows)
        rows.revoke(by=user_of(request), now=timezone.now())  # type: ignore[attr-defined]
        text = ngettext("%(count)d key was revoked.", "%(count)d keys were revoked.", count)
        self.report(request, text, count)
