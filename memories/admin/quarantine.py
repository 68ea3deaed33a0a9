"""Quarantined lines, for whoever reads their memories: rejected here, accepted on the pages."""

from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import AudienceAdmin, ReadOnly, ValueFilter, VisibleFilter, preview
from memories.models import QuarantinedLine, User


@admin.register(QuarantinedLine)
class QuarantinedLineAdmin(ReadOnly, AudienceAdmin):
    list_display = ("id", "beginning", "rule", "place", "state", "decided_by", "created_at")
    list_display_links = ("id", "beginning")
    list_filter = (
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
        memory = line.memory
        return f"{memory.channel or memory.workspace} {memory.thread_ts}".strip()

    @admin.display(description=_("messages it rests on"))
    def traced_to(self, line: QuarantinedLine) -> str:
        """Who reads the line reads its messages (`visible_to`)."""
        return ", ".join(map(str, line.sources.order_by("micros")))

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_memory")

    @admin.action(description=_("Reject: they stay out"), permissions=["operate"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        by = cast(User, request.user)  # the admin lets nobody in who is not signed in
        count = sum(line.reject(by=by) for line in queryset.select_related("memory__workspace"))
        text = ngettext("%(count)d line was rejected.", "%(count)d lines were rejected.", count)
        level = messages.SUCCESS if count else messages.WARNING
        self.message_user(request, text % {"count": count}, level)
