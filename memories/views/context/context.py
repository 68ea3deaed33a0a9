"""The context preview: the context of an agent or bot, from what the user may read.

The page writes nothing. Its address has all options of the context.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from memories.forms import focus_first_error
from memories.models import Memory, MemoryVersion
from memories.pipeline.generate.job_control import endpoint_in_use
from memories.rules.context.blocks import Block, Part, block_tokens
from memories.rules.context.contents import (
    LEAVABLE,
    ON_REQUEST,
    UNREAD_CHANNELS,
    Context,
    history_limit,
)
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.views.access.access import UserRequest, WorkspaceAccess, open_workspace
from memories.views.context.forms import PreviewForm
from memories.views.pages import render_page_or_part
from memories.views.paths import channel_path, messages_path, thread_path

BAR_WIDTH = 640

_SECTIONS: dict[str, str | Promise] = {
    Part.PERSONA: gettext_lazy("Persona"),
    Part.NOTES: gettext_lazy("Notes"),
    Part.ZONE: gettext_lazy("Time zone"),
    Part.LONG_TERM: gettext_lazy("Long-term memory"),
    Part.SHORT_TERM: gettext_lazy("Short-term memory"),
    Part.THREADS: gettext_lazy("Threads"),
    Part.CONVERSATION: gettext_lazy("Conversation"),
}
_KINDS: dict[str, str | Promise] = {
    "long_term_memory": gettext_lazy("Long-term memory"),
    "short_term_memory": gettext_lazy("Short-term memory"),
    "thread_memory": gettext_lazy("Thread memory"),
    "archive": gettext_lazy("Archive"),
    "note": gettext_lazy("Note"),
    "message": gettext_lazy("Messages"),
    UNREAD_CHANNELS: gettext_lazy("Channels"),
}

BlockKey = tuple[Part, str, int | None]  # part, scope id, number of the version


@dataclass
class Section:
    """A row of the legend, and its rectangle in the bar.

    ``without_url`` is the address of the context without it, "" if it cannot be left out.
    """

    part: str
    name: str | Promise
    without_url: str
    items: int = 0
    tokens: int = 0
    percent: float = 0.0
    x: float = 0.0
    width: float = 0.0


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    access = open_workspace(request, slug)
    form = PreviewForm(request.GET, access=access)
    if form.is_valid() and form.has_local_time:
        exact = form.cleaned_data["at"].isoformat().replace("+00:00", "Z")
        return redirect(_url(request, at=exact))
    built = form.build()
    context: dict[str, Any] = {
        "access": access,
        "form": form,
        "built": built,
        "query": request.GET.urlencode(),
    }
    if built is not None:
        context |= _preview(request, access, form, built)
    else:
        focus_first_error(form)
    status = 422 if built is None else 200
    return render_page_or_part(
        request, "context/index.html", "context/_preview.html", context, status=status
    )


@login_required
@require_safe
def download(request: UserRequest, slug: str) -> HttpResponse:
    """Return the text alone, byte for byte as `manage.py context` prints it."""
    access = open_workspace(request, slug)
    built = PreviewForm(request.GET, access=access).build()
    if built is None:
        return HttpResponse(
            _("This combination is not possible."), content_type="text/plain", status=422
        )
    text = built.text if built.text.endswith("\n") else f"{built.text}\n"
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="context-{slug}.txt"'
    return response


def _preview(
    request: UserRequest, access: WorkspaceAccess, form: PreviewForm, built: Context
) -> dict[str, Any]:
    """Return the template variables for a context."""
    tokens = block_tokens(built.blocks)
    budget = form.tokens
    reserve = _reserve(built.tokens)
    bar_tokens = max(budget, built.tokens + reserve, 1)
    channel_id = form.cleaned_data["channel"]
    urls = _block_urls(access, channel_id, built, form.cleaned_data["at"])
    sections = _sections(request, built, tokens, bar_tokens)
    channel = access.find_channels([channel_id]).get(channel_id)
    slug = access.workspace.slug
    return {
        "blocks": [
            {"text": x.text, "part": x.part, "tokens": n, "url": urls.get(_key(x), "")}
            for x, n in zip(built.blocks, tokens, strict=True)
        ],
        "sections": sections,
        "budget": budget,
        "reserve": reserve,
        "reserve_x": round(sum(section.width for section in sections), 1),
        "reserve_width": _width(reserve, bar_tokens),
        "free": max(0, budget - built.tokens - reserve) if budget else None,
        "is_over": bool(budget and built.tokens > budget),
        "bar_width": BAR_WIDTH,
        "omitted": _omitted(request, form),
        "beyond": _beyond(access, form, built),
        "has_only_persona": all(block.part is Part.PERSONA for block in built.blocks),
        "scope": channel or access.workspace,
        "scope_url": (
            channel_path(slug, channel.slack_id)
            if channel
            else reverse("workspaces-detail", args=[slug])
        ),
        "command": form.command(request.user.get_username()),
        "api_url": _api_url(request, form),
        "withheld": 0 if form.is_bot else _count_withheld(access),
    }


def _api_url(request: UserRequest, form: PreviewForm) -> str:
    """Return the address of the same context in the API, "" if the API has no such context."""
    query = form.api_query()
    return "" if query is None else request.build_absolute_uri(f"/api/v1/context?{query}")


def _omitted(request: UserRequest, form: PreviewForm) -> list[dict[str, Any]]:
    """Return the sections that the user left out, each with the address that includes it again."""
    return [
        {"name": _SECTIONS[part], "url": _url(request, with_part=part)}
        for part in form.cleaned_data["without"]
    ]


def _beyond(
    access: WorkspaceAccess, form: PreviewForm, built: Context
) -> list[tuple[str, list[dict[str, Any]], int]]:
    """Return the parts that the budget excludes, by reason, with the number of their items."""
    limit = number_format(form.tokens, force_grouping=True)
    over_budget = _("over the limit of %(n)s tokens") % {"n": limit}
    unread = _("memories that changed less recently")
    beyond = [item for item in built.left_out if item.reason != ON_REQUEST]
    channels = access.find_channels(item.id for item in beyond)
    parts: dict[str, list[dict[str, Any]]] = {}
    for item in beyond:
        reason = unread if item.what == UNREAD_CHANNELS else over_budget
        name = str(channels.get(item.id, item.id))
        part = {"kind": _KINDS[item.what], "name": name, "count": item.count}
        parts.setdefault(reason, []).append(part)
    return [(reason, items, sum(x["count"] for x in items)) for reason, items in parts.items()]


def _url(request: UserRequest, *, without_part: str = "", with_part: str = "", at: str = "") -> str:
    """Return the address of this page without, or again with, a section, or at an exact time."""
    query = request.GET.copy()
    if at:
        query["at"] = at
    parts = [x for x in query.getlist("without") if x not in (without_part, with_part)]
    query.setlist("without", [*parts, *([without_part] if without_part else [])])
    return f"{request.path}?{query.urlencode()}"


def _reserve(tokens: int) -> int:
    """Return the tokens by which the model's count may exceed the estimate, from its worst ratio."""
    endpoint = endpoint_in_use().first()
    ratio = endpoint.worst_ratio if endpoint else 1.0
    return max(0, math.ceil(tokens * (ratio - 1)))


