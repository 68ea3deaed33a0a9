"""Events from Slack without their text, and an action to retry failed ones."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import OperatorAdmin, ValueFilter, needs_attention, row_action
from memories.models import SlackEvent


@admin.register(SlackEvent)
class SlackEventAdmin(OperatorAdmin):
    list_display = (
        "event_id",
        "kind",
        "team_id",
        "state",
        "reason",
        "attempts",
        "retry_at",
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
    actions = (row_action("retry", _("Retry failed events"), SlackEvent.retry),)
    hidden_fields = ("body",)
