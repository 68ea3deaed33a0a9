"""One version for good, two versions compared, and an old one brought back."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from memories.models import MemoryVersion, Reader, StaleBase, Unchanged
from memories.rules.compare import Kind, changes, kept
from memories.rules.compare import compare as compare_texts
from memories.rules.lines import Origin
from memories.views.access import (
    Place,
    UserRequest,
    must_edit,
    number_or_none,
    open_version,
    place_of,
)
from memories.views.pages import render_page, render_page_or_part, wants_part
from memories.views.shown import show_one, with_origin

PAIRS_SHOWN = 200


@login_required
@require_safe
def detail(request: UserRequest, pk: int) -> HttpResponse:
    place, version = open_version(request, pk)
    return _page(request, place, version)


@login_required
@require_POST
def restore(request: UserRequest, pk: int) -> HttpResponse:
    """Make this text the current one again, as a new version. 409 when there is a newer one."""
    place, version = open_version(request, pk)
    must_edit(place)
    memory = version.memory
    given = number_or_none(request.POST.get("based_on", ""))
    based_on = -1 if given is None else given  # no version: stale
    try:
        made = memory.restore(version, by=request.user, based_on=based_on)
    except Unchanged:
        return _answer(request, place, version, _("This is the current text already."))
    except StaleBase:
        memory.refresh_from_db()
        return _page(request, place, version, moved_on=True, status=409)
    news = _("Version %(old)s is current again, as version %(new)s.") % {
        "old": version.number,
        "new": made.number,
    }
    return _answer(request, place, made, news)


@login_required
@require_safe
def compare(request: UserRequest, older: int, newer: int) -> HttpResponse:
    """``?from=&to=`` picks another pair and leads to its own address."""
    first, second = (number_or_none(request.GET.get(end, "")) for end in ("from", "to"))
    if first is not None and second is not None:
        return redirect("versions-compare", *sorted((first, second)))
    visible = with_origin(MemoryVersion.objects.visible_to(Reader.of(request.user)))
    old, new = (get_object_or_404(visible, pk=pk) for pk in (older, newer))
    if old.memory_id != new.memory_id:
        raise Http404
    place = place_of(request, new.memory.workspace)
    rows = compare_texts(old.content, new.content)
    numbered = dict(new.memory.versions.newest_first().values_list("number", "pk")[:PAIRS_SHOWN])
    changed = changes(rows)
    return render_page(
        request,
        "versions/compare.html",
        {
            "place": place,
            "memory": new.memory,
            "old": show_one(old, place),
            "new": show_one(new, place),
            "rows": rows,
            "changes": changed,
            "added": sum(row.kind is Kind.ADDED for row in changed),
            "removed": sum(row.kind is Kind.REMOVED for row in changed),
            "rewritten": sum(row.kind is Kind.CHANGED for row in changed),
            "pairs": numbered,
            "previous": numbered.get(old.number - 1),
            "next": numbered.get(new.number + 1),
        },
    )


def _answer(request: UserRequest, place: Place, version: MemoryVersion, news: str) -> HttpResponse:
    if not wants_part(request):
        toasts.success(request, news)
        return redirect("versions-detail", version.pk)
    version = MemoryVersion.objects.select_related("memory__current").get(pk=version.pk)
    response = _page(request, place, version, news=news)
    response["HX-Push-Url"] = reverse("versions-detail", args=[version.pk])
    return response


def _page(
    request: UserRequest,
    place: Place,
    version: MemoryVersion,
    *,
    news: str = "",
    moved_on: bool = False,
    status: int = 200,
) -> HttpResponse:
    memory = version.memory
    shown_version = with_origin(memory.versions.filter(pk=version.pk)).select_related("base").get()
    near = {
        other.number: other
        for other in memory.versions.filter(number__in=(version.number - 1, version.number + 1))
    }
    older, newer = near.get(version.number - 1), near.get(version.number + 1)
    is_current = memory.current_id == version.pk
    is_undoable = is_current and version.origin == Origin.RESTORE and version.base is not None
    return render_page_or_part(
        request,
        "versions/detail.html",
        "versions/_version.html",
        {
            "place": place,
            "memory": memory,
            "version": shown_version,
            "shown": show_one(shown_version, place),
            "is_current": is_current,
            "older": older,
            "newer": newer,
            "kept": kept(version.content, newer.content) if newer else None,
            "built_from": _built_from(place, version),
            "undo": version.base if is_undoable else None,
            "news": news,
            "moved_on": moved_on,
        },
        status=status,
    )


def _built_from(place: Place, version: MemoryVersion) -> list[MemoryVersion]:
    """The versions that a merge read, as far as this reader may read them."""
    if version.generation_id is None:
        return []
    versions = MemoryVersion.objects.visible_to(place.reader)
    return list(
        with_origin(versions).filter(read_by__generation=version.generation_id).order_by("until_us")
    )
