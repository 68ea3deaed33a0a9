"""An operator's audited access to a private channel, for an hour and with a reason."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import OperatorAdmin, user_of
from memories.models import AccessGrant, Channel


def channel_label(channel: Channel) -> str:
    """Return a label without the name and the Slack id, which are private too."""
    return _("%(kind)s %(number)s of %(workspace)s") % {
        "kind": channel.get_kind_display(),
        "number": channel.pk,
        "workspace": channel.workspace,
    }


class PrivateChannelField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Any) -> str:
        return channel_label(obj)


class AccessGrantForm(forms.ModelForm):  # type: ignore[type-arg]
    channel = PrivateChannelField(
        label=_("channel"),
        queryset=Channel.objects.exclude(kind=Channel.Kind.PUBLIC).select_related("workspace"),
    )
    reason = forms.CharField(
        label=_("reason"),
        max_length=200,
        help_text=_(
            "The reason is stored in the audit log with your name. Access ends after an hour."
        ),
    )


@admin.register(AccessGrant)
class AccessGrantAdmin(OperatorAdmin):
    """Adding a row opens the channel. Old rows stay."""

    form = AccessGrantForm
    list_display = ("at", "user", "channel_name", "reason", "until", "is_open")
    list_select_related = ("user", "channel__workspace")
    search_fields = ("user__username", "reason")
    ordering = ("-pk",)

    @admin.display(description=_("channel"))
    def channel_name(self, grant: AccessGrant) -> str:
        return channel_label(grant.channel)

    @admin.display(description=_("open"), boolean=True)
    def is_open(self, grant: AccessGrant) -> bool:
        now: datetime = timezone.now()
        return grant.until > now

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return user_of(request).is_operator

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_fields(request, obj) if obj else ("channel", "reason")

    def save_model(self, request: HttpRequest, obj: AccessGrant, form: Any, change: Any) -> None:
        grant = AccessGrant.objects.open(
            obj.channel, by=user_of(request), reason=obj.reason, now=timezone.now()
        )
        obj.pk = grant.pk
