"""Jobs: how the workspace does, what failed and what helps, what runs, what was done; one job with
its steps; and a person's word on it."""

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

from memories.models import Backfill, Channel, Job, Member, MemoryVersion
from memories.models.generate.job_queries import JobQuerySet
from memories.pipeline.generate import job_control
from memories.pipeline.generate.backfill import progress_of
from memories.pipeline.sync.coverage import Coverage, coverage_of
from memories.rules.health import find_problems
from memories.rules.ingest.timestamps import ts_from_micros
from memories.tasks import remember_later
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    must_administer,
    number_or_none,
    open_workspace,
)
from memories.views.generate import runs
from memories.views.generate.health import COUNTED, EVERYDAY, failed_words
from memories.views.memory.shown import with_origin
from memories.views.pages import (
    POLLING_ENDS,
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
RECENT_SHOWN = 25
INPUTS_SHOWN = 50
WHILE_ACTIVE, WHILE_IDLE = 3, 60  # seconds between two looks

ChannelRow = tuple[Channel, Coverage]


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """POST, for admins: ``retry`` or ``cancel`` names a job, ``do=retry_failed`` means all that
    failed."""
    place = open_workspace(request, slug)
    rows = runs.rows_of(place)
    acted, news = 0, ""
    if request.method == "POST":
        must_administer(place)
        acted, news = _act(request, place, rows)
        if not wants_part(request):
            toasts.success(request, news)
            return redirect(request.get_full_path())
    context = _overview(request, place, rows) | {"news": news}
    context["focus"] = _focus(context, acted) if news else ""
    if not news and _is_known(request, context["mark"]):
        return _nothing_new()
    return render_page_or_part(
        request, "generate/jobs/index.html", "generate/jobs/_jobs.html", context
    )


@login_required
def detail(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """One job; the part is asked for again until it is over. POST ``do``, for admins: ``retry`` or
    ``cancel``."""
    place = open_workspace(request, slug)
    rows = runs.rows_of(place)
    job = get_object_or_404(rows, pk=pk)
    if request.method == "POST":
        must_administer(place)
        toasts.success(request, _change(request, place, request.POST.get("do", ""), [job]))
        return redirect(request.get_full_path())
    now = timezone.now()
    [run] = runs.runs([job], now, runs.closed_at(now))
    mark = _digest(now, run.mark)
    if not run.is_over and _is_known(request, mark):
        return _nothing_new()
    status = POLLING_ENDS if wants_part(request) and run.is_over else 200
    context = {
        "place": place,
        "run": run,
        "mark": mark,
        "now": now,
        "live": is_live(request),
        **_steps(place, run),
    }
    return render_page_or_part(
        request, "generate/jobs/detail.html", "generate/jobs/_run.html", context, status=status
    )


@login_required
@require_POST
def resume(request: UserRequest, slug: str) -> HttpResponse:
    """An admin's word that the model may be called again; then back to the page of the banner."""
    place = open_workspace(request, slug)
    must_administer(place)
    if job_control.resume_endpoints(request.user, timezone.now()):
        toasts.success(request, _("The model is called again; what waited goes on by itself."))
    else:
        toasts.info(request, _("Nothing held the calls back any more."))
    return redirect(next_of(request) or reverse("workspaces-detail", args=[slug]))


# -- a person's word


def _act(request: UserRequest, place: WorkspaceContext, rows: JobQuerySet) -> tuple[int, str]:
    """The job that it was about, 0 for several, and what came of it."""
    if request.POST.get("do") == "retry_failed":
        return 0, _change(request, place, "retry", list(runs.failed(rows)))
    verb = "retry" if "retry" in request.POST else "cancel"
    key = number_or_none(request.POST.get(verb, ""))
    if key is None:
        raise Http404
    return key, _change(request, place, verb, [get_object_or_404(rows, pk=key)])


def _change(request: UserRequest, place: WorkspaceContext, verb: str, jobs: list[Job]) -> str:
    if verb == "retry":
        count = job_control.retry_jobs(jobs, request.user)
        if count:
            remember_later(place.workspace.pk)
        words = ngettext("%(n)s job will be tried again.", "%(n)s jobs will be tried again.", count)
    elif verb == "cancel":
        count = job_control.cancel_jobs(jobs, request.user)
        words = ngettext("%(n)s job was cancelled.", "%(n)s jobs were cancelled.", count)
    else:
        raise Http404
    return words % {"n": count} if count else _("It came to something else meanwhile.")


# -- what is shown


def _overview(request: UserRequest, place: WorkspaceContext, rows: JobQuerySet) -> dict[str, Any]:
    now = timezone.now()
    closed = runs.closed_at(now)
    before = number_or_none(request.GET.get("before", ""))
    failed_total = _count(runs.failed(rows))
    open_total = _count(runs.unsettled(rows))
    # Mostly there are none, and who may read them is the longest rule there is.
    some_failed = runs.failed(rows)[:FAILED_SHOWN] if failed_total else ()
    some_open = runs.going_on(rows)[:OPEN_SHOWN] if open_total else ()
    over = runs.over(rows, before)[: RECENT_SHOWN + 1]
    failed, open_ones, recent = runs.runs_each((some_failed, some_open, over), now, closed)
    read = None
    if place.workspace.connected_at:
        read = place.readable_channels.followed().select_related("sync")
    failing = _channels(place, read.failing(EVERYDAY)[:FAILED_SHOWN] if read else (), now)
    channels = _channels(place, read[:CHANNELS_SHOWN] if read else (), now)
    health = _health(place, now)
    shown = [*failed, *open_ones, *recent]
    channel_states = [
        (channel.pk, coverage.synced_at, coverage.retry_at, coverage.code)
        for channel, coverage in [*failing, *channels]
    ]
    backfill = _backfill(place, now)
    above = banners(place)
    counts = (failed_total, open_total)
    mark = _digest(
        now, counts, health, channel_states, [run.mark for run in shown], backfill, above
    )
    is_active = any(run.is_active for run in open_ones) or backfill is not None
    return {
        **above,
        "place": place,
        "now": now,
        "health": health,
        "failed": failed,
        "failed_total": failed_total,
        "failed_more": failed_total - len(failed),
        "counted": COUNTED,
        "failing": failing,
        "open": open_ones,
        "open_total": open_total,
        "open_more": open_total - len(open_ones),
        "recent": recent[:RECENT_SHOWN],
        "older": recent[RECENT_SHOWN - 1].pk if len(recent) > RECENT_SHOWN else None,
        "before": before,
        "channels": channels,
        "channels_more": read.count() - len(channels) if read else 0,
        "backfill": backfill,
        "is_empty": not shown,
        "live": is_live(request),
        "here": _here(request, place, before),
        "mark": mark,
        "seconds": WHILE_ACTIVE if is_active else WHILE_IDLE,
        "reads_costs": place.role in Member.READING,
    }


def _here(request: UserRequest, place: WorkspaceContext, before: int | None) -> str:
    """Where a word on a job is sent: older jobs stay on the screen, and a page that does not refresh
    stays one."""
    parameters = {"before": before, "live": None if is_live(request) else "off"}
    query = urlencode({name: value for name, value in parameters.items() if value})
    path = reverse("jobs-index", args=[place.workspace.slug])
    return f"{path}?{query}" if query else path


def _focus(context: dict[str, Any], acted: int) -> str:
    """After a person's word: at its job where that is shown, else above what goes on now."""
    shown = [*context["failed"], *context["open"], *context["recent"]]
    if acted in [run.pk for run in shown]:
        return f"run-{acted}"
    return "open" if context["open"] or context["backfill"] else "recent"


def _count(rows: JobQuerySet) -> int:
    """How many these are, exact up to `COUNTED`: who may read them is the longest rule there is."""
    return rows.values("pk")[: COUNTED + 1].count()


def _channels(
    place: WorkspaceContext, channels: Iterable[Channel], now: datetime
) -> list[ChannelRow]:
    """Channels that are read from Slack, or should be, and how far they are."""
    return [(channel, coverage_of(channel, now)) for channel in place.placed(channels)]


def _health(place: WorkspaceContext, now: datetime) -> dict[str, Any]:
    """For the first sentence."""
    signs, again_at = place.signs, place.workspace.sync_again_at
    problems = [str(problem) for problem in find_problems(signs, now)]
    return {
        "problems": problems,
        "is_connected": signs.is_connected,
        "synced_at": signs.synced_at,
        "next_at": again_at if again_at and again_at > now else None,
        "worker_at": signs.worker_at if "worker" in problems else None,
        "failing": signs.failing_channels,
        "failed": failed_words(signs.failed_jobs),
    }


def _backfill(place: WorkspaceContext, now: datetime) -> tuple[int, int, int] | None:
    """(its key, made, wanted) of the one that runs, as far as the reader may see all of it."""
    visible = Backfill.objects.visible_to(place.reader).filter(workspace=place.workspace)
    backfill = visible.filter(state=Backfill.State.RUNNING).first()
    if backfill is None:
        return None
    progress = progress_of(backfill, now)
    return backfill.pk, progress.made, progress.total


def _steps(place: WorkspaceContext, run: runs.Run) -> dict[str, Any]:
    """What happened to one job, what it read and what came of it. What it read and made, and what
    was said of it, only for who may read that."""
    job = run.job
    context: dict[str, Any] = {
        "calls": [
            (call, call.ended_at - call.began_at if call.ended_at else None)
            for call in job.claims.order_by("fence")
        ]
    }
    if not run.is_readable:
        return context
    versions = with_origin(MemoryVersion.objects.visible_to(place.reader))
    inputs = versions.filter(read_by__job=job.pk).order_by("until_us", "pk")
    segment = job.segment
    channel = job.memory.channel
    context |= {
        "inputs": list(inputs[:INPUTS_SHOWN]),
        "made": list(versions.filter(job=job.pk).order_by("pk")),
        "segment": segment,
        "what_happened": job.fault_text if run.fault else "",
    }
    if segment is not None and channel is not None:
        path = messages_path(place.workspace.slug, channel.slack_id)
        context["said_at"] = f"{path}?around={ts_from_micros(segment.first_us)}"
    return context


# -- asking again and again


def _digest(now: datetime, *shown_values: Any) -> str:
    """Of all that a page tells; each minute another one, for the times that are told relatively."""
    words = repr((now.replace(second=0, microsecond=0), shown_values))
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def _is_known(request: UserRequest, mark: str) -> bool:
    return wants_part(request) and request.GET.get("seen") == mark


def _nothing_new() -> HttpResponse:
    """What is on the screen stays as it is, with its focus."""
    return HttpResponse(status=204)
