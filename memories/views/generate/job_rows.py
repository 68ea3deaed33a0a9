"""Jobs as the pages show them: status, reason, remedy and cost.

A few queries read any number of rows: the jobs, and their costs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, Exists, IntegerField, OuterRef, Q, Value, When
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memories.models import Job, MemoryVersion, QuarantinedLine
from memories.models.generate.job_queries import JobQuerySet
from memories.pipeline.costs.usage import Sums, sum_by_job
from memories.pipeline.generate.job_control import endpoint_in_use, find_wait
from memories.rules.generate.faults import MAX_ATTEMPTS
from memories.rules.generate.job_status import Status, WaitReason, status_of
from memories.views.access.access import WorkspaceAccess

State = Job.State

LABELS: dict[Status, str | Promise] = {
    Status.QUEUED: _("queued"),
    Status.RUNNING: _("running"),
    Status.WAITING: _("waiting"),
    Status.PAUSED: _("paused"),
    Status.DONE: _("done"),
    Status.DONE_WITH_ERRORS: _("done with errors"),
    Status.FAILED: _("failed"),
    Status.CANCELLED: _("cancelled"),
    Status.REPLACED: _("replaced by a newer job"),
}
ICONS = {
    Status.QUEUED: "author-icon-provisional",
    Status.RUNNING: "author-icon-model",
    Status.WAITING: "clock",
    Status.PAUSED: "pause",
    Status.DONE: "check",
    Status.DONE_WITH_ERRORS: "alert",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
    Status.REPLACED: "restore",
}
WAITS: dict[WaitReason, str | Promise] = {
    WaitReason.TURN: _("a worker starts it next"),
    WaitReason.NO_WORKER: _("its worker stopped; another worker continues"),
    WaitReason.LATER: _("it is retried"),
    WaitReason.BUDGET: _("budget reached"),
    WaitReason.ENDPOINT: _("calls to the model are paused"),
    WaitReason.BACKFILL: _("its backfill is not running"),
    WaitReason.PERSON: _("its text needs approval"),
}
_PROVIDER = _("Check the status of the model provider, then retry.")
_OTHER_MODEL = _("Retry. If the fault returns, use another model.")
REMEDIES: dict[str, str | Promise] = {
    "server_error": _PROVIDER,
    "connection": _PROVIDER,
    "timeout": _PROVIDER,
    "malformed": _PROVIDER,
    "empty": _PROVIDER,
    "bad_request": _("Correct the model name or address on the server, then retry."),
    "context_too_long": _("Use a model with a longer context, then retry."),
    "length": _("Allow longer memories in the settings, then retry."),
    "content_filter": _("Use another model, then retry."),
    "refusal": _("Use another model, then retry."),
    "quarantined": _("Check the lines in quarantine. A retry calls the model again."),
    "gave_no_answer": _("Check the server log for the reason, then retry."),
    "not_closed": _("Check the server log for the reason, then retry."),
    "unexpected": _("Check the server log, then retry."),
}


@dataclass(frozen=True)
class JobRow:
    """A job with what a page shows of it. ``sums`` is None when no model was called."""

    job: Any
    status: Status
    wait: WaitReason | None
    until: datetime | None
    sums: Sums | None

    @property
    def pk(self) -> int:
        return int(self.job.pk)

    @property
    def label(self) -> str | Promise:
        return LABELS[self.status]

    @property
    def icon(self) -> str:
        return ICONS[self.status]

    @property
    def wait_text(self) -> str | Promise:
        return WAITS.get(self.wait, "") if self.wait and self.status != Status.RUNNING else ""

    @property
    def fault(self) -> str:
        """Why it failed or waits. An earlier fault of a job that was retried is not shown."""
        is_cause = self.status is Status.FAILED or self.wait in (
            WaitReason.LATER,
            WaitReason.BUDGET,
        )
        return str(self.job.fault) if is_cause else ""

    @property
    def remedy(self) -> str | Promise:
        return REMEDIES.get(self.job.fault, _OTHER_MODEL)

    @property
    def tokens(self) -> int:
        return int(self.job.prompt_tokens + self.job.completion_tokens)

    @property
    def max_attempts(self) -> int:
        return MAX_ATTEMPTS

    @property
    def is_active(self) -> bool:
        return self.status in (Status.RUNNING, Status.QUEUED)

    @property
    def is_over(self) -> bool:
        return self.job.state not in Job.OPEN

    @property
    def can_retry(self) -> bool:
        return self.job.state in (State.DEAD, State.CANCELLED)

    @property
    def can_cancel(self) -> bool:
        return bool(self.job.state == State.WAITING)

    @property
    def shown_values(self) -> tuple[Any, ...]:
        """All shown values that may change. An open page refreshes when one of them does."""
        job = self.job
        return (
            *(job.pk, job.attempts, job.fault),
            *(self.status, self.wait, self.until, self.tokens, self.sums),
        )


def get_listed_jobs(access: WorkspaceAccess) -> JobQuerySet:
    """Return all jobs of the workspace with what a row shows. Not all are for the reader."""
    lines = QuarantinedLine.objects.filter(job=OuterRef("pk"))
    incomplete = MemoryVersion.objects.filter(job=OuterRef("pk"), trigger__left_out__gt=0)
    has_errors = Exists(lines) | Exists(incomplete)
    return (
        Job.objects.listed_in(access.workspace)
        .select_related("memory__channel", "memory__workspace", "backfill")
        .annotate(has_errors=Case(When(has_errors, then=Value(True)), default=Value(False)))
    )


def get_visible_jobs(access: WorkspaceAccess) -> JobQuerySet:
    """Return the workspace's jobs that the reader may see."""
    return get_listed_jobs(access).shown_to(access.reader)


