"""Catch up: the news since the reader's last visit. Only a button marks them as seen."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from memories.models import Channel, MemoryVersion, Message, Seen
from memories.pipeline.sync.coverage import TEMPORARY_CODES, Coverage, coverage_of, is_late
from memories.rules.health import HealthProblem, find_problems
from memories.rules.ingest.timestamps import from_micros, to_micros
from memories.rules.memory.catch_up import NewsKey, Since, format_cursor, parse_cursor
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    number_in,
    number_or_none,
    open_workspace,
)
from memories.views.generate.health import describe_failed
from memories.views.memory.attention import find_attention_items
from memories.views.memory.briefing import load_opening, marks_of
from memories.views.memory.display import visible_versions
from memories.views.memory.news import (
    load_details,
    load_entries,
    load_news,
    with_channels,
)
from memories.views.memory.seen import catch_up_memories
from memories.views.memory.selection import Selection, form_context, parse_selection
from memories.views.pages import render_page_or_part, render_part, wants_part
from memories.views.paths import scope_name

PAGE_SIZE = 10
COMPARED_AT_ONCE = 50  # changed texts that are compared for attention items


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    """``?since=`` is seen, 24h, 7d or a day. The form sends ``since=day&day=…``.

    ``&cursor=`` continues the list. The part is the next entries with a cursor, else the page.
    """
    access = open_workspace(request, slug)
    now = timezone.now()
    selection = parse_selection(request.GET, access, now)
    folded = number_or_none(request.GET.get("marked", ""))
    cursor = parse_cursor(selection.cursor)
    limit = PAGE_SIZE if cursor else COMPARED_AT_ONCE
    news = load_news(access, selection.since, folded, cursor=cursor, limit=limit)
    entries, has_more = news.entries[:PAGE_SIZE], len(news.keys) > PAGE_SIZE
    of_workspace = None if cursor else news.of_workspace
    shown = [*([of_workspace] if of_workspace else []), *entries]
    load_details(shown, access, selection.since)
    context: dict[str, Any] = {
        "access": access,
        **form_context(selection),
        "entries": entries,
        "of_workspace": of_workspace,
        "goes_on": cursor is not None,
        "more": _next_page(access, selection, news.keys[PAGE_SIZE - 1]) if has_more else "",
        "left": min(PAGE_SIZE, len(news.keys) - PAGE_SIZE),
    }
    part = "memory/catch_up/_entries.html"
    if cursor is None or not wants_part(request):
        part = "memory/catch_up/_catch_up.html"
        has_memories = bool(news.keys or of_workspace) or access.unmuted_memories.exists()
        context |= {
            "opening": [] if cursor else load_opening(shown, access, selection.since),
            "has_unseen": any(entry.memory.news for entry in shown),
            "undo_us": number_or_none(request.GET.get("undo", "")),
            "attention_items": []
            if cursor
            else find_attention_items(news, access, selection.since, now),
            "from_us": _title_moment(access, selection.since),
            "has_marks": marks_of(access).exists(),
            "is_late": is_late(access.workspace, now),
            "behind": _channels_behind(access, now),
            "health": _health_context(access, now),
            "has_memories": has_memories,
            "has_messages": has_memories or _messages(access).exists(),
            "awaits_memories": has_memories or _awaits_memories(access, now),
        }
    status = 422 if selection.error else 200
    response = render_page_or_part(
        request, "memory/catch_up/index.html", part, context, status=status
    )
    if selection.error:
        response["HX-Push-Url"] = "false"
    return response


@login_required
@require_POST
def mark_all(request: UserRequest, slug: str) -> HttpResponse:
    """Mark the versions that were on the page as seen. ``seen`` are pairs "memory:number".

    ``undo`` is the time of such marks in microseconds: it restores the marks before them.
    """
    access = open_workspace(request, slug)
    memories, now = catch_up_memories(access.reader, access.workspace.pk), timezone.now()
    path = reverse("catch_up-index", args=[slug])
    marked_us = number_in(request, "undo")
    if 0 < marked_us <= to_micros(now):
        marks = Seen.objects.filter(user=request.user, memory__in=memories)
        count = marks.filter(at=from_micros(marked_us)).undo()
        news = ngettext(
            "%(n)s memory is marked as not seen.", "%(n)s memories are marked as not seen.", count
        )
        toasts.success(request, news % {"n": count})
        return redirect(path)
    pairs = (pair.partition(":") for pair in request.POST.getlist("seen"))
    numbers = {number_or_none(pk): number_or_none(number) or 0 for pk, _colon, number in pairs}
    shown = MemoryVersion.objects.visible_to(access.reader).filter(
        memory__in=memories.filter(pk__in=filter(None, numbers)), number__in=numbers.values()
    )
    rows = shown.values_list("memory", "number")
    seen = {pk: number for pk, number in rows if numbers[pk] == number}
    count = Seen.objects.mark_all(request.user, seen, now) if seen else 0
    news = ngettext("%(n)s memory is marked as seen.", "%(n)s memories are marked as seen.", count)
    toasts.success(request, news % {"n": count})
    return redirect(f"{path}?undo={to_micros(now)}" if count else path)


@login_required
@require_POST
def mark(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Mark the version ``number`` as seen, or restore the mark before it with ``undo``."""
    access = open_workspace(request, slug)
    memory = get_object_or_404(catch_up_memories(access.reader, access.workspace.pk), pk=pk)
    number = number_or_none(request.POST.get("number", ""))
    if number is None:
        raise Http404
    get_object_or_404(visible_versions(memory, access), number=number)
    seen = Seen.objects.of(request.user, memory)
    where = scope_name(*with_channels([memory], access))
    if "undo" in request.POST:
        news = (
            _("%(where)s is marked as not seen.") % {"where": where}
            if seen.undo(number)
            else _("There is no seen mark to undo.")
        )
    else:
        seen.mark(number, timezone.now())
        news = _("%(where)s is marked as seen up to v%(number)s.") % {
            "where": where,
            "number": seen.number,
        }
    selection = parse_selection(request.POST, access, timezone.now())
    if wants_part(request):
        return _render_entry(request, access, memory.pk, selection, news)
    toasts.success(request, news)
    path = reverse("catch_up-index", args=[slug])
    query = {**selection.query, "marked": str(memory.pk)}
    return redirect(f"{path}?{urlencode(query)}#entry-{memory.pk}")


