"""Values of the database for Prometheus (docs/operate.md, Metrics).

They are the same in every process, so they are computed at each scrape. Each query reads a small table
or a part of an index, whatever the number of messages and finished jobs.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, F, Q, Sum
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import Task
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memories.models import Channel, Heartbeat, Job, ModelCall, Workspace
from memories.models.generate.endpoints import Endpoint
from memories.models.generate.job_states import OPEN, JobState
from memories.pipeline.sync.coverage import TEMPORARY_CODES
from memories.rules.costs.money import MICROS
from memoryhub import __version__

logger = logging.getLogger(__name__)


class DatabaseCollector(Collector):
    """Collects gauges from the database. A label is a name that an operator knows, never a text."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = timezone.now()
        info = _gauge("info", "1, with the version of the program.", "version")
        info.add_metric([__version__], 1)
        yield info
        yield from _jobs()
        yield from _model_calls(now)
        yield _blocked_endpoints(now)
        yield from _workspaces(now)
        yield from _channels()
        yield _tasks(now)
        yield from _queue()
        yield from _workers(now)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"memoryhub_{name}", text, labels=labels)


def _jobs() -> Iterator[GaugeMetricFamily]:
    jobs = _gauge("jobs", "Jobs that are not finished, and failed ones, by state.", "state")
    states = (*OPEN, JobState.DEAD)
    counts = dict(
        Job.objects.filter(state__in=states).order_by().values_list("state").annotate(Count("pk"))
    )
    for state in states:
        jobs.add_metric([str(state)], counts.get(state, 0))
    yield jobs
    over_budget = _gauge("jobs_over_budget", "Jobs that wait because a budget is used up.")
    over_budget.add_metric([], Job.objects.over_budget().order_by().count())
    yield over_budget


def _model_calls(now: datetime) -> Iterator[GaugeMetricFamily]:
    """Yield the sums of today (UTC), as the budgets count them."""
    calls = _gauge("model_calls_today", "Calls of a model today (UTC).", "model")
    failed = _gauge("failed_model_calls_today", "Failed calls of a model today.", "model")
    tokens = _gauge("model_tokens_today", "Tokens of a model today.", "model", "direction")
    dollars = _gauge("model_dollars_today", "Dollars used or reserved today.", "model")
    rows = (
        ModelCall.objects.filter(day=now.date())
        .order_by()
        .values("model")
        .annotate(
            calls=Count("pk"),
            failed=Count("pk", filter=~Q(fault="")),
            tokens_in=Sum("prompt_tokens"),
            tokens_out=Sum("completion_tokens"),
            micros=Sum("micros"),
        )
    )
    for row in rows:
        calls.add_metric([row["model"]], row["calls"])
        failed.add_metric([row["model"]], row["failed"])
        tokens.add_metric([row["model"], "in"], row["tokens_in"])
        tokens.add_metric([row["model"], "out"], row["tokens_out"])
        dollars.add_metric([row["model"]], (row["micros"] or 0) / MICROS)
    yield from (calls, failed, tokens, dollars)


def _blocked_endpoints(now: datetime) -> GaugeMetricFamily:
    blocked = _gauge("endpoint_blocked", "1 while no call to a model may begin.", "endpoint")
    newest = {endpoint.name: endpoint for endpoint in Endpoint.objects.order_by("changed_at")}
    for name, endpoint in newest.items():
        blocked.add_metric([name], int(endpoint.breaker.find_refusal(now) is not None))
    return blocked


def _workspaces(now: datetime) -> Iterator[GaugeMetricFamily]:
    lag = _gauge("sync_lag_seconds", "Age of the last complete sync with Slack.", "workspace")
    wait = _gauge("pass_wait_seconds", "Time for which a queued pass has waited.", "workspace")
    for workspace in Workspace.objects.all():
        if workspace.connected_at is not None:
            last = workspace.synced_at or workspace.connected_at
            lag.add_metric([workspace.slug], (now - last).total_seconds())
        due_at = workspace.pass_due_at or now
        wait.add_metric([workspace.slug], (now - due_at).total_seconds())
    yield from (lag, wait)


def _channels() -> Iterator[GaugeMetricFamily]:
    failing = _gauge(
        "failing_channels", "Followed channels that the sync cannot read.", "workspace"
    )
    gaps = _gauge(
        "coverage_gaps", "Followed channels with a range of unread messages.", "workspace"
    )
    has_gap = Q(sync__history_reached_ts__gt=F("sync__synced_ts"))
    unread = Channel.objects.failing(TEMPORARY_CODES).values("pk")
    rows = (
        Channel.objects.filter(is_followed=True, workspace__connected_at__isnull=False)
        .order_by()
        .values_list("workspace__slug")
        .annotate(failing=Count("pk", filter=Q(pk__in=unread)), gaps=Count("pk", filter=has_gap))
    )
    for slug, failing_count, gap_count in rows:
        failing.add_metric([slug], failing_count)
        gaps.add_metric([slug], gap_count)
    yield from (failing, gaps)


def _tasks(now: datetime) -> GaugeMetricFamily:
    """Return the tasks of an hour. django-q2 keeps the last 500 successes only."""
    tasks = _gauge(
        "tasks_last_hour", "Ended tasks; `remember` is a pass over a workspace.", "task", "result"
    )
    rows = (
        Task.objects.filter(stopped__gte=now - timedelta(hours=1))
        .order_by()
        .values_list("func", "success")
        .annotate(Count("pk"))
    )
    for function, is_success, count in rows:
        name = function.removeprefix("memories.tasks.")
        tasks.add_metric([name, "success" if is_success else "failure"], count)
    return tasks


def _queue() -> Iterator[GaugeMetricFamily]:
    """Yield the length of the queue, or nothing while the broker cannot be reached."""
    queue = _gauge("queue_length", "Tasks in the queue.")
    try:
        queue.add_metric([], get_broker().queue_size())
    except Exception as error:  # of any broker
        logger.warning("the queue cannot be read: %s", type(error).__name__)
    yield queue


def _workers(now: datetime) -> Iterator[GaugeMetricFamily]:
    workers = _gauge("workers", "Workers with a recent heartbeat.")
    age = _gauge("heartbeat_age_seconds", "Age of the newest heartbeat of all workers.")
    ages = [
        (now - at).total_seconds()
        for at in Heartbeat.objects.exclude(at=None).values_list("at", flat=True)
        if at is not None
    ]
    workers.add_metric([], sum(value <= settings.MEMORYHUB_HEARTBEAT_MAX for value in ages))
    if ages:
        age.add_metric([], min(ages))
    yield from (workers, age)
