"""A memory is changed by people here: edit it, resolve a conflict, look through its versions."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.text import normalize_newlines
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from memories.models import Draft, Memory, MemoryVersion, StaleBase, Unchanged
from memories.models.memory.versions import MAX_NAME_LENGTH
from memories.rules.memory import compare, conflicts
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import split_text
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    must_edit,
    number_in,
    open_memory,
)
from memories.views.memory.naming import fault_of_name, name_in
from memories.views.memory.shown import (
    Rail,
    aftermath_of,
    as_listed,
    card_of,
    rail_of,
    show_one,
    versions_of,
    with_origin,
)
from memories.views.pages import render_page_or_part, wants_part
from memories.views.paths import card_path

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
    texts stay, paragraph by paragraph, and are saved again on the newer one, unless they are the
    same. What was typed before and not saved is offered; ``?draft=take`` goes on with it.
    """
    place, memory = open_memory(request, pk)
    must_edit(place)
    if request.method != "POST":
        return _opened(request, place, memory)
    text, based_on = _typed(request)
    if "seen" in request.POST:
        resolved = _resolved(request, place, memory, based_on)
        if request.POST.get("do") == "choose":
            if conflicts.is_edited_by_hand(request.POST, resolved["hunks"], text):
                resolved["replaced"] = text
            return _resolver(request, resolved, status=200)
        text = conflicts.resolved_text(request.POST, resolved["hunks"], text)
        if error := _text_error(text):
            return _resolver(request, resolved | {"error": error}, text=text, status=422)
    error = _text_error(text) or fault_of_name(_summary(request))
    if error:
        _keep(place, memory, text, based_on)
        return _editor(
            request, place, memory, text=text, based_on=based_on, error=error, status=422
        )
    try:
        version = _write(request, memory, text, based_on)
    except Unchanged:
        if "seen" in request.POST:
            return _stands(request, place, memory)
        error = _("Nothing is different from version %(number)s.") % {"number": based_on.number}
    except ValueError:  # nothing but what was forgotten
        error = _empty()
    except StaleBase:
        _keep(place, memory, text, based_on)
        memory.refresh_from_db()
        return _conflict(request, place, memory, yours=text, seen=based_on)
    if error:
        return _editor(
            request, place, memory, text=text, based_on=based_on, error=error, status=422
        )
    news = _("Saved as version %(number)s.") % {"number": version.number}
    return _saved(request, place, memory, news)


@login_required
@require_POST
def preview(request: UserRequest, pk: int) -> HttpResponse:
    """What the typed text changes in the version that the edit began from. No version is made; the
    text is kept as a draft."""
    place, memory = open_memory(request, pk)
    must_edit(place)
    text, based_on = _typed(request)
    _keep(place, memory, text, based_on)
    base = versions_of(memory, place).filter(number=based_on.number).first()
    rows = compare.compare_lines(base.content if base else "", text)
    seen = {"rows": rows, "changes": compare.changed_rows(rows), **compare.count_changes(rows)}
    if wants_part(request):
        page = "memory/memories/_preview.html"
        return render_page_or_part(request, page, page, {"place": place, "preview": seen})
    return _editor(request, place, memory, text=text, based_on=based_on, preview=seen)


@login_required
@require_POST
def draft(request: UserRequest, pk: int) -> HttpResponse:
    """Keep the typed text for a day, for whoever typed it; ``do=discard`` drops what was kept
    before."""
    place, memory = open_memory(request, pk)
    must_edit(place)
    text, based_on = _typed(request)
    if request.POST.get("do") == "discard":  # what was kept before, not what was typed since
        Draft.objects.discard(place.reader, memory)
        _keep(place, memory, text, based_on)
        return _editor(request, place, memory, text=text, based_on=based_on)
    kept = _keep(place, memory, text, based_on)
    if not wants_part(request):
        return redirect(f"{reverse('memories-edit', args=[pk])}?draft=take")
    page = "memory/memories/_kept.html"
    return render_page_or_part(request, page, page, {"place": place, "kept": kept})


