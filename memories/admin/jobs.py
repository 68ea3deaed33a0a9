"""Jobs with their calls and costs, to retry and cancel. Editors decide about proposed texts."""

from typing import Any, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    ReadOnlyInline,
    ValueFilter,
    VisibleFilter,
    display_value,
    needs_attention,
    row_action,
)
from memories.admin.decisions import (
    DecisionAdmin,
    DecisionForm,
    approve,
    is_listed,
    reject,
    text_field,
)
from memories.models import Job, JobInput, ModelCall, Reader, User
from memories.pipeline.generate import job_control
from memories.pipeline.memory import proposals
from memories.rules.memory.lines import MAX_TEXT_LENGTH


class InputInline(ReadOnlyInline):
    model = JobInput
    fields = readonly_fields = ("version_pk", "revision")
    verbose_name_plural = _("input versions")

    @admin.display(description=_("version"))
    def version_pk(self, job_input: JobInput) -> int:
        return job_input.version_id


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


def retry(job: Job, *, by: User) -> int:
    return job_control.retry_jobs([job], by)


class JobForm(DecisionForm):
    text = text_field(rows=20)
    max_length = MAX_TEXT_LENGTH

    class Meta:
        model = Job
        fields = ()

    def proposed_text(self) -> str:
        is_shown = is_listed(self.instance, self.user)
        return proposals.proposed_text(self.instance) if is_shown else ""


@admin.register(Job)
class JobAdmin(DecisionAdmin):
    """Operators see every row. Only readers of the memory see its name and the text of the fault.

    Only editors see the text of a reply, if it waits for their approval.
    """

    form = JobForm
    list_display = (
        "id",
        "state",
        "memory_name",
        "attempts",
        "fault",
        "retry_at",
        "token_counts",
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
    actions = (
        row_action("retry", _("Retry failed or cancelled jobs"), retry),
        row_action("cancel", _("Cancel waiting jobs"), Job.cancel),
        row_action("approve", _("Approve proposals"), approve),
        row_action("reject", _("Reject proposals"), reject),
    )
    hidden_fields = ("reply", "reply_sources", "fault_text")
    inlines = (CallInline, InputInline)
    list_only = ("id", "token_counts")
    details = (
        "trigger",
        "provisional",
        "segment_pk",
        "base_version_pk",
        "workers_lost",
        "strategy",
        "backfill",
        "lease_until",
        "fence",
        "what_happened",
        "prompt_version",
        "prompt_tokens",
        "completion_tokens",
        "calls",
        "seconds",
        "input_key",
    )

    def get_inline_instances(self, request: HttpRequest, obj: Job | None = None) -> Any:
        """Leave out the inlines for a decision. Its form does not send their fields."""
        return [] if request.method == "POST" else super().get_inline_instances(request, obj)

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        rows = cast(Any, rows).with_is_readable(reader)
        return rows if reader.is_operator else rows.filter(is_readable=True)

    @admin.display(description=_("memory"), ordering="memory")
    def memory_name(self, job: Any) -> Any:
        if not job.is_readable:
            return _("private")
        return str(job.memory)

    @admin.display(description=_("segment"))
    def segment_pk(self, job: Job) -> str:
        return display_value(job.segment_id)

    @admin.display(description=_("based on version"))
    def base_version_pk(self, job: Job) -> str:
        return display_value(job.base_id)

    @admin.display(description=_("outcome"))
    def what_happened(self, job: Any) -> str:
        return job.fault_text if job.is_readable else ""

    @admin.display(description=_("proposed"))
    def token_counts(self, job: Job) -> str:
        """Return the tokens of the current and of the proposed text."""
        return " → ".join(map(str, proposals.token_counts(job) or ()))
