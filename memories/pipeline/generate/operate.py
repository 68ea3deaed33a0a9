"""What people do about jobs: see what holds them up, let them go on, offer them again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, QuerySet, Subquery

from memories.models import Endpoint, Heartbeat, Job, Reader, User, Workspace
from memories.pipeline.costs.usage import CapUse, cap_uses
from memories.rules.generate.circuit_breaker import Refusal
from memories.rules.generate.job_status import Blocker, WaitReason, find_blocker, find_wait_reason


@dataclass(frozen=True)
class Health:
    """How the installation does: the last sign of a worker, the model's endpoint, caps that are
    used up, and how many jobs are in which state (of the rows asked about, those that are open)."""

    worker_at: datetime | None
    endpoint: Endpoint | None
    refusal: tuple[Refusal, datetime | None] | None
    caps: list[CapUse]
    counts: dict[str, int]


def endpoint_in_use() -> "QuerySet[Endpoint]":
    """The endpoint that was last heard of. One of an earlier key or model says nothing any more."""
    return Endpoint.objects.order_by("-changed_at", "-pk")[:1]


def health(reader: Reader, jobs: QuerySet[Job], now: datetime) -> Health:
    endpoint = endpoint_in_use().first()
    open_states = (*Job.UNFINISHED, Job.State.PROPOSED, Job.State.DEAD)
    counts = jobs.filter(state__in=open_states).order_by().values("state")
    return Health(
        Heartbeat.objects.last_beat(),
        endpoint,
        endpoint.breaker.find_refusal(now) if endpoint else None,
        [use for use in cap_uses(reader, None, now) if use.is_reached],
        {row["state"]: row["n"] for row in counts.annotate(n=Count("pk"))},
    )


def trouble_of(workspace: Workspace, now: datetime) -> Blocker | None:
    """What a page of this workspace should tell, in one query. Without an endpoint no call is ever
    made, so no cap is reached either."""
    waiting = Job.objects.over_cap().filter(memory__workspace=workspace)
    waiting = waiting.filter(not_before__gt=now).order_by("not_before")
    endpoints = endpoint_in_use().annotate(capped_until=Subquery(waiting.values("not_before")[:1]))
    for endpoint in endpoints:
        return find_blocker(endpoint.breaker, endpoint.capped_until, now)
    return None


def wait_of(job: Job, now: datetime, *, endpoint_closed: bool) -> WaitReason | None:
    """What it waits for; read it with its backfill."""
    return find_wait_reason(
        job.state,
        now,
        fault=job.fault,
        not_before=job.not_before,
        lease_until=job.lease_until,
        backfill_state=job.backfill.state if job.backfill else "",
        is_endpoint_closed=endpoint_closed,
    )


def resume(by: User | None, now: datetime) -> int:
    """Let calls go again wherever an endpoint takes none; returns how many those were."""
    closed = [endpoint for endpoint in Endpoint.objects.all() if endpoint.breaker.find_refusal(now)]
    return sum(endpoint.resume(by) for endpoint in closed)


def retry(jobs: Iterable[Job], by: User | None) -> int:
    """Offer these again. It is a person's word that calls may go, so an endpoint that waits for
    one is resumed as well. Returns how many there were to offer."""
    for endpoint in Endpoint.objects.filter(needs_person=True):
        endpoint.resume(by)
    return sum(job.retry(by) for job in jobs)


def cancel(jobs: Iterable[Job], by: User | None) -> int:
    """Do not make these; returns how many were still waiting."""
    return sum(job.cancel(by) for job in jobs)
