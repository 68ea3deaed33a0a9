"""The editor of a memory with its conflicts and drafts, and the list of versions."""

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
from memories.models.memory.new_version import number_and_revision
from memories.models.memory.versions import MAX_NAME_LENGTH
from memories.rules.memory import compare, conflicts
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import MAX_TEXT_LENGTH, split_text
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_edit,
    number_in,
    open_memory,
)
from memories.views.memory.display import (
    display_version,
    for_display,
    for_list,
    visible_versions,
)
from memories.views.memory.naming import clean_name, name_error
from memories.views.memory.rail import Rail, build_rail, card_context, find_edit_outcome
from memories.views.pages import render_page_or_part, render_part, wants_part
from memories.views.paths import card_path

PAGE_SIZE = 50


@dataclass(frozen=True)
class Base:
    """The version that a person edits, and its revision (the count of its rewrites in place)."""

    number: int
    revision: int

    @classmethod
    def of(cls, version: MemoryVersion | None) -> "Base":
        return cls(*number_and_revision(version))


@login_required
def edit(request: UserRequest, pk: int) -> HttpResponse:
    """Show the editor, and save a new version over the one that it was opened with.

    The status is 422 for an invalid text. It is 409 if there is a newer version: the page then
    shows both texts, paragraph by paragraph, and saves the result over the newer one. GET offers an
    unsaved draft; ``?draft=take`` opens it.
    """
    access, memory = open_memory(request, pk)
    must_edit(access)
    if request.method != "POST":
        return _open_editor(request, access, memory)
    text, base = _read_text(request), read_base(request, "based_on", "revision")
    is_resolution = "seen" in request.POST
    if is_resolution:
        context = _resolution_context(request, access, memory, base)
        if request.POST.get("do") == "choose":
            if conflicts.is_edited_by_hand(request.POST, context["hunks"], text):
                context["replaced"] = text
            return _render_conflict(request, context, status=200)
        text = conflicts.resolved_text(request.POST, context["hunks"], text)
        if error := text_error(text):
            return _render_conflict(request, context | {"error": error}, text=text, status=422)
    error = text_error(text) or name_error(_read_summary(request))
    if error:
        save_draft(access, memory, text, base)
    else:
        try:
            version = _save(request, memory, text, base)
        except Unchanged:
            if is_resolution:
                return _answer_already_saved(request, access, memory)
            error = _("No differences from version %(number)s.") % {"number": base.number}
        except ValueError:  # only redacted lines were left
            error = empty_error()
        except StaleBase:
            save_draft(access, memory, text, base)
            memory.refresh_from_db()
            return answer_conflict(request, access, memory, yours=text, seen=base)
        else:
            news = _("Saved as version %(number)s.") % {"number": version.number}
            return _answer_saved(request, access, memory, news)
    return _render_editor(request, access, memory, text=text, base=base, error=error, status=422)


@login_required
@require_POST
def preview(request: UserRequest, pk: int) -> HttpResponse:
    """Show the changes of the typed text, and save it as a draft."""
    access, memory = open_memory(request, pk)
    must_edit(access)
    text, base = _read_text(request), read_base(request, "based_on", "revision")
    save_draft(access, memory, text, base)
    version = visible_versions(memory, access).filter(number=base.number).first()
    rows = compare.compare_lines(version.content if version else "", text)
    changes = {
        "rows": rows,
        "changes": compare.changed_rows(rows),
        **compare.count_changes(rows),
    }
    if wants_part(request):
        context = {"access": access, "preview": changes}
        return render_part(request, "memory/memories/_preview.html", context)
    return _render_editor(request, access, memory, text=text, base=base, preview=changes)


@login_required
@require_POST
def draft(request: UserRequest, pk: int) -> HttpResponse:
    """Save the typed text for a day, for its author.

    ``do=discard`` deletes the earlier draft first.
    """
    access, memory = open_memory(request, pk)
    must_edit(access)
    text, base = _read_text(request), read_base(request, "based_on", "revision")
    if request.POST.get("do") == "discard":
        Draft.objects.discard(access.reader, memory)
        save_draft(access, memory, text, base)
        return _render_editor(request, access, memory, text=text, base=base)
    saved = save_draft(access, memory, text, base)
    if not wants_part(request):
        return redirect(f"{reverse('memories-edit', args=[pk])}?draft=take")
    context = {"access": access, "saved_draft": saved}
    return render_part(request, "memory/memories/_draft_saved.html", context)