@login_required
@require_safe
def versions(request: UserRequest, pk: int) -> HttpResponse:
    """As a part: in the place of the newest ones, beside the memory."""
    place, memory = open_memory(request, pk)
    versions = versions_of(memory, place).newest_first()
    paginator = Paginator(as_listed(versions), VERSIONS_AT_ONCE)
    page = paginator.get_page(request.GET.get("page"))
    rail = Rail(page.object_list)
    rail.aftermath = aftermath_of(versions, place)
    context = {"place": place, "memory": memory, "page": page, "rail": rail}
    return render_page_or_part(
        request, "memory/memories/versions.html", "memory/memories/_rail.html", context
    )


def _opened(request: UserRequest, place: WorkspaceContext, memory: Memory) -> HttpResponse:
    """The editor over the current text, or over the draft that was taken up."""
    text = memory.current.content if memory.current else ""
    draft = Draft.objects.find(place.reader, memory, timezone.now())
    if draft is None or draft.text == text:
        return _editor(request, place, memory, text=text, based_on=_now(memory))
    if request.GET.get("draft") == "take":
        based_on = Base(draft.based_on, draft.revision)
        return _editor(request, place, memory, text=draft.text, based_on=based_on)
    return _editor(request, place, memory, text=text, based_on=_now(memory), draft=draft)


def _keep(place: WorkspaceContext, memory: Memory, text: str, based_on: Base) -> Draft | None:
    if not split_text(text):  # nothing to go on with
        return None
    return Draft.objects.save_text(
        place.reader,
        memory,
        text,
        based_on=based_on.number,
        revision=based_on.revision,
        now=timezone.now(),
    )


def _editor(
    request: UserRequest,
    place: WorkspaceContext,
    memory: Memory,
    *,
    text: str,
    based_on: Base,
    error: str = "",
    preview: dict[str, Any] | None = None,
    draft: Draft | None = None,
    status: int = 200,
) -> HttpResponse:
    settings = place.workspace.memory_settings
    is_long = memory.memory_type == MemoryType.LONG_TERM
    base = versions_of(memory, place).filter(number=based_on.number).first()
    context = {
        "place": place,
        "memory": memory,
        "text": text,
        "unprotected_lines": base.unprotected_lines() if base else (),
        "ticked": request.POST.getlist("keep"),
        "summary": _summary(request),
        "longest_name": MAX_NAME_LENGTH,
        "based_on": based_on,
        "error": error,
        "preview": preview,
        "draft": draft,
        "limit": settings.long_term_max_tokens if is_long else settings.short_term_max_tokens,
        "is_being_made": memory.jobs.unfinished().exists(),
    }
    return render_page_or_part(
        request, "memory/memories/edit.html", "memory/memories/_editor.html", context, status=status
    )


@transaction.atomic
def _write(request: UserRequest, memory: Memory, text: str, based_on: Base) -> MemoryVersion:
    """The edit, and the lines ticked to stay word for word; of a text that is the same these alone.
    Its summary is the name of the version that was made."""
    by, ticked = request.user, request.POST.getlist("keep")
    number, revision = based_on.number, based_on.revision
    try:
        made = memory.revise(text, by=by, based_on=number, revision=revision)
        memory.pin_texts(ticked, by=by, based_on=made.number)
    except Unchanged:
        if not memory.pin_texts(ticked, by=by, based_on=number, revision=revision):
            raise
    assert memory.current is not None
    if name := _summary(request):
        memory.current.rename(name, by=by)
    return memory.current


def _stands(request: UserRequest, place: WorkspaceContext, memory: Memory) -> HttpResponse:
    """The end of a conflict that leaves nothing to be saved."""
    assert memory.current is not None
    news = _("This text stands already, as version %(number)s.")
    return _saved(request, place, memory, news % {"number": memory.current.number})


def _saved(
    request: UserRequest, place: WorkspaceContext, memory: Memory, news: str
) -> HttpResponse:
    Draft.objects.discard(place.reader, memory)
    if not wants_part(request):
        toasts.success(request, news)
        return redirect(card_path(memory))
    context = {**card_of(memory, place), "news": news, "takes_focus": True}
    return render_page_or_part(
        request, "memory/memories/_saved.html", "memory/memories/_saved.html", context
    )


