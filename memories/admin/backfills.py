"""Backfills: their quote, their state, and a person's word on them."""

from collections.abc import Callable
from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import AudienceAdmin, ReadOnly, VisibleFilter, spelled
from memories.models import Backfill, User
from memories.rules.costs.money import MICROS
from memories.rules.ingest.timestamps import from_micros


@admin.register(Backfill)
class BackfillAdmin(ReadOnly, AudienceAdmin):
    """One that touches a channel out of the user's sight is out of sight."""

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
        "state",
        ("workspace", VisibleFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("workspace", "author")
    search_fields = ("=id", "workspace__slug", "author__username", "state")
    ordering = ("-pk",)
    actions = ("pause", "resume", "cancel")
    hidden_fields = ("quote",)
    fields = (
        "workspace",
        "state",
        "paused_by",
        "since",
        "until",
        "cap_tokens",
        "cap_dollars",
        "quote",
        "author",
        "created_at",
        "finished_at",
    )

    @admin.display(description=_("from"), ordering="since_us")
    def since(self, backfill: Backfill) -> Any:
        beginning = _("from the first message")
        return spelled(from_micros(backfill.since_us)) if backfill.since_us else beginning

    @admin.display(description=_("until"), ordering="until_us")
    def until(self, backfill: Backfill) -> str:
        return spelled(from_micros(backfill.until_us))

    @admin.display(description=_("cap in dollars"), ordering="cap_micros")
    def cap_dollars(self, backfill: Backfill) -> str:
        cap = backfill.cap_micros
        return spelled(None if cap is None else f"{cap / MICROS:.2f}")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_backfill")

    @admin.action(description=_("Pause"), permissions=["operate"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(request, queryset, Backfill.pause)

    @admin.action(description=_("Resume"), permissions=["operate"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(request, queryset, Backfill.resume)

    @admin.action(description=_("Cancel; what is done stays"), permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(request, queryset, Backfill.cancel)

    def _act(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        verb: Callable[[Backfill, User | None], bool],
    ) -> None:
        by = cast(User, request.user)
        count = sum(verb(backfill, by) for backfill in queryset.distinct())
        text = ngettext("%(count)d backfill changed.", "%(count)d backfills changed.", count)
        level = messages.SUCCESS if count else messages.WARNING
        self.message_user(request, text % {"count": count}, level)
