"""The search page: notes, memories, threads, messages and older versions."""

import time

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse

from memories.models import Memory
from memories.pipeline.search import indexing as index_of
from memories.pipeline.search.finding import find
from memories.pipeline.search.similar_names import find_similar_names
from memories.rules.search.query import parse, with_fields
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    number_or_none,
    open_workspace,
)
from memories.views.memory.news import with_channels
from memories.views.memory.seen import catch_up_memories, with_marks
from memories.views.pages import render_page_or_part
from memories.views.search.search_results import (
    filters_of,
    hit_groups,
    line_kind_words,
    name_links,
    wider_searches,
)

RECENT = 5
FEW = 5  # results; with fewer, similar names are shown
FIELDS = ("in", "channel", "by", "kind", "from", "to", "sort")


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """Search with ``?q=`` and the fields of the form. ``?below=`` begins a further page."""
    began = time.perf_counter()
    access = open_workspace(request, slug)
    typed = request.GET.get("q", "")
    fields = {name: value for name in FIELDS if (value := request.GET.get(name, "").strip())}
    query = with_fields(parse(typed), fields)
    below = number_or_none(request.GET.get("below", ""))
    channels = (
        access.with_workspace(access.readable_channels.named(query.channel))
        if query.channel
        else []
    )
    results = find(query, access.workspace, access.reader, channels, zone=access.zone, below=below)
    filters = filters_of(query, access)
    groups = hit_groups(results, query, access, request.GET)
    is_few = results.count < FEW and below is None
    similar = find_similar_names(query, access.workspace, access.reader) if is_few else []
    return render_page_or_part(
        request,
        "search/index.html",
        "search/_results.html",
        {
            "access": access,
            "typed": typed,
            "fields": fields,
            "query": query,
            "results": results,
            "groups": groups,
            "total": f"{results.count:,}",
            "below": below,
            "seconds": time.perf_counter() - began,
            "similar": name_links(similar, access, request.path),
            "line_kinds": line_kind_words(),
            "filters": [applied.words for applied in filters],
            "wider": wider_searches(query, filters, request.path),
            "recent": _recent(access) if query.is_empty else [],
            "is_behind": index_of.is_behind(),
        },
    )


def _recent(access: WorkspaceAccess) -> list[Memory]:
    """Return the newest memories, for a page without a query."""
    newest = catch_up_memories(access.reader, access.workspace.pk).order_by("-current")[:RECENT]
    memories = Memory.objects.filter(pk__in=list(newest.values_list("pk", flat=True)))
    return with_channels(with_marks(memories, access.reader), access)