def _conflict(
    request: UserRequest, place: WorkspaceContext, memory: Memory, *, yours: str, seen: Base
) -> HttpResponse:
    """409: what you wrote beside what was saved meanwhile. That it is the same is said instead,
    unless lines were ticked, which a save still pins."""
    context = _conflict_context(request, place, memory, yours=yours, seen=seen, on=_now(memory))
    if conflicts.is_saved_already(context["hunks"]) and not context["ticked"]:
        return _stands(request, place, memory)
    context["choices"] = conflicts.read_choices({}, context["hunks"])
    context["rail"] = rail_of(memory, place)
    return _resolver(request, context, status=409)


def _resolved(
    request: UserRequest, place: WorkspaceContext, memory: Memory, on: Base
) -> dict[str, Any]:
    """The same conflict again, with the choices that were made."""
    context = _conflict_context(
        request,
        place,
        memory,
        yours=_clean(request.POST.get("yours", "")),
        seen=_base(request, "seen", "seen_revision"),
        on=on,
    )
    context["choices"] = conflicts.read_choices(request.POST, context["hunks"])
    context["is_put_together"] = True
    return context


def _conflict_context(
    request: UserRequest,
    place: WorkspaceContext,
    memory: Memory,
    *,
    yours: str,
    seen: Base,
    on: Base,
) -> dict[str, Any]:
    """``seen`` is the text that the edit began from. Rewritten in place meanwhile it is gone: then
    nobody knows who changed what, and each side stays where they differ."""
    by_number = {
        version.number: version
        for version in with_origin(
            versions_of(memory, place).filter(number__in=(seen.number, on.number))
        )
    }
    base, theirs = by_number.get(seen.number), by_number.get(on.number)
    saved = theirs.content if theirs else ""
    if base is None or base.revision == seen.revision:
        began = base.content if base else ""
    else:
        began = conflicts.common_lines(yours, saved)
    return {
        "place": place,
        "memory": memory,
        "yours": yours,
        "seen": seen,
        "based_on": on,
        "theirs": show_one(theirs, place),
        "ticked": request.POST.getlist("keep"),
        "summary": _summary(request),
        "hunks": conflicts.find_hunks(began, yours, saved),
        "is_put_together": False,
    }


def _resolver(
    request: UserRequest, context: dict[str, Any], *, status: int, text: str | None = None
) -> HttpResponse:
    """``text``: a result that was typed, else what the choices make."""
    hunks, choices = context["hunks"], context["choices"]
    context["text"] = conflicts.join_choices(hunks, choices) if text is None else text
    context["paragraphs"] = list(zip(hunks, choices, strict=True))
    return render_page_or_part(
        request,
        "memory/memories/conflict.html",
        "memory/memories/_conflict.html",
        context,
        status=status,
    )


def _now(memory: Memory) -> Base:
    current = memory.current
    return Base(current.number, current.revision) if current else Base(0, 0)


def _typed(request: UserRequest) -> tuple[str, Base]:
    """What a form of the editor holds: the text, and over which one it was typed."""
    return _clean(request.POST.get("text", "")), _base(request, "based_on", "revision")


def _base(request: UserRequest, *names: str) -> Base:
    number, revision = (number_in(request, name) for name in names)
    return Base(number, revision)


def _summary(request: UserRequest) -> str:
    return name_in(request.POST.get("summary", ""))


def _text_error(text: str) -> str:
    if not split_text(text):
        return _empty()
    if len(text) > LONGEST_TEXT:
        return _("The text has %(n)s characters; %(limit)s fit.") % {
            "n": len(text),
            "limit": LONGEST_TEXT,
        }
    return ""


def _empty() -> str:
    return _("A memory cannot be empty. To take everything back, restore an older version.")


def _clean(text: str) -> str:
    """As browsers send it, but with plain line ends and without what PostgreSQL cannot keep."""
    return normalize_newlines(text).replace("\0", "")
