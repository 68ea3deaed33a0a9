"""Quarantined lines of readable memories. The admin rejects lines, and only the pages accept them."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import (
    AudienceAdmin,
    ReadOnly,
    ValueFilter,
    VisibleFilter,
    display_value,
    needs_attention,
    preview,
    user_of,
)
from memories.models import QuarantinedLine
from memories.rules.ingest.markup import strip_channel_labels
from memories.rules.ingest.timestamps import from_micros


@admin.register(QuarantinedLine)
class QuarantinedLineAdmin(ReadOnly, AudienceAdmin):
    list_display = ("id", "beginning", "rule", "place", "state", "decided_by", "created_at")
    list_display_links = ("id", "beginning")
    list_filter = (
        needs_attention(QuarantinedLine.State.WAITING),
        "state",
        ("rule", ValueFilter),
        ("memory__workspace", VisibleFilter),
        ("memory__channel", VisibleFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("memory__workspace", "memory__channel", "decided_by")
    search_fields = ("text",)
    ordering = ("-pk",)
    actions = ("reject",)
    fields = (
        "text",
        "rule",
        "place",
        "traced_to",
        "state",
        "decided_by",
        "decided_at",
        "created_at",
    )

    @admin.display(description=_("text"))
    def beginning(self, line: QuarantinedLine) -> str:
        return preview(line.text)

    @admin.display(description=_("memory"), ordering="memory")
    def place(self, line: QuarantinedLine) -> str:
        return str(line.memory)

    @admin.display(description=_("source messages"))
    def traced_to(self, line: QuarantinedLine) -> str:
        # `visible_to` shows a line only to readers of its messages.
        sources = line.sources.select_related("author").order_by("micros")
        return format_html_join(
            mark_safe("<br>"),
            "{}, {}: {}",
            (
                (message.author_name, display_value(from_micros(message.micros)), preview(text))
                for message in sources
                for text in [strip_channel_labels(message.text)]
            ),
        )

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_memory")

    @admin.action(description=_("Reject: keep out of memories"), permissions=["operate"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        rows = queryset.select_related("memory__workspace")
        count = sum(line.reject(by=user_of(request)) for line in rows)
        text = ngettext("%(count)d line was rejected.", "%(count)d lines were rejected.", count)
        self.report(request, text, count)
