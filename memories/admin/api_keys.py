"""API keys, which operators revoke. The pages create them.

The keys of connected apps are among them. The tables of allauth's identity provider have no page: who
adds a token reads as its person, and who changes an app sends its answers elsewhere.
"""

from allauth.idp.oidc import admin as oauth_admin
from allauth.idp.oidc.models import Client, Token
from django.contrib import admin
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import OperatorAdmin, VisibleFilter, row_action
from memories.models import ApiKey, User

assert oauth_admin  # its import registers the models
for _model in (Client, Token):
    admin.site.unregister(_model)


def revoke(key: ApiKey, *, by: User) -> bool:
    return key.revoke(by=by, now=timezone.now())


@admin.register(ApiKey)
class ApiKeyAdmin(OperatorAdmin):
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
