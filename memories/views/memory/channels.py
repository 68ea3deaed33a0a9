"""The page of a channel: its memories, its activity, and its waiting messages."""

from datetime import datetime

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from memories.models import Channel, ChannelPreference, Job, Memory, Message
from memories.pipeline.access import channel_audience
from memories.pipeline.costs import usage
from memories.rules.generate.coverage import Waiting
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.views.access.access import UserRequest, WorkspaceAccess, open_channel
from memories.views.ingest.messages import first_words
from memories.views.memory.scopes import load_notes, texts_context
from memories.views.memory.selection import form_context, parse_selection
from memories.views.memory.timeline import load_timeline
from memories.views.pages import next_of, render_page
from memories.views.paths import channel_path, thread_path, update_path
from memories.views.sync.coverage import find_coverage, reading_bar, share_bar, shares_of

THREADS_SHOWN = 3
JOBS_SHOWN = 5
BAR_WIDTH = 272


@login_required
def detail(request: UserRequest, slug: str, slack_id: str) -> HttpResponse:
    """``?since=`` shows the new lines first, as in Catch up."""
    access, channel = open_channel(request, slug, slack_id)
    now = timezone.now()
    selection = parse_selection(request.GET, access, now)
    has_period = "since" in request.GET and not selection.error
    memories = {
        memory.memory_type: memory
        for memory in Memory.objects.filter(channel=channel, scope=MemoryScope.CHANNEL)
    }
    long_term = memories.get(MemoryType.LONG_TERM)
    short_term = memories.get(MemoryType.SHORT_TERM)
    remembering = {channel.pk} if short_term and short_term.current_id else set()
    shares = shares_of(access, [channel], to_micros(now), remembering=remembering)
    share, waiting = shares[channel.pk]
    coverage = find_coverage(access, channel, now)
    texts = texts_context(access, long_term, short_term, selection.since if has_period else None)
    return render_page(
        request,
        "memory/channels/detail.html",
        {
            "access": access,
            "channel": channel,
            **texts,
            "period": form_context(selection),
            "has_period": has_period,
            "share": share,
            "bar": share_bar(share, BAR_WIDTH),
            "reading": reading_bar(coverage, channel, BAR_WIDTH) if coverage else [],
            "bar_width": BAR_WIDTH,
            "waiting": waiting,
            "update_path": _update_path(access, channel, short_term, waiting, now),
            "coverage": coverage,
            "jobs": _load_jobs(access, channel),
            "threads": _load_threads(access, channel),
            "notes": load_notes(access, channel),
            "timeline": load_timeline(access, channel, long_term, texts["shown"], now),
            "cost": usage.sum_this_month(access.reader, now, job__memory__channel=channel),
            "may_opt_in": may_opt_in(access, channel),
            "choice": access.preferences.get(channel.pk, ""),
            "now": now,
        },
        status=422 if selection.error else 200,
    )


@login_required
def opt_in(request: UserRequest, slug: str, slack_id: str) -> HttpResponse:
    """GET explains the opt-in of the workspace's memory. POST sets it with ``on=1``, or removes it.

    For admins of the workspace who are members of the channel.
    """
    access, channel = open_channel(request, slug, slack_id)
    if not may_opt_in(access, channel):
        raise PermissionDenied
    if request.method != "POST":
        return render_page(
            request, "memory/channels/opt_in.html", {"access": access, "channel": channel}
        )
    on = request.POST.get("on") == "1"
    if channel_audience.set_opt_in(channel, by=request.user, on=on):
        toasts.success(
            request,
            _("The next update adds its long-term memory to the workspace memory.")
            if on
            else _("Sharing stopped. The workspace memory is made again without this channel."),
        )
    return redirect("channels-detail", slug, slack_id)


@login_required
@require_POST
def follow(request: UserRequest, slug: str, slack_id: str) -> HttpResponse:
    """Save ``choice`` of the reader for the channel: follow, mute, or "" for neither."""
    _access, channel = open_channel(request, slug, slack_id)
    choice = request.POST.get("choice", "")
    if choice not in ("", *ChannelPreference.Choice.values):
        raise Http404
    ChannelPreference.objects.choose(request.user, channel, choice)
    news = {
        ChannelPreference.Choice.FOLLOW: _("%s comes first in Catch up and in the navigation."),
        ChannelPreference.Choice.MUTE: _("%s is left out of Catch up."),
        "": _("%s is listed as usual."),
    }
    toasts.success(request, news[choice] % channel)
    return redirect(next_of(request) or channel_path(slug, slack_id))


def may_opt_in(access: WorkspaceAccess, channel: Channel) -> bool:
    """Return whether the reader may change the opt-in.

    Other public channels are always in the workspace's memory, and direct messages never.
    """
    is_private = channel.kind == Channel.Kind.PRIVATE
    has_opt_in = is_private or (channel.is_public and channel.is_shared)
    return has_opt_in and access.can_administer and access.is_member_of(channel)


def _update_path(
    access: WorkspaceAccess,
    channel: Channel,
    memory: Memory | None,
    waiting: Waiting | None,
    now: datetime,
) -> str:
    """Return the page that updates the memory now, "" if no messages wait or for readers."""
    if not access.can_edit:
        return ""
    if waiting is None:
        # The first pass has not counted the waiting messages yet.
        since_us = to_micros(now) - access.workspace.memory_settings.window_us
        messages = Message.objects.rememberable().filter(channel=channel, micros__gte=since_us)
        if channel.start_us is not None or not messages.exists():
            return ""
    return update_path(memory or Memory(workspace=access.workspace, channel=channel))


def _load_threads(access: WorkspaceAccess, channel: Channel) -> list[tuple[Memory, str, str]]:
    """Return memories of threads, with the page and the first words of the thread, "" without any."""
    memories = list(
        Memory.objects.filter(channel=channel, scope=MemoryScope.THREAD, current__isnull=False)
        .select_related("current")
        .order_by("-current__until_us", "-pk")[:THREADS_SHOWN]
    )
    roots = Message.objects.visible_to(access.reader).filter(
        channel=channel,
        state=Message.State.LIVE,
        ts__in=[memory.thread_ts for memory in memories],
    )
    words = first_words(roots, access)
    return [
        (
            memory,
            thread_path(access.workspace.slug, channel.slack_id, memory.thread_ts),
            words.get(memory.thread_ts, ""),
        )
        for memory in memories
    ]


def _load_jobs(access: WorkspaceAccess, channel: Channel) -> list[Job]:
    """Return the unfinished and dead jobs, oldest first."""
    states = (*Job.UNFINISHED, Job.State.DEAD)
    return list(
        Job.objects.visible_to(access.reader)
        .of_channel(channel)
        .filter(state__in=states)
        .select_related("memory", "segment")
        .order_by("pk")[:JOBS_SHOWN]
    )