@login_required
@require_safe
def versions(request: UserRequest, pk: int) -> HttpResponse:
    """List all versions. The part replaces the newest versions beside the memory."""
    access, memory = open_memory(request, pk)
    versions = visible_versions(memory, access).newest_first()
    paginator = Paginator(for_list(versions), PAGE_SIZE)
    page = paginator.get_page(request.GET.get("page"))
    rail = Rail(page.object_list)
    rail.outcome = find_edit_outcome(versions, access)
    context = {"access": access, "memory": memory, "page": page, "rail": rail}
    return render_page_or_part(
        request, "memory/memories/versions.html", "memory/memories/_rail.html", context
    )


def _open_editor(request: UserRequest, access: WorkspaceAccess, memory: Memory) -> HttpResponse:
    """Render the editor with the current text, or with the draft on request."""
    text = memory.current.content if memory.current else ""
    draft = Draft.objects.find(access.reader, memory, timezone.now())
    if draft is None or draft.text == text:
        return _render_editor(request, access, memory, text=text, base=Base.of(memory.current))
    if request.GET.get("draft") == "take":
        base = Base(draft.based_on, draft.revision)
        return _render_editor(request, access, memory, text=draft.text, base=base)
    base = Base.of(memory.current)
    return _render_editor(request, access, memory, text=text, base=base, draft=draft)


def save_draft(access: WorkspaceAccess, memory: Memory, text: str, base: Base) -> Draft | None:
    if not split_text(text):
        return None
    return Draft.objects.save_text(
        access.reader,
        memory,
        text,
        based_on=base.number,
        revision=base.revision,
        now=timezone.now(),
    )


def _render_editor(
    request: UserRequest,
    access: WorkspaceAccess,
    memory: Memory,
    *,
    text: str,
    base: Base,
    error: str = "",
    preview: dict[str, Any] | None = None,
    draft: Draft | None = None,
    status: int = 200,
) -> HttpResponse:
    settings = access.workspace.memory_settings
    is_long_term = memory.memory_type == MemoryType.LONG_TERM
    version = visible_versions(memory, access).filter(number=base.number).first()
    context = {
        "access": access,
        "memory": memory,
        "text": text,
        "unprotected_lines": version.unprotected_lines() if version else (),
        "ticked": request.POST.getlist("keep"),
        "summary": _read_summary(request),
        "longest_name": MAX_NAME_LENGTH,
        "based_on": base,
        "error": error,
        "preview": preview,
        "draft": draft,
        "limit": settings.long_term_max_tokens if is_long_term else settings.short_term_max_tokens,
        "is_being_made": memory.jobs.unfinished().exists(),
    }
    return render_page_or_part(
        request, "memory/memories/edit.html", "memory/memories/_editor.html", context, status=status
    )


@transaction.atomic
def _save(request: UserRequest, memory: Memory, text: str, base: Base) -> MemoryVersion:
    """Save the edit, pin the ticked lines, and name the version by its summary.

    Pins are saved without a new version if the text is the same. Raise Unchanged without pins.
    """
    by, pinned_texts = request.user, request.POST.getlist("keep")
    try:
        version = memory.revise(text, by=by, based_on=base.number, revision=base.revision)
        memory.pin_texts(pinned_texts, by=by, based_on=version.number)
    except Unchanged:
        if not memory.pin_texts(pinned_texts, by=by, based_on=base.number, revision=base.revision):
            raise
    assert memory.current is not None
    if name := _read_summary(request):
        memory.current.rename(name, by=by)
    return memory.current


def _answer_already_saved(
    request: UserRequest, access: WorkspaceAccess, memory: Memory
) -> HttpResponse:
    """Answer a resolved conflict whose result is the current text."""
    assert memory.current is not None
    news = _("This text is already saved as version %(number)s.")
    return _answer_saved(request, access, memory, news % {"number": memory.current.number})