def _width(tokens: int, bar_tokens: int) -> float:
    return round(BAR_WIDTH * tokens / bar_tokens, 1)


def _sections(
    request: UserRequest, built: Context, tokens: list[int], bar_tokens: int
) -> list[Section]:
    """Return the sections with the sums of their blocks, in the order of the text."""
    sections: dict[str, Section] = {}
    for block, size in zip(built.blocks, tokens, strict=True):
        part = block.part
        url = _url(request, without_part=part) if part in LEAVABLE else ""
        section = sections.setdefault(part, Section(part, _SECTIONS[part], url))
        section.items += block.items
        section.tokens += size
    x = 0.0
    for section in sections.values():
        section.percent = 100 * section.tokens / max(built.tokens, 1)
        section.x, section.width = round(x, 1), _width(section.tokens, bar_tokens)
        x += section.width
    return list(sections.values())


def _key(block: Block) -> BlockKey:
    return (block.part, block.scope_key, block.number)


def _block_urls(
    access: WorkspaceAccess, channel_id: str, built: Context, at: datetime | None
) -> dict[BlockKey, str]:
    """Return the page of the version or the messages of each block. One query."""
    slug = access.workspace.slug
    urls: dict[BlockKey, str] = {(Part.NOTES, "", None): reverse("notes-index", args=[slug])}
    conversations = [block for block in built.blocks if block.part is Part.CONVERSATION]
    channels = access.find_channels(block.scope_key for block in conversations)
    for block in conversations:
        if block.scope_key in channels:
            urls[Part.CONVERSATION, block.scope_key, None] = messages_path(slug, block.scope_key)
    if channel_id and built.target_thread_ts:
        path = thread_path(slug, channel_id, built.target_thread_ts)
        urls[Part.CONVERSATION, built.target_thread_ts, None] = path
    history = [block for block in built.blocks if block.number is not None]
    memories = Memory.objects.filter(workspace=access.workspace)
    is_history = Q(
        memory__in=memories.filter(
            scope=MemoryScope.CHANNEL,
            memory_type=MemoryType.SHORT_TERM,
            channel__slack_id__in={block.scope_key for block in history},
        ).values("pk"),
        number__in={block.number for block in history},
    )
    of_channel = Q(channel__slack_id__in={block.scope_key for block in built.blocks})
    of_thread = Q(scope=MemoryScope.THREAD, channel__slack_id=channel_id)
    current = memories.filter(
        Q(scope=MemoryScope.WORKSPACE) | Q(of_channel, scope=MemoryScope.CHANNEL) | of_thread
    )
    current_keys: Any = current.values("current")
    if at is not None:
        current_keys = MemoryVersion.objects.current_at(current, at).values("pk")
    versions = (
        MemoryVersion.objects.visible_to(access.reader)
        .filter(is_history | Q(pk__in=current_keys))
        .order_by()
        .select_related("memory__channel")
        .only(
            *("number", "memory__scope", "memory__memory_type", "memory__thread_ts"),
            *("memory__channel__slack_id", "memory__channel__name", "memory__workspace"),
        )
    )
    for version in versions:
        memory = version.memory
        channel = memory.channel.slack_id if memory.channel else ""
        if memory.scope == MemoryScope.THREAD:
            key: BlockKey = (Part.THREADS, memory.thread_ts, None)
        elif memory.memory_type == MemoryType.LONG_TERM:
            key = (Part.LONG_TERM, channel, None)
        else:
            key = (Part.SHORT_TERM, channel, version.number if channel else None)
        urls[key] = reverse("versions-detail", args=[version.pk])
    return urls