def _render_entry(
    request: UserRequest, access: WorkspaceAccess, pk: int, selection: Selection, news: str
) -> HttpResponse:
    """Render one entry and the counts that depend on it."""
    memories = catch_up_memories(access.reader, access.workspace.pk).filter(pk=pk)
    entries = load_entries(memories, access, selection.since, folded=pk)
    if not entries:
        raise Http404
    load_details(entries, access, selection.since)
    [entry] = entries
    context = {
        "access": access,
        **form_context(selection),
        "entry": entry,
        "rows": [row for row in access.nav if row.pk == entry.memory.channel_id],
        "news": news,
        "takes_focus": True,
    }
    return render_part(request, "memory/catch_up/_marked.html", context)


def _next_page(access: WorkspaceAccess, selection: Selection, last: NewsKey) -> str:
    path = reverse("catch_up-index", args=[access.workspace.slug])
    query = {**selection.query, "cursor": format_cursor(last)}
    return f"{path}?{urlencode(query)}"


def _title_moment(access: WorkspaceAccess, since: Since) -> Any:
    """Return the moment in the title: the requested one, or the oldest mark with news behind it.

    Return None if a memory was never marked.
    """
    if since.us is not None:
        return since.us
    if not access.unseen:
        return marks_of(access).aggregate(at=Max("at"))["at"]
    return access.oldest_mark


def _channels_behind(access: WorkspaceAccess, now: datetime) -> list[tuple[Channel, Coverage]]:
    """Return the channels whose sync needs a person. It is empty if the whole sync is late."""
    if not access.workspace.connected_at or is_late(access.workspace, now):
        return []
    late = Q(sync__synced_at__lt=now - access.workspace.sync_max_age)
    channels = access.with_workspace(
        access.readable_channels.failing(TEMPORARY_CODES, late).select_related("sync")
    )
    coverages = ((channel, coverage_of(channel, now)) for channel in channels)
    return [
        (channel, coverage)
        for channel, coverage in coverages
        if coverage.code not in TEMPORARY_CODES
    ]


def _health_context(access: WorkspaceAccess, now: datetime) -> dict[str, Any]:
    """Return the problems that keep new messages from being remembered."""
    shown = (HealthProblem.WORKER, HealthProblem.JOBS)
    return {
        "problems": [
            problem for problem in find_problems(access.health_signals, now) if problem in shown
        ],
        "worker_at": access.health_signals.worker_at,
        "failed": describe_failed(access.health_signals.failed_jobs),
    }


def _messages(access: WorkspaceAccess) -> QuerySet[Message]:
    return Message.objects.visible_to(access.reader).filter(channel__workspace=access.workspace)


def _awaits_memories(access: WorkspaceAccess, now: datetime) -> bool:
    """Return whether a message is new enough for the next pass. Older ones need a backfill."""
    first_us = to_micros(now) - access.workspace.memory_settings.window_us
    # By channel: the index of messages by time is within one.
    begin = Coalesce(OuterRef("start_us"), first_us)
    messages = _messages(access).filter(channel=OuterRef("pk"), micros__gte=begin)
    return access.workspace.channels.filter(Exists(messages)).exists()