def _answer_saved(
    request: UserRequest, access: WorkspaceAccess, memory: Memory, news: str
) -> HttpResponse:
    Draft.objects.discard(access.reader, memory)
    if not wants_part(request):
        toasts.success(request, news)
        return redirect(card_path(memory))
    context = {**card_context(memory, access), "news": news, "takes_focus": True}
    return render_part(request, "memory/memories/_saved.html", context)


def answer_conflict(
    request: UserRequest, access: WorkspaceAccess, memory: Memory, *, yours: str, seen: Base
) -> HttpResponse:
    """Answer 409 with both texts, unless they are equal and no lines are to be pinned."""
    base = Base.of(memory.current)
    context = _conflict_context(request, access, memory, yours=yours, seen=seen, base=base)
    if conflicts.is_saved_already(context["hunks"]) and not context["ticked"]:
        return _answer_already_saved(request, access, memory)
    context["choices"] = conflicts.read_choices({}, context["hunks"])
    context["rail"] = build_rail(memory, access)
    return _render_conflict(request, context, status=409)


def _resolution_context(
    request: UserRequest, access: WorkspaceAccess, memory: Memory, base: Base
) -> dict[str, Any]:
    """Return the context of a conflict that was shown before, with its choices."""
    yours = clean_text(request.POST.get("yours", ""))
    seen = read_base(request, "seen", "seen_revision")
    context = _conflict_context(request, access, memory, yours=yours, seen=seen, base=base)
    context["choices"] = conflicts.read_choices(request.POST, context["hunks"])
    context["has_choices"] = True
    return context


def _conflict_context(
    request: UserRequest,
    access: WorkspaceAccess,
    memory: Memory,
    *,
    yours: str,
    seen: Base,
    base: Base,
) -> dict[str, Any]:
    """Return the context of a conflict between ``yours`` and the version ``base``.

    ``seen`` is the version that the edit began from. If it was rewritten, its text is lost. The
    lines of both texts then take its place, so every difference is a choice.
    """
    numbers = (seen.number, base.number)
    rows = for_display(visible_versions(memory, access).filter(number__in=numbers))
    by_number = {version.number: version for version in rows}
    seen_version, saved_version = by_number.get(seen.number), by_number.get(base.number)
    theirs = saved_version.content if saved_version else ""
    if seen_version is None:
        began = ""
    elif seen_version.revision == seen.revision:
        began = seen_version.content
    else:
        began = conflicts.common_lines(yours, theirs)
    return {
        "access": access,
        "memory": memory,
        "yours": yours,
        "seen": seen,
        "based_on": base,
        "theirs": display_version(saved_version, access),
        "ticked": request.POST.getlist("keep"),
        "summary": _read_summary(request),
        "hunks": conflicts.find_hunks(began, yours, theirs),
        "has_choices": False,
    }


def _render_conflict(
    request: UserRequest, context: dict[str, Any], *, status: int, text: str | None = None
) -> HttpResponse:
    """Render a conflict. ``text`` is a typed result, by default that of the choices."""
    hunks, choices = context["hunks"], context["choices"]
    context["text"] = conflicts.join_choices(hunks, choices) if text is None else text
    context["paragraphs"] = list(zip(hunks, choices, strict=True))
    page, part = "memory/memories/conflict.html", "memory/memories/_conflict.html"
    return render_page_or_part(request, page, part, context, status=status)


def _read_text(request: UserRequest) -> str:
    return clean_text(request.POST.get("text", ""))


def read_base(request: UserRequest, number: str, revision: str) -> Base:
    return Base(number_in(request, number), number_in(request, revision))


def _read_summary(request: UserRequest) -> str:
    return clean_name(request.POST.get("summary", ""))


def text_error(text: str, limit: int = MAX_TEXT_LENGTH, empty: str = "") -> str:
    if not split_text(text):
        return empty or empty_error()
    if len(text) > limit:
        return _("The text has %(n)s characters. The limit is %(limit)s.") % {
            "n": len(text),
            "limit": limit,
        }
    return ""


def empty_error() -> str:
    return _("A memory cannot be empty. To undo changes, restore an older version.")


def clean_text(text: str) -> str:
    """Normalize the line ends of a browser, and remove NUL, which PostgreSQL cannot store."""
    return normalize_newlines(text).replace("\0", "")
