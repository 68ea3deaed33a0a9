"""Backfills: their state and estimate, and actions to pause, resume and cancel them."""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    ReadOnlyAdmin,
    VisibleFilter,
    display_value,
    needs_attention,
    row_action,
)
from memories.models import Backfill
from memories.rules.costs.money import MICROS
from memories.rules.ingest.timestamps import from_micros


@admin.register(Backfill)
class BackfillAdmin(ReadOnlyAdmin):
    """Backfills whose channels the user may all read."""

    list_display = (
        "id",
        "workspace",
        "state",
        "since",
        "until",
        "cap_tokens",
        "cap_dollars",
        "author",
        "created_at",
        "finished_at",
    )
    details = ("pause_reason", "estimate")
    list_filter = (
        needs_attention(*Backfill.UNFINISHED),
        "state",
        ("workspace", VisibleFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("workspace", "author")
    search_fields = ("=id", "workspace__slug", "author__username", "state")
    ordering = ("-pk",)
    actions = (
        row_action("pause", _("Pause"), Backfill.pause),
        row_action("resume", _("Resume"), Backfill.resume),
        row_action("cancel", _("Cancel; finished memories are kept"), Backfill.cancel),
    )
    hidden_fields = ("estimate",)

    @admin.display(description=_("from"), ordering="since_us")
    def since(self, backfill: Backfill) -> Any:
        if not backfill.since_us:
            return _("from the first message")
        return display_value(from_micros(backfill.since_us))

    @admin.display(description=_("until"), ordering="until_us")
    def until(self, backfill: Backfill) -> str:
        return display_value(from_micros(backfill.until_us))

    @admin.display(description=_("limit in dollars"), ordering="cap_micros")
    def cap_dollars(self, backfill: Backfill) -> str:
        cap = backfill.cap_micros
        return display_value(None if cap is None else f"{cap / MICROS:.2f}")
