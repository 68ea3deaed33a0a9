"""Addresses of accounts; of the login's own tables nothing else is anybody's business here."""

from typing import Any

from allauth.account import admin as account_admin
from allauth.account.models import EmailAddress
from allauth.mfa import admin as factor_admin
from allauth.mfa.models import Authenticator
from allauth.socialaccount import admin as social_admin
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.db.models import QuerySet

from memories.admin.audience import AudienceAdmin, Recorded
from memories.models import Reader

for _registered_by in (account_admin, factor_admin, social_admin):
    assert _registered_by  # imported first, so that there is something to take away
for _model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(_model)


@admin.register(EmailAddress)
class EmailAddressAdmin(Recorded, AudienceAdmin):
    """A verified one links the account to the people in Slack who have it: an operator's to say."""

    list_display = ("email", "user", "primary", "verified")
    list_filter = ("primary", "verified")
    list_select_related = ("user",)
    search_fields = ("email", "user__username")
    autocomplete_fields = ("user",)
    ordering = ("email",)
    fields = ("user", "email", "primary", "verified")

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows if reader.is_operator else rows.none()
