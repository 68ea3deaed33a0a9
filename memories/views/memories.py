"""A memory is changed by people here: edit it, resolve a conflict, look through its versions."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from memories.models import Memory, MemoryVersion, StaleBase, Unchanged
from memories.rules import compare
from memories.rules.lines import split_text
from memories.rules.memory import MemoryType
from memories.views.access import Place, UserRequest, must_edit, number_or_none, open_memory
from memories.views.pages import render_page, render_page_or_part, wants_part
from memories.views.paths import card_path
from memories.views.shown import as_listed, card_of, show_one, versions_of, with_origin

LONGEST_TEXT = 20_000  # characters; memories have a few hundred words
VERSIONS_AT_ONCE = 50


@dataclass(frozen=True)
class Base:
    """The text a person had on screen: its version, and how often that was rewritten in place."""

    number: int
    revision: int


@login_required
def edit(request: UserRequest, pk: int) -> HttpResponse:
    """Write a new version over the one that was on screen when the editor opened.

    422 with the reason when it cannot be saved; 409 when there is a newer version by now: both
    texts stay, paragraph by paragraph, and are saved again on the newer one.
    """
    place, memory = open_memory(request, pk)
    must_edit(place)
    if request.method != "POST":
        text = memory.current.content if memory.current else ""
        return _editor(request, place, memory, text=text, based_on=_now(memory))
    text = _clean(request.POST.get("text", ""))
    based_on = Base(
        _number(request.POST.get("based_on", "")), _number(request.POST.get("revision", ""))
    )
    if request.POST.get("do") == "choose":
        return _chosen(request, place, memory)
    error = _fault(text)
    if error:
        return _editor(
            request, place, memory, text=text, based_on=based_on, error=error, status=422
        )
    try:
        version = memory.revise(
            text, by=request.user, based_on=based_on.number, revision=based_on.revision
        )
    except Unchanged:
        error = _("Nothing is different from version %(number)s.") % {"number": based_on.number}
        return _editor(
            request, place, memory, text=text, based_on=based_on, error=error, status=422
        )
    except StaleBase:
        memory.refresh_from_db()
        return _conflict(request, place, memory, yours=text, seen=based_on.number)
    return _saved(request, place, memory, version)


@login_required
@require_safe
def versions(request: UserRequest, pk: int) -> HttpResponse:
    place, memory = open_memory(request, pk)
    versions = versions_of(memory, place).newest_first()
    found = Paginator(as_listed(versions), VERSIONS_AT_ONCE)
    page = found.get_page(request.GET.get("page"))
    return render_page(
        request,
        "memories/versions.html",
        {"place": place, "memory": memory, "page": page},
    )


def _editor(
    request: UserRequest,
    place: Place,
    memory: Memory,
    *,
    text: str,
    based_on: Base,
    error: str = "",
    status: int = 200,
) -> HttpResponse:
    settings = place.workspace.memory_settings
    is_long = memory.memory_type == MemoryType.LONG_TERM
    context = {
        "place": place,
        "memory": memory,
        "text": text,
        "based_on": based_on,
        "error": error,
        "limit": settings.long_term_max_tokens if is_long else settings.short_term_max_tokens,
        "is_being_made": memory.generations.unfinished().exists(),
    }
    return render_page_or_part(
        request, "memories/edit.html", "memories/_editor.html", context, status=status
    )


def _saved(
    request: UserRequest, place: Place, memory: Memory, version: MemoryVersion
) -> HttpResponse:
    news = _("Saved as version %(number)s.") % {"number": version.number}
    if not wants_part(request):
        toasts.success(request, news)
        return redirect(card_path(memory))
    context = {**card_of(memory, place), "news": news, "takes_focus": True}
    return render_page_or_part(request, "memories/_saved.html", "memories/_saved.html", context)


def _conflict(
    request: UserRequest, place: Place, memory: Memory, *, yours: str, seen: int
) -> HttpResponse:
    """409: what you wrote beside what was saved meanwhile."""
    context = _conflict_context(place, memory, yours=yours, seen=seen, on=_now(memory))
    found = context["hunks"]
    context["choices"] = [hunk.suggestion for hunk in found]
    context["text"] = compare.put_together(found, context["choices"])
    return _resolver(request, context, status=409)


def _chosen(request: UserRequest, place: Place, memory: Memory) -> HttpResponse:
    """The same conflict again, with the text that the choices make."""
    context = _conflict_context(
        place,
        memory,
        yours=_clean(request.POST.get("yours", "")),
        seen=_number(request.POST.get("seen", "")),
        on=Base(
            _number(request.POST.get("based_on", "")), _number(request.POST.get("revision", ""))
        ),
    )
    found = context["hunks"]
    context["choices"] = [
        request.POST.get(f"choice-{i}", hunk.suggestion) for i, hunk in enumerate(found)
    ]
    context["text"] = compare.put_together(found, context["choices"])
    context["is_put_together"] = True
    return _resolver(request, context, status=200)


def _conflict_context(
    place: Place, memory: Memory, *, yours: str, seen: int, on: Base
) -> dict[str, Any]:
    by_number = {
        version.number: version
        for version in with_origin(versions_of(memory, place).filter(number__in=(seen, on.number)))
    }
    base, theirs = by_number.get(seen), by_number.get(on.number)
    return {
        "place": place,
        "memory": memory,
        "yours": yours,
        "seen": seen,
        "based_on": on,
        "base": base,
        "theirs": show_one(theirs, place),
        "hunks": compare.hunks(
            base.content if base else "", yours, theirs.content if theirs else ""
        ),
        "is_put_together": False,
    }


def _resolver(request: UserRequest, context: dict[str, Any], *, status: int) -> HttpResponse:
    context["paragraphs"] = list(zip(context["hunks"], context["choices"], strict=True))
    return render_page_or_part(
        request, "memories/conflict.html", "memories/_conflict.html", context, status=status
    )


def _now(memory: Memory) -> Base:
    current = memory.current
    return Base(current.number, current.revision) if current else Base(0, 0)


def _fault(text: str) -> str:
    if not split_text(text):
        return _("A memory cannot be empty. To take everything back, restore an older version.")
    if len(text) > LONGEST_TEXT:
        return _("The text has %(n)s characters; %(limit)s fit.") % {
            "n": len(text),
            "limit": LONGEST_TEXT,
        }
    return ""


def _clean(text: str) -> str:
    """As browsers send it, but with plain line ends and without what PostgreSQL cannot keep."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _number(given: str) -> int:
    """A version's number from a form; 0, which no version has, when it is none."""
    return number_or_none(given) or 0
