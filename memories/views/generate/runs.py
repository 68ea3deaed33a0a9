"""Jobs as pages show them: what each does now, since when, why, and what helps.

However many are shown, it takes two queries: one for the rows, one for what they cost.
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
from memories.views.access.access import WorkspaceContext

State = Job.State

WORDS: dict[Status, str | Promise] = {
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
SHAPES = {
    Status.QUEUED: "knot-provisional",
    Status.RUNNING: "knot-model",
    Status.WAITING: "clock",
    Status.PAUSED: "pause",
    Status.DONE: "check",
    Status.DONE_WITH_ERRORS: "alert",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
    Status.REPLACED: "restore",
}
WAITS: dict[WaitReason, str | Promise] = {
    WaitReason.TURN: _("a worker takes it next"),
    WaitReason.NO_WORKER: _("its worker is gone, another one takes it up"),
    WaitReason.LATER: _("it is tried again"),
    WaitReason.CAP: _("a cap is reached"),
    WaitReason.ENDPOINT: _("the model takes no calls now"),
    WaitReason.BACKFILL: _("its backfill does not run"),
    WaitReason.PERSON: _("a person has to accept or reject its text"),
}
_PROVIDER = _("See how the model's provider does, then retry.")
_OTHER_MODEL = _("Retry; when it comes back, take another model.")
FIXES: dict[str, str | Promise] = {
    "server_error": _PROVIDER,
    "connection": _PROVIDER,
    "timeout": _PROVIDER,
    "malformed": _PROVIDER,
    "bad_request": _("Correct the model's name or address on the server, then retry."),
    "context_too_long": _("Take a model that reads longer texts, then retry."),
    "length": _("Allow longer memories in the settings, then retry."),
    "content_filter": _("Take another model, then retry."),
    "refusal": _("Take another model, then retry."),
    "quarantined": _("Look at the lines in the quarantine; retry asks the model anew."),
    "gave_no_answer": _("See in the server's log why the worker ended, then retry."),
    "not_closed": _("See in the server's log why the worker ended, then retry."),
    "unexpected": _("See the server's log, then retry."),
}


@dataclass(frozen=True)
class Run:
    """``until``: not before then. ``sums`` None: no model was asked."""

    job: Any
    status: Status
    wait: WaitReason | None
    until: datetime | None
    sums: Sums | None

    @property
    def pk(self) -> int:
        return int(self.job.pk)

    @property
    def anchor(self) -> str:
        return f"run-{self.pk}"

    @property
    def is_readable(self) -> bool:
        return bool(self.job.is_readable)

    @property
    def word(self) -> str | Promise:
        return WORDS[self.status]

    @property
    def shape(self) -> str:
        return SHAPES[self.status]

    @property
    def why(self) -> str | Promise:
        """What it waits for; a job that runs waits for nothing."""
        return WAITS.get(self.wait, "") if self.wait and self.status != Status.RUNNING else ""

    @property
    def fault(self) -> str:
        """Why it failed or waits; what went wrong before it was offered again is over."""
        tells = self.status is Status.FAILED or self.wait in (WaitReason.LATER, WaitReason.CAP)
        return str(self.job.fault) if tells else ""

    @property
    def fix(self) -> str | Promise:
        return FIXES.get(self.job.fault, _OTHER_MODEL)

    @property
    def tokens(self) -> int:
        return int(self.job.prompt_tokens + self.job.completion_tokens)

    @property
    def most_attempts(self) -> int:
        return MAX_ATTEMPTS

    @property
    def is_active(self) -> bool:
        """Something may happen to it at any moment."""
        return self.status in (Status.RUNNING, Status.QUEUED)

    @property
    def is_over(self) -> bool:
        return self.job.state not in Job.OPEN

    @property
    def may_retry(self) -> bool:
        return self.job.state in (State.DEAD, State.CANCELLED)

    @property
    def may_cancel(self) -> bool:
        return bool(self.job.state == State.WAITING)

    @property
    def mark(self) -> tuple[Any, ...]:
        """Another one: the page looks otherwise."""
        g = self.job
        return (
            g.pk,
            self.status,
            self.wait,
            g.attempts,
            g.fault,
            self.until,
            self.tokens,
            self.sums,
        )


def rows_of(place: WorkspaceContext) -> JobQuerySet:
    """The workspace's jobs, as far as the reader is shown them."""
    lines = QuarantinedLine.objects.filter(job=OuterRef("pk"))
    partly = MemoryVersion.objects.filter(job=OuterRef("pk"), trigger__left_out__gt=0)
    quarantined = Exists(lines) | Exists(partly)
    return (
        Job.objects.listed_in(place.workspace)
        .shown_to(place.reader)
        .select_related("memory__channel", "memory__workspace", "backfill")
        .annotate(has_errors=Case(When(quarantined, then=Value(True)), default=Value(False)))
    )


def failed(rows: JobQuerySet) -> JobQuerySet:
    return rows.filter(state=State.DEAD).order_by("-pk")


def unsettled(rows: JobQuerySet) -> JobQuerySet:
    """What runs or waits. By their keys: SQLite would read all jobs of each memory for the states."""
    return rows.filter(pk__in=Job.objects.filter(state__in=Job.OPEN).values("pk"))


def going_on(rows: JobQuerySet) -> JobQuerySet:
    """What runs first, then what waits, oldest first."""
    rank = Case(
        When(state__in=(State.CLAIMED, State.REPLIED), then=Value(0)),
        default=Value(1),
        output_field=IntegerField(),
    )
    return unsettled(rows).annotate(rank=rank).order_by("rank", "pk")


def over(rows: JobQuerySet, before: int | None) -> JobQuerySet:
    """The newest first. What is not over is passed over: by their states all finished jobs would be
    sorted."""
    older = Q() if before is None else Q(pk__lt=before)
    return rows.filter(older).exclude(state__in=(*Job.OPEN, State.DEAD)).order_by("-pk")


@dataclass(frozen=True)
class Closed:
    """Whether the model's endpoint takes calls, and until when it takes none (None: nobody knows)."""

    is_closed: bool = False
    until: datetime | None = None


def closed_at(now: datetime) -> Closed:
    endpoint = endpoint_in_use().first()
    refusal = endpoint.breaker.find_refusal(now) if endpoint else None
    return Closed(refusal is not None, refusal[1] if refusal else None)


def runs(jobs: Iterable[Any], now: datetime, closed: Closed) -> list[Run]:
    """In the order given."""
    return runs_each([jobs], now, closed)[0]


def runs_each(lists: Iterable[Iterable[Any]], now: datetime, closed: Closed) -> list[list[Run]]:
    """The same of several lists; what all of them cost is asked once."""
    read = [list(jobs) for jobs in lists]
    costs = sum_by_job([job.pk for jobs in read for job in jobs])
    return [[_run(job, now, closed, costs.get(job.pk)) for job in jobs] for jobs in read]


def _run(job: Any, now: datetime, closed: Closed, sums: Sums | None) -> Run:
    wait = find_wait(job, now, endpoint_closed=closed.is_closed)
    status = status_of(job.state, wait, has_errors=job.has_errors)
    until = None
    if wait in (WaitReason.LATER, WaitReason.CAP):
        until = job.not_before
    elif wait is WaitReason.ENDPOINT:
        until = closed.until
    return Run(job, status, wait, until, sums)
