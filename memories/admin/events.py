"""What Slack told: how it went, and a person's word to try again what failed. Never its text."""

from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import AudienceAdmin, ReadOnly, ValueFilter
from memories.models import Reader, SlackEvent, User


@admin.register(SlackEvent)
class SlackEventAdmin(ReadOnly, AudienceAdmin):
    """They are of the whole installation, so only operators see them."""

    list_display = (
        "event_id",
        "kind",
        "team_id",
        "state",
        "reason",
        "attempts",
        "not_before",
        "received_at",
    )
    list_filter = (
        "state",
        ("team_id", ValueFilter),
        ("received_at", admin.DateFieldListFilter),
    )
    search_fields = ("=event_id", "kind", "reason")
    ordering = ("-pk",)
    actions = ("retry",)
    hidden_fields = ("body",)
    fields = list_display

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows.defer("body") if reader.is_operator else rows.none()

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_slackevent")

    @admin.action(description=_("Retry what failed"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """The next tick of the worker takes them."""
        count = sum(event.retry(cast(User, request.user)) for event in queryset)
        text = ngettext(
            "%(count)d event will be tried again.", "%(count)d events will be tried again.", count
        )
        level = messages.SUCCESS if count else messages.WARNING
        self.message_user(request, text % {"count": count}, level)
