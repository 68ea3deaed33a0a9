"""An operator opens a private channel for an hour, for a stated reason, on the record."""

from datetime import datetime
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import AudienceAdmin, ReadOnly
from memories.models import AccessGrant, Channel, Reader, User


def called(channel: Channel) -> str:
    """Its name is private too, and so is its id in Slack."""
    return _("%(kind)s %(number)s of %(workspace)s") % {
        "kind": channel.get_kind_display(),
        "number": channel.pk,
        "workspace": channel.workspace,
    }


class ClosedChannels(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Any) -> str:
        return called(obj)


class AccessGrantForm(forms.ModelForm):  # type: ignore[type-arg]
    channel = ClosedChannels(
        label=_("channel"),
        queryset=Channel.objects.exclude(kind=Channel.Kind.PUBLIC).select_related("workspace"),
    )
    reason = forms.CharField(
        label=_("reason"),
        max_length=200,
        help_text=_("It is kept in the record, with your name. You can read for an hour."),
    )

    class Meta:
        model = AccessGrant
        fields = ("channel", "reason")


@admin.register(AccessGrant)
class AccessGrantAdmin(ReadOnly, AudienceAdmin):
    """Adding one opens the channel; what was opened stays listed."""

    form = AccessGrantForm
    list_display = ("at", "user", "place", "reason", "until", "is_open")
    list_select_related = ("user", "channel__workspace")
    search_fields = ("user__username", "reason")
    ordering = ("-pk",)
    fields = ("user", "place", "reason", "at", "until")

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows if reader.is_operator else rows.none()

    @admin.display(description=_("channel"))
    def place(self, grant: AccessGrant) -> str:
        return called(grant.channel)

    @admin.display(description=_("open"), boolean=True)
    def is_open(self, grant: AccessGrant) -> bool:
        now: datetime = timezone.now()
        return grant.until > now

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return Reader.of(request.user).is_operator

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else AccessGrantForm.Meta.fields

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = db_field.related_model._default_manager.all()
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: AccessGrant, form: Any, change: Any) -> None:
        made = AccessGrant.objects.open(
            obj.channel, by=cast(User, request.user), reason=obj.reason, now=timezone.now()
        )
        obj.pk = made.pk