def failed_jobs(jobs: JobQuerySet) -> JobQuerySet:
    return jobs.filter(state=State.DEAD).order_by("-pk")


def open_jobs(jobs: JobQuerySet) -> JobQuerySet:
    """Return running jobs, then waiting ones, oldest first."""
    # By their keys: SQLite would read all jobs of each memory for the states.
    rows = jobs.filter(pk__in=Job.objects.filter(state__in=Job.OPEN).values("pk"))
    rank = Case(
        When(state__in=(State.CLAIMED, State.REPLIED), then=Value(0)),
        default=Value(1),
        output_field=IntegerField(),
    )
    return rows.annotate(rank=rank).order_by("rank", "pk")


def finished_jobs(jobs: JobQuerySet, before: int | None) -> JobQuerySet:
    """Return finished jobs, newest first, from the one before this key on."""
    older = Q() if before is None else Q(pk__lt=before)
    # `exclude`: SQLite would sort all finished jobs for a list of states.
    return jobs.filter(older).exclude(state__in=(*Job.OPEN, State.DEAD)).order_by("-pk")


def build_rows(now: datetime, *lists: Iterable[Any]) -> list[list[JobRow]]:
    """Return rows for each list of jobs. One query reads the costs of all."""
    job_lists = [list(jobs) for jobs in lists]
    costs = sum_by_job([job.pk for jobs in job_lists for job in jobs])
    endpoint = endpoint_in_use().first()
    refusal = endpoint.breaker.find_refusal(now) if endpoint else None

    def build_row(job: Any) -> JobRow:
        wait = find_wait(job, now, endpoint_closed=refusal is not None)
        until = None
        if wait in (WaitReason.LATER, WaitReason.BUDGET):
            until = job.retry_at
        elif wait is WaitReason.ENDPOINT and refusal is not None:
            until = refusal[1]
        status = status_of(job.state, wait, has_errors=job.has_errors)
        return JobRow(job, status, wait, until, costs.get(job.pk))

    return [[build_row(job) for job in jobs] for jobs in job_lists]
