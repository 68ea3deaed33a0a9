"""A workspace: what is remembered of all of it, its channels, and what happened lately."""

from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from memories.models import Channel, Memory, MemoryVersion, Reader, Workspace
from memories.rules.coverage import Share, Waiting
from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.slacktime import to_micros
from memories.views.access import Place, UserRequest, open_workspace
from memories.views.coverage import channels_waiting
from memories.views.pages import render_page
from memories.views.shown import last_seen_of, rail_of, show, with_origin

ACTIVITY_SHOWN = 12
BAR_WIDTH = 120


@dataclass(frozen=True)
class ChannelRow:
    channel: Channel
    share: Share
    waiting: Waiting | None
    latest: MemoryVersion | None

    @property
    def bar(self) -> list[tuple[str, int, int]]:
        """``(what, x, width)`` of the parts of its coverage bar."""
        remembered, waiting, skipped = self.share.widths(BAR_WIDTH)
        return [
            ("remembered", 0, remembered),
            ("waiting", remembered, waiting),
            ("skipped", remembered + waiting, skipped),
        ]


@login_required
def index(request: UserRequest) -> HttpResponse:
    """Straight to what is new in the only workspace, else a list, else what to do about there being none."""
    entered = list(Workspace.objects.entered_by(Reader.of(request.user)))
    if len(entered) == 1:
        return redirect("catch_up-index", entered[0].slug)
    return render_page(
        request,
        "workspaces/index.html",
        {"workspaces": entered, "is_empty": not Workspace.objects.exists()},
    )


@login_required
def detail(request: UserRequest, slug: str) -> HttpResponse:
    place = open_workspace(request, slug)
    now = timezone.now()
    memories = {
        memory.memory_type: memory
        for memory in Memory.objects.visible_to(place.reader).filter(
            workspace=place.workspace, scope=MemoryScope.WORKSPACE
        )
    }
    long_term = memories.get(MemoryType.LONG_TERM)
    short_term = (
        memories.get(MemoryType.SHORT_TERM)
        if place.workspace.memory_settings.workspace_short_term
        else None
    )
    current = [m.current_id for m in (long_term, short_term) if m and m.current_id]
    shown = {
        one.version.memory_id: one
        for one in show(with_origin(MemoryVersion.objects.filter(pk__in=current)), place)
    }
    recent = list(
        with_origin(MemoryVersion.objects.visible_to(place.reader))
        .filter(memory__workspace=place.workspace)
        .order_by("-pk")[:ACTIVITY_SHOWN]
    )
    return render_page(
        request,
        "workspaces/detail.html",
        {
            "place": place,
            "memory": long_term,
            "shown": shown.get(long_term.pk) if long_term else None,
            "short_term": short_term,
            "short_term_shown": shown.get(short_term.pk) if short_term else None,
            "rail": rail_of(long_term, place),
            "last_seen": last_seen_of(long_term, place),
            "rows": _rows(place.channels, channels_waiting(place, place.channels, to_micros(now))),
            "bar_width": BAR_WIDTH,
            "included": _included(place),
            "recent": recent,
            "now": now,
        },
    )


def _included(place: Place) -> list[Channel]:
    """Channels whose text not everybody may read, and yet is in the workspace's memory."""
    if not place.reads_workspace:
        return []
    return list(place.workspace.channels.opted_in().order_by("name"))


def _rows(
    channels: list[Channel], answers: dict[int, tuple[Share, Waiting | None]]
) -> list[ChannelRow]:
    latest = {
        memory.channel_id: memory.current
        for memory in Memory.objects.filter(
            channel__in=channels, scope=MemoryScope.CHANNEL, memory_type=MemoryType.SHORT_TERM
        ).select_related("current")
    }
    return [
        ChannelRow(channel, *answers[channel.pk], latest.get(channel.pk)) for channel in channels
    ]
