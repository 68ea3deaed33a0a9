"""The jobs of a workspace and their health, and one job with its steps."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from memories.models import Backfill, Channel, Job, MemoryVersion
from memories.models.generate.job_queries import JobQuerySet
from memories.pipeline.generate import job_control
from memories.pipeline.generate.backfill import progress_of
from memories.pipeline.sync.coverage import Coverage, coverage_of
from memories.rules.health import find_problems
from memories.rules.ingest.timestamps import ts_from_micros
from memories.tasks import schedule_pass
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_administer,
    number_or_none,
    open_workspace,
)
from memories.views.generate.health import (
    COUNT_LIMIT,
    EXPECTED_CODES,
    describe_failed,
)
from memories.views.generate.job_rows import (
    JobRow,
    build_rows,
    failed_jobs,
    finished_jobs,
    get_listed_jobs,
    get_visible_jobs,
    open_jobs,
)
from memories.views.memory.display import for_display
from memories.views.pages import (
    STOP_POLLING,
    banners,
    is_live,
    next_of,
    render_page_or_part,
    wants_part,
)
from memories.views.paths import messages_path

FAILED_SHOWN = 20
OPEN_SHOWN = 20
CHANNELS_SHOWN = 50
RECENT_SHOWN = 12
INPUTS_SHOWN = 50
WHILE_ACTIVE, WHILE_IDLE = 3, 60  # seconds between two refreshes


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """Show the jobs of a workspace.

    POST is for admins: ``retry`` or ``cancel`` with a job's key, or ``do=retry_failed``.
    """
    access = open_workspace(request, slug)
    jobs = get_visible_jobs(access)
    changed_job, news = 0, ""
    if request.method == "POST":
        must_administer(access)
        changed_job, news = _change(request, access, jobs)
        if not wants_part(request):
            toasts.success(request, news)
            return redirect(request.get_full_path())
    context = _overview(request, access, jobs) | {"news": news}
    context["focus"] = _find_focus(context, changed_job) if news else ""
    if not news and _is_unchanged(request, context["fingerprint"]):
        return HttpResponse(status=204)  # the page keeps its content and focus
    return render_page_or_part(
        request, "generate/jobs/index.html", "generate/jobs/_jobs.html", context
    )


@login_required
def detail(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Show a job. Its part refreshes until the job is over. POST ``do``: ``retry`` or ``cancel``."""
    access = open_workspace(request, slug)
    jobs = get_visible_jobs(access)
    job = get_object_or_404(jobs, pk=pk)
    if request.method == "POST":
        must_administer(access)
        news = _change_jobs(request, access, request.POST.get("do", ""), [job])
        toasts.success(request, news)
        return redirect(request.get_full_path())
    now = timezone.now()
    [[row]] = build_rows(now, [job])
    fingerprint = _fingerprint(now, row.shown_values)
    if not row.is_over and _is_unchanged(request, fingerprint):
        return HttpResponse(status=204)
    status = STOP_POLLING if wants_part(request) and row.is_over else 200
    context = {
        "access": access,
        "row": row,
        "fingerprint": fingerprint,
        "now": now,
        "live": is_live(request),
        **_steps(access, row),
    }
    return render_page_or_part(
        request, "generate/jobs/detail.html", "generate/jobs/_job.html", context, status=status
    )


@login_required
@require_POST
def resume(request: UserRequest, slug: str) -> HttpResponse:
    """Let calls to the model go on, at an admin's request, and return to the banner's page."""
    access = open_workspace(request, slug)
    must_administer(access)
    if job_control.resume_endpoints(request.user, timezone.now()):
        toasts.success(
            request, _("Calls to the model are resumed. Waiting jobs continue automatically.")
        )
    else:
        toasts.info(request, _("Calls were already resumed."))
    return redirect(next_of(request) or reverse("workspaces-detail", args=[slug]))


def _change(request: UserRequest, access: WorkspaceAccess, jobs: JobQuerySet) -> tuple[int, str]:
    """Return the key of the changed job, 0 for several, and a message."""
    if request.POST.get("do") == "retry_failed":
        return 0, _change_jobs(request, access, "retry", list(failed_jobs(jobs)))
    verb = "retry" if "retry" in request.POST else "cancel"
    key = number_or_none(request.POST.get(verb, ""))
    if key is None:
        raise Http404
    return key, _change_jobs(request, access, verb, [get_object_or_404(jobs, pk=key)])


def _change_jobs(request: UserRequest, access: WorkspaceAccess, verb: str, jobs: list[Job]) -> str:
    if verb == "retry":
        count = job_control.retry_jobs(jobs, request.user)
        if count:
            schedule_pass(access.workspace.pk)
        words = ngettext("%(n)s job will be retried.", "%(n)s jobs will be retried.", count)
    elif verb == "cancel":
        count = job_control.cancel_jobs(jobs, request.user)
        words = ngettext("%(n)s job was cancelled.", "%(n)s jobs were cancelled.", count)
    else:
        raise Http404
    return words % {"n": count} if count else _("Its state changed in the meantime.")


