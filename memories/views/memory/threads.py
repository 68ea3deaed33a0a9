"""The threads of a channel, and the page of a thread: its memory and its messages."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import Http404, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from memories.models import Channel, Memory, MemoryVersion, Message
from memories.models.ingest.messages import waiting_in_thread_condition
from memories.pipeline.costs.usage import sum_this_month
from memories.rules.memory.identity import MemoryScope
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    moment_or_404,
    number_or_none,
    open_channel,
)
from memories.views.ingest.messages import first_words, read_page, show_messages
from memories.views.memory.display import display_version, for_display, visible_versions
from memories.views.memory.rail import build_rail
from memories.views.pages import render_page
from memories.views.paths import thread_path

PAGE_SIZE = 50


@dataclass(frozen=True)
class Thread:
    """A thread in the list.

    ``words`` are the start of its root message, "" without one. ``waiting`` counts the messages
    that are not in ``version`` yet.
    """

    path: str
    words: str
    messages: int
    latest_us: int
    version: MemoryVersion | None
    waiting: int


@login_required
@require_safe
def index(request: UserRequest, slug: str, slack_id: str) -> HttpResponse:
    """The threads with the newest replies first. ``?before=`` a time in microseconds continues."""
    access, channel = open_channel(request, slug, slack_id)
    readable = Message.objects.visible_to(access.reader).filter(channel=channel)
    latest = readable.filter(state=Message.State.LIVE).latest_replies()
    before = number_or_none(request.GET.get("before", ""))
    if before is not None:
        latest = latest.filter(micros__lt=before)
    rows = list(latest.values_list("thread_ts", "micros")[: PAGE_SIZE + 1])
    shown = rows[:PAGE_SIZE]
    return render_page(
        request,
        "memory/threads/index.html",
        {
            "access": access,
            "channel": channel,
            "is_first": before is None,
            "older": shown[-1][1] if len(rows) > PAGE_SIZE else None,
            "threads": _load_threads(access, channel, dict(shown)),
            "min_messages": access.workspace.memory_settings.thread_min_messages,
        },
    )


def _load_threads(
    access: WorkspaceAccess, channel: Channel, latest: Mapping[str, int]
) -> list[Thread]:
    """Return the threads for ``latest``: the times of their newest replies, by ``thread_ts``."""
    thread_keys = list(latest)
    readable = Message.objects.visible_to(access.reader).filter(channel=channel)
    words = first_words(readable.filter(ts__in=thread_keys, state=Message.State.LIVE), access)
    live = readable.in_threads(thread_keys).filter(state=Message.State.LIVE).order_by()
    rows = live.values("thread_ts").annotate(
        n=Count("pk"), waiting=Count("pk", filter=waiting_in_thread_condition())
    )
    counts = {row["thread_ts"]: row for row in rows}
    memories = Memory.objects.filter(
        channel=channel, scope=MemoryScope.THREAD, thread_ts__in=thread_keys
    ).select_related("current")
    versions = {memory.thread_ts: memory.current for memory in memories}
    return [
        Thread(
            thread_path(access.workspace.slug, channel.slack_id, ts),
            words.get(ts, ""),
            counts[ts]["n"],
            latest_us,
            versions.get(ts),
            counts[ts]["waiting"],
        )
        for ts, latest_us in latest.items()
        if ts in counts
    ]


@login_required
def detail(request: UserRequest, slug: str, slack_id: str, thread_ts: str) -> HttpResponse:
    """``?after=`` or ``?before=`` is the ``ts`` of a message.

    The default is the start of the thread.
    """
    access, channel = open_channel(request, slug, slack_id)
    begun_us = moment_or_404(thread_ts)
    memory = Memory.objects.filter(
        channel=channel, scope=MemoryScope.THREAD, thread_ts=thread_ts
    ).first()
    readable = Message.objects.visible_to(access.reader).filter(channel=channel)
    messages = readable.in_threads([thread_ts]).select_related("author")
    root = readable.filter(ts=thread_ts).select_related("author")
    conversation = messages | root
    before, after = request.GET.get("before", ""), request.GET.get("after", "")
    page = read_page(conversation, before=before, after="" if before else after or "0.0")
    if not page.messages and (memory is None or not visible_versions(memory, access).exists()):
        raise Http404
    current = None
    if memory is not None and memory.current_id is not None:
        current = for_display(memory.versions.filter(pk=memory.current_id)).first()
    shown = display_version(current, access)
    numbers = {
        chip.ts: chip.number for line in (shown.lines if shown else ()) for chip in line.chips
    }
    rows = show_messages(page.messages, access, channel, numbers)
    return render_page(
        request,
        "memory/threads/detail.html",
        {
            "access": access,
            "channel": channel,
            "thread_ts": thread_ts,
            "words": first_words(root.filter(state=Message.State.LIVE), access).get(thread_ts, ""),
            "memory": memory,
            "something_waits": conversation.waiting_in_threads().exists(),
            "shown": shown,
            "rail": build_rail(memory, access),
            "cost": sum_this_month(access.reader, timezone.now(), job__memory=memory)
            if memory
            else None,
            "rows": rows,
            "begun_us": begun_us,
            "older": rows[0].message.ts if rows and page.has_older and (before or after) else "",
            "newer": rows[-1].message.ts if rows and page.has_newer else "",
            "min_messages": access.workspace.memory_settings.thread_min_messages,
        },
    )
