"""Events from Slack without their text, and an action to retry failed ones."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import (
    AudienceAdmin,
    OperatorsOnly,
    ValueFilter,
    needs_attention,
    user_of,
)
from memories.models import SlackEvent


@admin.register(SlackEvent)
class SlackEventAdmin(OperatorsOnly, AudienceAdmin):
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
        needs_attention(SlackEvent.State.FAILED),
        "state",
        ("team_id", ValueFilter),
        ("received_at", admin.DateFieldListFilter),
    )
    search_fields = ("=event_id", "kind", "reason")
    ordering = ("-pk",)
    actions = ("retry",)
    hidden_fields = ("body",)
    fields = list_display

    @admin.action(description=_("Retry failed events"), permissions=["operate"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count = sum(event.retry(user_of(request)) for event in queryset)
        text = ngettext(
            "%(count)d event will be retried.", "%(count)d events will be retried.", count
        )
        self.report(request, text, count)
