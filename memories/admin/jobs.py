"""Jobs with their calls and costs, and actions to retry, cancel, accept and reject them."""

from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    ReadOnly,
    ReadOnlyInline,
    ValueFilter,
    VisibleFilter,
    display_value,
    needs_attention,
    user_of,
)
from memories.models import Job, JobInput, ModelCall, Reader, StaleBase
from memories.pipeline.generate import job_control
from memories.pipeline.memory import proposals


class InputInline(ReadOnlyInline):
    model = JobInput
    fields = readonly_fields = ("version_key", "revision")
    verbose_name_plural = _("input versions")

    @admin.display(description=_("version"))
    def version_key(self, read: JobInput) -> int:
        return read.version_id


class CallInline(ReadOnlyInline):
    model = ModelCall
    fields = readonly_fields = (
        "fence",
        "model",
        "began_at",
        "ended_at",
        "tokens",
        "micros",
        "prompt_tokens",
        "completion_tokens",
        "requests",
        "fault",
    )
    verbose_name_plural = _("calls")


@admin.register(Job)
class JobAdmin(ReadOnly, AudienceAdmin):
    """Operators see every row. Only readers of the memory see its name and the message of the endpoint.

    Nobody sees a reply here.
    """

    list_display = (
        "id",
        "state",
        "place",
        "attempts",
        "fault",
        "not_before",
        "sizes",
        "model",
        "created_at",
        "finished_at",
    )
    list_filter = (
        needs_attention(Job.State.DEAD, Job.State.PROPOSED),
        "state",
        "memory__scope",
        "memory__memory_type",
        ("memory__workspace", VisibleFilter),
        ("fault", ValueFilter),
        ("model", ValueFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("memory__workspace", "memory__channel", "base")
    search_fields = ("=id", "fault", "model", "prompt_version", "input_key")
    ordering = ("-pk",)
    actions = ("retry", "cancel", "accept", "reject")
    hidden_fields = ("reply", "reply_sources", "fault_text")
    inlines = (CallInline, InputInline)
    fields = (
        "place",
        "state",
        "trigger",
        "provisional",
        "segment_key",
        "base_key",
        "attempts",
        "workers_lost",
        "strategy",
        "backfill",
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

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        rows = cast(Any, rows).with_is_readable(reader)
        return rows if reader.is_operator else rows.filter(is_readable=True)

    @admin.display(description=_("memory"), ordering="memory")
    def place(self, job: Any) -> Any:
        if not job.is_readable:
            return _("private")
        return str(job.memory)

    @admin.display(description=_("segment"))
    def segment_key(self, job: Job) -> str:
        return display_value(job.segment_id)

    @admin.display(description=_("based on version"))
    def base_key(self, job: Job) -> str:
        return display_value(job.base_id)

    @admin.display(description=_("outcome"))
    def what_happened(self, job: Any) -> str:
        return job.fault_text if job.is_readable else ""

    @admin.display(description=_("proposed"))
    def sizes(self, job: Job) -> str:
        """Return the tokens of the current and of the proposed text."""
        return " → ".join(map(str, proposals.token_counts(job) or ()))

    @admin.action(description=_("Retry failed or cancelled jobs"), permissions=["operate"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count = job_control.retry_jobs(queryset, user_of(request))
        text = ngettext(
            "%(count)d job will be retried.",
            "%(count)d jobs will be retried.",
            count,
        )
        self.report(request, text, count)

    @admin.action(description=_("Cancel waiting jobs"), permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count = job_control.cancel_jobs(queryset, user_of(request))
        text = ngettext("%(count)d job was cancelled.", "%(count)d jobs were cancelled.", count)
        self.report(request, text, count)

    @admin.action(description=_("Approve proposals"), permissions=["operate"])
    def accept(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count, stale = 0, 0
        for job in self._proposed(queryset):
            try:
                count += proposals.accept(job, by=user_of(request)) is not None
            except StaleBase:
                stale += 1
        text = ngettext(
            "%(count)d proposal was approved.", "%(count)d proposals were approved.", count
        )
        self.report(request, text, count)
        if stale:
            text = gettext("A memory changed after its text was proposed. It is merged again.")
            self.message_user(request, text, messages.WARNING)

    @admin.action(description=_("Reject proposals"), permissions=["operate"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count = sum(proposals.reject(job, by=user_of(request)) for job in self._proposed(queryset))
        text = ngettext(
            "%(count)d proposal was rejected.", "%(count)d proposals were rejected.", count
        )
        self.report(request, text, count)

    @staticmethod
    def _proposed(queryset: QuerySet[Any]) -> list[Job]:
        """Return the proposals whose text the user may read."""
        return list(queryset.filter(is_readable=True, state=Job.State.PROPOSED))
