"""API keys, which operators create for themselves or for public channels, and revoke.

The keys of connected apps are among them. The tables of allauth's identity provider have no page: who
adds a token reads as its person, and who changes an app sends its answers elsewhere.
"""

from typing import Any

from allauth.idp.oidc import admin as oauth_admin
from allauth.idp.oidc.models import Client, Token
from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import OperatorAdmin, VisibleFilter, row_action, user_of
from memories.api_key_form import ApiKeyForm
from memories.models import ApiKey, Channel, Reader, User, Workspace

assert oauth_admin  # its import registers the models
for _model in (Client, Token):
    admin.site.unregister(_model)


def revoke(key: ApiKey, *, by: User) -> bool:
    return key.revoke(by=by, now=timezone.now())


class AddApiKeyForm(ApiKeyForm, forms.ModelForm):  # type: ignore[type-arg]
    """The form of the pages, with a field for the workspace."""

    user: User  # set by ApiKeyAdmin

    class Meta:
        model = ApiKey
        fields = ("workspace",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        reader = Reader.of(self.user)
        super().__init__(*args, workspace=Workspace(), reader=reader, **kwargs)

    def clean_workspace(self) -> Workspace:
        self.key_workspace = self.cleaned_data["workspace"]
        return self.key_workspace

    def clean_channels(self) -> list[Channel]:
        """Return no channels if the workspace is invalid."""
        return super().clean_channels() if "workspace" in self.cleaned_data else []


@admin.register(ApiKey)
class ApiKeyAdmin(OperatorAdmin):
    """Only the response to the form shows the token of a new key."""

    add_form = AddApiKeyForm
    list_display = (
        "id",
        "name",
        "app",
        "workspace",
        "user",
        "scope_list",
        "is_narrowed",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
    )
    details = ("requests_per_minute", "created_by")
    list_display_links = ("id", "name")
    list_filter = (
        ("workspace", VisibleFilter),
        ("client", admin.EmptyFieldListFilter),
        ("revoked_at", admin.EmptyFieldListFilter),
        ("last_used_at", admin.DateFieldListFilter),
    )
    list_select_related = ("workspace", "user", "client")
    search_fields = ("name", "user__username")
    ordering = ("-pk",)
    actions = (row_action("revoke", _("Revoke: the key stops working at once"), revoke),)

    @admin.display(description=_("connected app"))
    def app(self, key: ApiKey) -> str:
        return key.app_origin

    @admin.display(description=_("scopes"))
    def scope_list(self, key: ApiKey) -> str:
        return ", ".join(str(ApiKey.Scope(scope).label) for scope in key.scopes)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return user_of(request).is_operator

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_fields(request, obj) if obj else tuple(self.add_form.base_fields)

    def get_form(self, request: HttpRequest, obj: Any = None, *args: Any, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = type("AddApiKeyForm", (self.add_form,), {"user": user_of(request)})
        return super().get_form(request, obj, *args, **kwargs)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        # Each of these buttons would leave the page with the token.
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        key, obj.token = form.issue(by=user_of(request))
        obj.pk = key.pk

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("The key “%(name)s” was created") % {"name": obj.name},
            "opts": self.opts,
            "key": obj,
        }
        return TemplateResponse(request, "admin/memories/api_key_token.html", context)
