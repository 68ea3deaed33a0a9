"""The page of a workspace: its memories, its channels and its notes."""

from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from memories.models import (
    Channel,
    Memory,
    MemoryVersion,
    Reader,
    Workspace,
)
from memories.models.access.audience import entered_workspaces
from memories.pipeline.costs.usage import sum_this_month
from memories.rules.generate.coverage import MessageCounts
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.views.access.access import UserRequest, WorkspaceAccess, open_workspace
from memories.views.memory.scopes import load_notes, texts_context
from memories.views.pages import render_page
from memories.views.sync.coverage import shares_of

PAGE_SIZE = 50


@login_required
def index(request: UserRequest) -> HttpResponse:
    """A list of workspaces, or instructions if there are none.

    A single one redirects to its news.
    """
    workspaces = list(entered_workspaces(Reader.of(request.user)))
    if len(workspaces) == 1:
        return redirect("catch_up-index", workspaces[0].slug)
    return render_page(
        request,
        "memory/workspaces/index.html",
        {"workspaces": workspaces, "is_empty": not Workspace.objects.exists()},
    )


@login_required
def detail(request: UserRequest, slug: str) -> HttpResponse:
    """``?q=`` searches the channels; ``&page=`` is the page of the list."""
    access = open_workspace(request, slug)
    now = timezone.now()
    query = request.GET.get("q", "").strip()
    matches = access.readable_channels.filter(name__icontains=query.removeprefix("#"))
    page: Page[Channel] = Paginator(matches, PAGE_SIZE).get_page(request.GET.get("page"))
    channels = access.with_workspace(page)
    memories = {
        memory.memory_type: memory
        for memory in Memory.objects.visible_to(access.reader).filter(
            workspace=access.workspace, scope=MemoryScope.WORKSPACE
        )
    }
    long_term = memories.get(MemoryType.LONG_TERM)
    short_term = (
        memories.get(MemoryType.SHORT_TERM)
        if access.workspace.memory_settings.workspace_short_term
        else None
    )
    return render_page(
        request,
        "memory/workspaces/detail.html",
        {
            "access": access,
            **texts_context(access, long_term, short_term),
            "query": query,
            "page": page,
            "rows": _channel_rows(access, channels, to_micros(now)),
            "included": _opted_in_channels(access),
            "cost": sum_this_month(access.reader, now, workspace=access.workspace),
            "notes": load_notes(access, None),
            "now": now,
        },
    )


def _opted_in_channels(access: WorkspaceAccess) -> list[Channel]:
    """Return the restricted channels whose text is in the workspace's memory."""
    if not access.reads_workspace:
        return []
    return list(access.workspace.channels.opted_in().order_by("name"))


def _channel_rows(
    access: WorkspaceAccess, channels: list[Channel], now_us: int
) -> list[tuple[Channel, MessageCounts, MemoryVersion | None, str]]:
    """Return the channels with their share, their newest memory, and the reader's choice or ""."""
    latest = {
        memory.channel_id: memory.current
        for memory in Memory.objects.filter(
            channel__in=channels,
            scope=MemoryScope.CHANNEL,
            memory_type=MemoryType.SHORT_TERM,
            current__isnull=False,
        ).select_related("current")
    }
    shares = shares_of(access, channels, now_us, remembering=latest)
    return [
        (
            channel,
            shares[channel.pk][0],
            latest.get(channel.pk),
            access.preferences.get(channel.pk, ""),
        )
        for channel in channels
    ]