def _overview(request: UserRequest, access: WorkspaceAccess, jobs: JobQuerySet) -> dict[str, Any]:
    now = timezone.now()
    before = number_or_none(request.GET.get("before", ""))
    failed_total = access.health_signals.failed_jobs
    open_total = _count_limited(open_jobs(jobs).order_by())
    listed = get_listed_jobs(access)
    # Mostly there are none, and the rule of who may read them is an expensive query.
    failed, open_rows, recent = build_rows(
        now,
        failed_jobs(listed).first_shown_to(access.reader, FAILED_SHOWN) if failed_total else (),
        open_jobs(listed).first_shown_to(access.reader, OPEN_SHOWN) if open_total else (),
        finished_jobs(listed, before).first_shown_to(access.reader, RECENT_SHOWN + 1),
    )
    followed = access.readable_channels.followed().select_related("sync")
    if not access.workspace.connected_at:
        followed = followed.none()
    failing = _with_coverage(access, followed.failing(EXPECTED_CODES)[:FAILED_SHOWN], now)
    channels = _with_coverage(access, followed[:CHANNELS_SHOWN], now)
    health = _health(access, now)
    rows = [*failed, *open_rows, *recent]
    channel_states = [
        (channel.pk, coverage.synced_at, coverage.retry_at, coverage.code)
        for channel, coverage in [*failing, *channels]
    ]
    backfill = _running_backfill(access, now)
    shown_banners = banners(access)
    counts = (failed_total, open_total)
    shown = [row.shown_values for row in rows]
    fingerprint = _fingerprint(now, counts, health, channel_states, shown, backfill, shown_banners)
    is_active = any(row.is_active for row in open_rows) or backfill is not None
    return {
        **shown_banners,
        "access": access,
        "now": now,
        "health": health,
        "failed": failed,
        "failed_total": failed_total,
        "failed_more": failed_total - len(failed),
        "counted": COUNT_LIMIT,
        "failing": failing,
        "open": open_rows,
        "open_total": open_total,
        "open_more": open_total - len(open_rows),
        "recent": recent[:RECENT_SHOWN],
        "older": recent[RECENT_SHOWN - 1].pk if len(recent) > RECENT_SHOWN else None,
        "before": before,
        "channels": channels,
        "channels_more": followed.count() - len(channels),
        "backfill": backfill,
        "is_empty": not rows,
        "live": is_live(request),
        "here": _page_url(request, access, before),
        "fingerprint": fingerprint,
        "seconds": WHILE_ACTIVE if is_active else WHILE_IDLE,
    }


def _page_url(request: UserRequest, access: WorkspaceAccess, before: int | None) -> str:
    """Return the address for POST, with the shown page and the choice to refresh or not."""
    parameters = {"before": before, "live": None if is_live(request) else "off"}
    query = urlencode({name: value for name, value in parameters.items() if value})
    path = reverse("jobs-index", args=[access.workspace.slug])
    return f"{path}?{query}" if query else path


def _find_focus(context: dict[str, Any], changed_job: int) -> int | str:
    """Return what gets the focus after a change: the job's key, or the first list."""
    rows = [*context["failed"], *context["open"], *context["recent"]]
    if changed_job in [row.pk for row in rows]:
        return changed_job
    return "open" if context["open"] or context["backfill"] else "recent"


def _with_coverage(
    access: WorkspaceAccess, channels: Iterable[Channel], now: datetime
) -> list[tuple[Channel, Coverage]]:
    return [(channel, coverage_of(channel, now)) for channel in access.with_workspace(channels)]


def _health(access: WorkspaceAccess, now: datetime) -> dict[str, Any]:
    signals, again_at = access.health_signals, access.workspace.next_sync_at
    problems = [str(problem) for problem in find_problems(signals, now)]
    return {
        "problems": problems,
        "is_connected": signals.is_connected,
        "synced_at": signals.synced_at,
        "next_at": again_at if again_at and again_at > now else None,
        "worker_at": signals.worker_at if "worker" in problems else None,
        "failing": signals.failing_channels,
        "failed": describe_failed(signals.failed_jobs),
    }


def _running_backfill(access: WorkspaceAccess, now: datetime) -> tuple[int, int, int] | None:
    """Return (key, made, wanted) of the running backfill, if the reader may see all of it."""
    visible = Backfill.objects.visible_to(access.reader).filter(workspace=access.workspace)
    backfill = visible.filter(state=Backfill.State.RUNNING).first()
    if backfill is None:
        return None
    progress = progress_of(backfill, now)
    return backfill.pk, progress.finished, progress.total


def _steps(access: WorkspaceAccess, row: JobRow) -> dict[str, Any]:
    """Return a job's calls and, for readers of its texts, its inputs, versions and fault."""
    job = row.job
    context: dict[str, Any] = {
        "calls": [
            (call, call.ended_at - call.began_at if call.ended_at else None)
            for call in job.model_calls.order_by("fence")
        ]
    }
    if not row.job.is_readable:
        return context
    versions = for_display(MemoryVersion.objects.visible_to(access.reader))
    inputs = versions.filter(read_by__job=job.pk).order_by("until_us", "pk")
    segment = job.segment
    channel = job.memory.channel
    context |= {
        "inputs": list(inputs[:INPUTS_SHOWN]),
        "made": list(versions.filter(job=job.pk).order_by("pk")),
        "segment": segment,
        "what_happened": job.fault_text if row.fault else "",
    }
    if segment is not None and channel is not None:
        path = messages_path(access.workspace.slug, channel.slack_id)
        context["said_at"] = f"{path}?around={ts_from_micros(segment.first_us)}"
    return context


def _fingerprint(now: datetime, *values: Any) -> str:
    """Return a fingerprint of the shown values. It changes each minute, as relative times do."""
    words = repr((now.replace(second=0, microsecond=0), values))
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def _is_unchanged(request: UserRequest, fingerprint: str) -> bool:
    return wants_part(request) and request.GET.get("seen") == fingerprint


def _count_limited(jobs: JobQuerySet) -> int:
    """Return the number of jobs, exact up to `COUNT_LIMIT`."""
    return jobs.values("pk")[: COUNT_LIMIT + 1].count()
