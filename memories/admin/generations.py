"""Generations: the truth about jobs and their cost, for whoever runs them."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories.admin.audience import AudienceAdmin, ReadOnly, ReadOnlyInline, VisibleFilter
from memories.models import Generation, GenerationInput, Memory, Reader


class InputInline(ReadOnlyInline):
    model = GenerationInput
    fields = readonly_fields = ("version_key", "revision")
    verbose_name_plural = _("versions read")

    @admin.display(description=_("version"))
    def version_key(self, read: GenerationInput) -> int:
        return read.version_id


@admin.register(Generation)
class GenerationAdmin(ReadOnly, AudienceAdmin):
    """Operators see every row, as facts of operation: whose memory it is and what an endpoint said
    only to its readers, a reply to nobody."""

    list_display = (
        "id",
        "state",
        "place",
        "kind",
        "attempts",
        "fault",
        "model",
        "prompt_version",
        "prompt_tokens",
        "completion_tokens",
        "calls",
        "seconds",
        "created_at",
        "finished_at",
    )
    list_filter = (
        "state",
        "memory__scope",
        "memory__memory_type",
        ("memory__workspace", VisibleFilter),
        "fault",
        "model",
    )
    list_select_related = ("memory__workspace", "memory__channel")
    search_fields = ("=id", "fault", "model", "prompt_version", "input_key")
    date_hierarchy = "created_at"
    ordering = ("-pk",)
    actions = ("retry",)
    hidden_fields = ("reply", "cites", "fault_text")
    inlines = (InputInline,)
    fields = (
        "place",
        "kind",
        "state",
        "trigger",
        "provisional",
        "segment_key",
        "base_key",
        "attempts",
        "not_before",
        "lease_until",
        "fence",
        "fault",
        "what_happened",
        "model",
        "prompt_version",
        "prompt_tokens",
        "completion_tokens",
        "calls",
        "seconds",
        "input_key",
        "created_at",
        "finished_at",
    )

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        readable = Memory.objects.visible_to(reader).filter(pk=OuterRef("memory"))
        rows = rows.annotate(is_readable=Exists(readable))
        return rows if reader.is_operator else rows.filter(is_readable=True)

    @admin.display(description=_("memory"), ordering="memory")
    def place(self, generation: Any) -> Any:
        if not generation.is_readable:
            return _("private")
        memory = generation.memory
        return f"{memory.channel or memory.workspace} {memory.thread_ts}".strip()

    @admin.display(description=_("type"), ordering="memory__memory_type")
    def kind(self, generation: Generation) -> str:
        return generation.memory.get_memory_type_display()

    @admin.display(description=_("segment"))
    def segment_key(self, generation: Generation) -> int | None:
        return generation.segment_id

    @admin.display(description=_("based on version"))
    def base_key(self, generation: Generation) -> int | None:
        return generation.base_id

    @admin.display(description=_("what happened"))
    def what_happened(self, generation: Any) -> str:
        return generation.fault_text if generation.is_readable else ""

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_generation")

    @admin.action(description=_("Retry what was given up"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Offer dead letters again; the next tick of the worker takes them."""
        count = sum(generation.retry() for generation in queryset)
        text = ngettext(
            "%(count)d generation will be tried again.",
            "%(count)d generations will be tried again.",
            count,
        )
        level = messages.SUCCESS if count else messages.WARNING
        self.message_user(request, text % {"count": count}, level)
