"""Backfills: their state and estimate, and actions to pause, resume and cancel them."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import (
    AudienceAdmin,
    ReadOnly,
    VisibleFilter,
    display_value,
    needs_attention,
    user_of,
)
from memories.models import Backfill, User
from memories.rules.costs.money import MICROS
from memories.rules.ingest.timestamps import from_micros


@admin.register(Backfill)
class BackfillAdmin(ReadOnly, AudienceAdmin):
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
    list_filter = (
        needs_attention(*Backfill.UNFINISHED),
        "state",
        ("workspace", VisibleFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("workspace", "author")
    search_fields = ("=id", "workspace__slug", "author__username", "state")
    ordering = ("-pk",)
    actions = ("pause", "resume", "cancel")
    hidden_fields = ("estimate",)
    fields = (
        "workspace",
        "state",
        "pause_reason",
        "since",
        "until",
        "cap_tokens",
        "cap_dollars",
        "estimate",
        "author",
        "created_at",
        "finished_at",
    )

    @admin.display(description=_("from"), ordering="since_us")
    def since(self, backfill: Backfill) -> Any:
        beginning = _("from the first message")
        return display_value(from_micros(backfill.since_us)) if backfill.since_us else beginning

    @admin.display(description=_("until"), ordering="until_us")
    def until(self, backfill: Backfill) -> str:
        return display_value(from_micros(backfill.until_us))

    @admin.display(description=_("limit in dollars"), ordering="cap_micros")
    def cap_dollars(self, backfill: Backfill) -> str:
        cap = backfill.cap_micros
        return display_value(None if cap is None else f"{cap / MICROS:.2f}")

    @admin.action(description=_("Pause"), permissions=["operate"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(request, queryset, Backfill.pause)

    @admin.action(description=_("Resume"), permissions=["operate"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(request, queryset, Backfill.resume)

    @admin.action(description=_("Cancel; finished memories are kept"), permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(request, queryset, Backfill.cancel)

    def _act(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        change: Callable[[Backfill, User | None], bool],
    ) -> None:
        count = sum(change(backfill, user_of(request)) for backfill in queryset.distinct())
        text = ngettext("%(count)d backfill changed.", "%(count)d backfills changed.", count)
        self.report(request, text, count)