def _count_withheld(access: WorkspaceAccess) -> int:
    """Return the number of versions that are in the context of others, but not of this reader.

    They rest on messages that the reader may not read, for example from the time when a channel was
    private. Versions of unreadable memories do not count.
    """
    readable_memories = Q(memory__channel__in=access.readable_channels.order_by().values("pk"))
    if access.reads_workspace:
        readable_memories |= Q(memory__scope=MemoryScope.WORKSPACE)
    is_history = Q(memory__scope=MemoryScope.CHANNEL, memory__memory_type=MemoryType.SHORT_TERM)
    newest = (
        MemoryVersion.objects.with_text()
        .filter(readable_memories, memory__workspace=access.workspace)
        # Few memories have restricted versions: only those are ranked.
        .filter(memory__in=MemoryVersion.objects.restricted().values("memory"))
        .exclude(memory__scope=MemoryScope.THREAD)
        .annotate(
            rank=Window(
                RowNumber(),
                partition_by="memory",
                order_by=[F("until_us").desc(), F("number").desc()],
            )
        )
        .filter(
            Q(rank=1) | is_history & Q(rank__lte=history_limit(access.workspace.memory_settings))
        )
    )
    readable = MemoryVersion.objects.visible_to(access.reader).values("pk")
    withheld = MemoryVersion.objects.restricted().filter(pk__in=newest.values("pk"))
    return withheld.exclude(pk__in=readable).count()
