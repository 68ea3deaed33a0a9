"""Quarantined lines of readable memories. The admin rejects lines, and only the pages approve them."""

from django.contrib import admin
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    OfMemory,
    ValueFilter,
    display_value,
    needs_attention,
    preview,
    row_action,
)
from memories.models import QuarantinedLine
from memories.rules.ingest.markup import strip_channel_labels
from memories.rules.ingest.timestamps import from_micros


@admin.register(QuarantinedLine)
class QuarantinedLineAdmin(OfMemory):
    list_display = ("id", "beginning", "rule", "memory_name", "state", "decided_by", "created_at")
    details = ("text", "traced_to", "decided_at")
    list_display_links = ("id", "beginning")
    list_filter = (
        needs_attention(QuarantinedLine.State.WAITING),
        "state",
        ("rule", ValueFilter),
        *OfMemory.list_filter,
    )
    list_select_related = (*OfMemory.list_select_related, "decided_by")
    search_fields = ("text",)
    actions = (row_action("reject", _("Reject: keep out of memories"), QuarantinedLine.reject),)

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
