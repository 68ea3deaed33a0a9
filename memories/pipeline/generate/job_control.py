"""Show what jobs wait for, and resume, retry or cancel them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, QuerySet, Subquery

from memories.models import Endpoint, Heartbeat, Job, Reader, User, Workspace
from memories.pipeline.costs.usage import BudgetUse, budget_uses
from memories.rules.generate.circuit_breaker import Refusal
from memories.rules.generate.job_status import Blocker, WaitReason, find_blocker, find_wait_reason


@dataclass(frozen=True)
class Health:
    """The state of the installation: last heartbeat, endpoint, reached budgets, and jobs by state."""

    worker_at: datetime | None
    endpoint: Endpoint | None
    refusal: tuple[Refusal, datetime | None] | None
    budgets_reached: list[BudgetUse]
    counts: dict[str, int]


def endpoint_in_use() -> "QuerySet[Endpoint]":
    """Return the endpoint that changed last. The settings name no other one any more."""
    return Endpoint.objects.order_by("-changed_at", "-pk")[:1]


def get_health(reader: Reader, jobs: QuerySet[Job], now: datetime) -> Health:
    endpoint = endpoint_in_use().first()
    open_states = (*Job.UNFINISHED, Job.State.PROPOSED, Job.State.DEAD)
    counts = jobs.filter(state__in=open_states).order_by().values("state")
    return Health(
        Heartbeat.objects.last_beat(),
        endpoint,
        endpoint.breaker.find_refusal(now) if endpoint else None,
        [use for use in budget_uses(reader, None, now) if use.is_reached],
        {row["state"]: row["n"] for row in counts.annotate(n=Count("pk"))},
    )


def find_workspace_blocker(workspace: Workspace, now: datetime) -> Blocker | None:
    """Return why no memories are made for this workspace, with one query.

    Without an endpoint there are no calls, so no budget is reached either.
    """
    over_budget = Job.objects.over_budget().filter(memory__workspace=workspace)
    over_budget = over_budget.filter(retry_at__gt=now).order_by("retry_at")
    over_budget_until = Subquery(over_budget.values("retry_at")[:1])
    endpoint = endpoint_in_use().annotate(over_budget_until=over_budget_until).first()
    return find_blocker(endpoint.breaker, endpoint.over_budget_until, now) if endpoint else None


def find_wait(job: Job, now: datetime, *, endpoint_closed: bool) -> WaitReason | None:
    """Return what a job waits for. Select its backfill with it."""
    return find_wait_reason(
        job.state,
        now,
        is_endpoint_closed=endpoint_closed,
        fault=job.fault,
        retry_at=job.retry_at,
        lease_until=job.lease_until,
        backfill_state=job.backfill.state if job.backfill else "",
    )


def resume_endpoints(by: User | None, now: datetime) -> int:
    """Reset all endpoints that refuse calls; return how many."""
    refusing = [
        endpoint for endpoint in Endpoint.objects.all() if endpoint.breaker.find_refusal(now)
    ]
    return sum(endpoint.resume(by) for endpoint in refusing)


def retry_jobs(jobs: Iterable[Job], by: User | None) -> int:
    """Retry dead and cancelled jobs; return how many. Endpoints that wait for a person resume."""
    for endpoint in Endpoint.objects.filter(needs_person=True):
        endpoint.resume(by)
    return sum(job.retry(by) for job in jobs)


def cancel_jobs(jobs: Iterable[Job], by: User | None) -> int:
    """Cancel the jobs that still wait; return how many."""
    return sum(job.cancel(by) for job in jobs)
