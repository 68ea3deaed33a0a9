"""The archive of a memory: lines for which its text had no room, read and brought back."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from memories.models import Line, Memory, StaleBase
from memories.models.memory.lines import LineQuerySet
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    must_edit,
    number_or_none,
    open_memory,
)
from memories.views.memory.shown import show_lines
from memories.views.pages import render_page
from memories.views.paths import card_path

AT_ONCE = 50


@login_required
@require_safe
def index(request: UserRequest, pk: int) -> HttpResponse:
    """The newest first; ``?line=`` leads to the page with this one."""
    place, memory = open_memory(request, pk)
    lines = memory.archived_lines().newest_first()
    line_id = number_or_none(request.GET.get("line", ""))
    line = lines.filter(pk=line_id).first() if line_id is not None else None
    if line is not None:
        page = lines.newer_than(line).count() // AT_ONCE + 1
        return redirect(f"{request.path}?page={page}#line-{line.pk}")
    return _page(request, place, memory, lines)


@login_required
@require_POST
def restore(request: UserRequest, pk: int) -> HttpResponse:
    """Bring ``line=`` back into the text that was on screen (``based_on=``, ``revision=``). 409 when
    there is another text by now."""
    place, memory = open_memory(request, pk)
    must_edit(place)
    given = (number_or_none(request.POST.get(k, "")) for k in ("line", "based_on", "revision"))
    key, based_on, revision = given
    if key is None or based_on is None:
        raise Http404
    line = get_object_or_404(Line.objects.select_related("version"), version__memory=memory, pk=key)
    try:
        made = line.restore(by=request.user, based_on=based_on, revision=revision)
    except LookupError as error:
        raise Http404 from error
    except StaleBase:
        memory.refresh_from_db()
        lines = memory.archived_lines().newest_first()
        return _page(request, place, memory, lines, moved_on=True)
    toasts.success(
        request,
        _("The line is in the text again, as version %(number)s. Pin it if it must stay.")
        % {"number": made.number},
    )
    return redirect(card_path(memory))


def _page(
    request: UserRequest,
    place: WorkspaceContext,
    memory: Memory,
    lines: LineQuerySet,
    *,
    moved_on: bool = False,
) -> HttpResponse:
    page = Paginator(lines.select_related("version"), AT_ONCE).get_page(request.GET.get("page"))
    context = {
        "place": place,
        "memory": memory,
        "page": page,
        "lines": show_lines(list(page.object_list), place),
        "moved_on": moved_on,
    }
    return render_page(
        request, "memory/archive/index.html", context, status=409 if moved_on else 200
    )
