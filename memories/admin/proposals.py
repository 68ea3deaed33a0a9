"""Proposals of lines and notes for readable memories, to approve or reject one or several."""

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
    needs_attention,
    preview,
    user_of,
)
from memories.models import Proposal
from memories.pipeline.memory import review


@admin.register(Proposal)
class ProposalAdmin(ReadOnly, AudienceAdmin):
    list_display = (
        *("id", "beginning", "note_type", "place", "state", "author", "api_key", "decided_by"),
        "created_at",
    )
    list_display_links = ("id", "beginning")
    list_filter = (
        needs_attention(Proposal.State.OPEN),
        "state",
        ("memory__workspace", VisibleFilter),
        ("memory__channel", VisibleFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = (
        *("memory__workspace", "memory__channel", "author", "api_key", "decided_by"),
    )
    search_fields = ("line_text", "text")
    ordering = ("-pk",)
    actions = ("approve", "reject")
    fields = (
        *("place", "line_text", "text", "note_type", "reason", "source_text", "state"),
        *("author", "api_key", "created_at", "decided_by", "decided_at"),
    )

    @admin.display(description=_("proposed text"))
    def beginning(self, proposal: Proposal) -> str:
        return preview(proposal.text)

    @admin.display(description=_("memory"), ordering="memory")
    def place(self, proposal: Proposal) -> str:
        return str(proposal.memory)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_memory")

    @admin.action(description=_("Approve"), permissions=["operate"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        by = user_of(request)
        rows = queryset.select_related("memory__workspace", "author").order_by("pk")
        count = sum(review.approve(row, by=by) for row in rows)
        text = ngettext("%(count)d proposal approved.", "%(count)d proposals approved.", count)
        self.report(request, text, count)

    @admin.action(description=_("Reject"), permissions=["operate"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        by = user_of(request)
        rows = queryset.select_related("memory__workspace")
        count = sum(review.reject(row, by=by) for row in rows)
        text = ngettext("%(count)d proposal rejected.", "%(count)d proposals rejected.", count)
        self.report(request, text, count)
