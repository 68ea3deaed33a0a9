"""Update now: show the cost, start the update, and show its job."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_htmx.http import HttpResponseClientRefresh

from memories.models import Memory, MemoryVersion
from memories.pipeline.costs.estimate import estimate_update
from memories.pipeline.generate.update_now import update_now
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.tasks import schedule_pass
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_edit,
    number_or_none,
    open_channel,
    open_memory,
)
from memories.views.generate.job_rows import build_rows, get_visible_jobs
from memories.views.pages import STOP_POLLING, is_live, render_page_or_part, wants_part
from memories.views.paths import card_path, update_path

PAGE, PART = "generate/updates/detail.html", "generate/updates/_update.html"
NEVER_SYNCED = gettext_lazy("This workspace was never read completely from Slack.")


@login_required
def detail(request: UserRequest, pk: int) -> HttpResponse:
    """Show the cost, or with ``job`` its state. POST starts the update. For editors.

    The part is answered with 204 while ``seen`` is still the state. After the job and the merges that
    follow it, the page reloads, or the part has status 286 with the fault.
    """
    access, memory = open_memory(request, pk)
    if memory.channel is None:
        raise Http404
    must_edit(access)
    return _update(request, access, memory)


@login_required
def channel(request: UserRequest, slug: str, slack_id: str) -> HttpResponse:
    """Do the same for a channel without a memory, which POST creates."""
    access, channel = open_channel(request, slug, slack_id)
    must_edit(access)
    values = {
        "workspace": access.workspace,
        "channel": channel,
        "scope": MemoryScope.CHANNEL,
        "scope_id": channel.slack_id,
        "memory_type": MemoryType.SHORT_TERM,
    }
    if request.method == "POST":
        memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    else:
        memory = Memory.objects.filter(**values).first() or Memory(**values)
    return _update(request, access, memory)


def _update(request: UserRequest, access: WorkspaceAccess, memory: Memory) -> HttpResponse:
    now = timezone.now()
    if request.method == "POST":
        job = update_now(memory, request.user, now)
        schedule_pass(access.workspace.pk)
        if job is not None and wants_part(request):
            return _job(request, access, memory, job.pk)
        if job is not None:
            return redirect("jobs-detail", access.workspace.slug, job.pk)
        if not wants_part(request):
            words = _("Nothing is waiting. All messages are summarized.")
            toasts.info(request, words if access.workspace.synced_until(now) else NEVER_SYNCED)
            return redirect(card_path(memory))
    elif job_id := number_or_none(request.GET.get("job", "")):
        return _job(request, access, memory, job_id)
    estimate = estimate_update(memory, now).as_json()
    total = estimate["total"]
    context = {
        "access": access,
        "memory": memory,
        "estimate": total,
        "is_free": estimate["free"],
        "has_waiting": total["segments"] + total["threads"] > 0,
        "path": update_path(memory),
        "never_synced": "" if access.workspace.synced_until(now) else NEVER_SYNCED,
    }
    return render_page_or_part(request, PAGE, PART, context)


def _job(request: UserRequest, access: WorkspaceAccess, memory: Memory, pk: int) -> HttpResponse:
    jobs = get_visible_jobs(access).filter(memory__channel=memory.channel_id)
    [[row]] = build_rows(timezone.now(), [get_object_or_404(jobs, pk=pk)])
    following = jobs.unfinished().order_by("pk").first() if row.status == "done" else None
    if following is not None:  # a merge, after which the long-term memory is new too
        pk = following.pk
        [[row]] = build_rows(timezone.now(), [following])
    if wants_part(request) and not row.is_over and request.GET.get("seen") == row.status:
        return HttpResponse(status=204)
    readable = MemoryVersion.objects.visible_to(access.reader).filter(job=pk)
    made = readable.newest_first().first() if row.is_over else None
    if made is not None and wants_part(request):
        toasts.success(request, _("Updated: v%(n)s.") % {"n": made.number})
        return HttpResponseClientRefresh()
    context = {
        "access": access,
        "memory": memory,
        "row": row,
        "made": made,
        "live": is_live(request),
        "path": update_path(memory),
        "takes_focus": request.method == "POST",
    }
    status = STOP_POLLING if wants_part(request) and row.is_over else 200
    return render_page_or_part(request, PAGE, PART, context, status=status)
