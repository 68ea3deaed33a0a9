"""The archive of a memory: lines over its token limit, to read and to restore."""

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
    WorkspaceAccess,
    must_edit,
    number_or_none,
    numbers_in,
    open_memory,
)
from memories.views.memory.display import display_lines
from memories.views.pages import render_page
from memories.views.paths import card_path

PAGE_SIZE = 50


@login_required
@require_safe
def index(request: UserRequest, pk: int) -> HttpResponse:
    """The newest lines first. ``?line=`` redirects to the page with this line."""
    access, memory = open_memory(request, pk)
    lines = memory.archived_lines().newest_first()
    line_id = number_or_none(request.GET.get("line", ""))
    line = lines.filter(pk=line_id).first() if line_id is not None else None
    if line is not None:
        page = lines.newer_than(line).count() // PAGE_SIZE + 1
        return redirect(f"{request.path}?page={page}#line-{line.pk}")
    return _render(request, access, memory, lines)


@login_required
@require_POST
def restore(request: UserRequest, pk: int) -> HttpResponse:
    """Restore ``line=`` in the text that was on screen (``based_on=``, ``revision=``).

    The status is 409 if there is another text now.
    """
    access, memory = open_memory(request, pk)
    must_edit(access)
    key, based_on, revision = numbers_in(request, "line", "based_on", "revision")
    if key is None or based_on is None:
        raise Http404
    line = get_object_or_404(Line.objects.select_related("version"), version__memory=memory, pk=key)
    try:
        version = line.restore(by=request.user, based_on=based_on, revision=revision)
    except LookupError as error:
        raise Http404 from error
    except StaleBase:
        memory.refresh_from_db()
        lines = memory.archived_lines().newest_first()
        return _render(request, access, memory, lines, has_conflict=True)
    toasts.success(
        request,
        _("The line was restored and pinned in version %(number)s.") % {"number": version.number},
    )
    return redirect(card_path(memory))


def _render(
    request: UserRequest,
    access: WorkspaceAccess,
    memory: Memory,
    lines: LineQuerySet,
    *,
    has_conflict: bool = False,
) -> HttpResponse:
    page = Paginator(lines.select_related("version"), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "access": access,
        "memory": memory,
        "page": page,
        "lines": display_lines(list(page.object_list), access),
        "has_conflict": has_conflict,
    }
    return render_page(
        request, "memory/archive/index.html", context, status=409 if has_conflict else 200
    )
