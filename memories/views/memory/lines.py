"""Edit one line of a memory, or propose another text for it."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from memories.models import Draft, Line, Memory, MemoryVersion, Proposal, StaleBase
from memories.models.memory.lines import LineQuerySet
from memories.models.memory.proposals import MAX_LENGTH
from memories.pipeline.memory.proposals import find_sources
from memories.rules.memory.lines import correct_line, strip_bullet
from memories.views.access.access import UserRequest, WorkspaceAccess, open_memory
from memories.views.memory.display import visible_versions
from memories.views.memory.line_display import hash_words, show_words
from memories.views.memory.memories import Base, answer_conflict, read_base, save_draft
from memories.views.memory.rail import card_context
from memories.views.memory.selection import requested_period
from memories.views.pages import render_page_or_part, render_part, wants_part
from memories.views.paths import card_path


@dataclass(frozen=True)
class LineForm:
    """What a person typed for the line at a position. ``error`` is the reason for not saving it."""

    position: int
    text: str
    reason: str = ""
    source: str = ""
    error: str = ""


@login_required
def edit(request: UserRequest, pk: int, position: int) -> HttpResponse:
    """Save another text for a line of the seen version (``based_on``, ``revision``).

    For editors this adds a version. For other members it adds a proposal. ``?wrong=1`` also asks for
    a reason and a source. ``hash`` is that of the line's words: if the memory was rewritten, the
    line with these words counts. The status is 422 for an invalid text. It is 409 if no line has
    the words, or if there is a newer version: editors then get the conflict page with the whole
    text.
    """
    access, memory = open_memory(request, pk)
    if not access.may_propose:
        raise PermissionDenied
    if request.method != "POST":
        return _open_form(request, access, memory, position)
    base = read_base(request, "based_on", "revision")
    seen = visible_versions(memory, access).filter(number=base.number, revision=base.revision)
    line = _find_line(seen.first(), position)
    if line is None:  # the version was rewritten in place
        line = _find_words(memory.current, position, request.POST.get("hash", ""))
    form = _read_form(request, line, position)
    if line is None:
        if access.can_edit:
            _save_as_last_line(access, memory, form.text)
        return _render(request, access, memory, None, form, 409)
    if form.error:
        return _render(request, access, memory, line, form, 422)
    if not access.can_edit:
        _propose(request, access, line, form)
        news = _("Proposed. An editor will decide.")
        return _answer(request, access, memory, news, line.position)
    base = Base.of(line.version)
    try:
        version = _save(request, access, line, form, base)
    except StaleBase:
        yours = _text_with(line, form.text)
        save_draft(access, memory, yours, base)
        memory.refresh_from_db()
        return answer_conflict(request, access, memory, yours=yours, seen=base)
    news = _("Saved as version %(number)s.") % {"number": version.number}
    return _answer(request, access, memory, news, line.position)


def _open_form(
    request: UserRequest, access: WorkspaceAccess, memory: Memory, position: int
) -> HttpResponse:
    """Render the form with the line as it is now. 409: the line on the reader's page is gone."""
    if words_hash := request.GET.get("hash", ""):
        line = _find_words(memory.current, position, words_hash)
        if line is None:
            error = _("This line changed after you opened the page. Reload the page.")
            form = LineForm(position, "", error=error)
            return _render(request, access, memory, None, form, 409)
    else:
        line = _find_line(memory.current, position)
        if line is None:
            raise Http404
    return _render(request, access, memory, line, LineForm(position, strip_bullet(line.text)))


def _find_line(version: MemoryVersion | None, position: int) -> Line | None:
    return _editable_lines(version).filter(position=position).first()


def _editable_lines(version: MemoryVersion | None) -> LineQuerySet:
    return version.lines.filter(redacted=False) if version else Line.objects.none()


def _find_words(version: MemoryVersion | None, position: int, words_hash: str) -> Line | None:
    """Return the line whose words have this hash. Of equal ones, the nearest."""
    lines = _editable_lines(version)
    equal = (line for line in lines if hash_words(show_words(line.text)) == words_hash)
    return min(equal, key=lambda line: abs(line.position - position), default=None)


def _read_form(request: UserRequest, line: Line | None, position: int) -> LineForm:
    names = ("text", "reason", "source")
    values = (request.POST.get(name, "").replace("\0", "").strip() for name in names)
    text, reason, source = values
    error = ""
    if line is None:
        error = _(
            "Nothing was saved. This line changed after you opened it. Copy your text, and reload "
            "the page."
        )
    elif not any(map(str.isalnum, text)):
        error = _("A line cannot be empty. To remove it, edit the whole memory.")
    elif strip_bullet(text) == strip_bullet(line.text):
        error = _("The text is the same. Change it, or cancel.")
    elif max(map(len, (text, reason, source))) > MAX_LENGTH:
        error = _("A text has at most %(n)s characters.") % {"n": MAX_LENGTH}
    return LineForm(position, strip_bullet(text), reason, source, error)


def _save_as_last_line(access: WorkspaceAccess, memory: Memory, text: str) -> None:
    """Save a draft: the reader's draft, or else the current text, with this text as its last line."""
    if not text:
        return
    if draft := Draft.objects.find(access.reader, memory, access.now):
        content, base = draft.text, Base(draft.based_on, draft.revision)
    else:
        content = memory.current.content if memory.current else ""
        base = Base.of(memory.current)
    save_draft(access, memory, f"{content}\n- {text}", base)


def _propose(request: UserRequest, access: WorkspaceAccess, line: Line, form: LineForm) -> Proposal:
    return Proposal.objects.propose(
        line.version,
        line,
        form.text,
        reason=form.reason,
        source_text=form.source,
        sources=find_sources(line.version.memory, form.source, access.reader),
        author=request.user,
    )


@transaction.atomic
def _save(
    request: UserRequest, access: WorkspaceAccess, line: Line, form: LineForm, base: Base
) -> MemoryVersion:
    """Add a version. A reason or a source is kept with an approved proposal."""
    if not (form.reason or form.source):
        return line.correct(
            form.text, by=request.user, based_on=base.number, revision=base.revision
        )
    proposal = _propose(request, access, line, form)
    version = proposal.approve(by=request.user, based_on=base.number, revision=base.revision)
    assert version is not None
    return version


def _text_with(line: Line, text: str) -> str:
    """Return the text of the line's version with these words in its place."""
    values = line.version.lines.order_by("position").as_values()
    corrected = correct_line(values, line.position, text, None)[line.position].text
    rows = line.version.content.split("\n")
    return "\n".join(corrected if row.rstrip() == line.text else row for row in rows)


def _answer(
    request: UserRequest, access: WorkspaceAccess, memory: Memory, news: str, position: int
) -> HttpResponse:
    if not wants_part(request):
        toasts.success(request, news)
        return redirect(card_path(memory))
    memory.refresh_from_db()
    since = requested_period(request.POST, access)
    context = {**card_context(memory, access, since), "news": news, "focus_line": position}
    return render_part(request, "memory/memories/_saved.html", context)


def _render(
    request: UserRequest,
    access: WorkspaceAccess,
    memory: Memory,
    line: Line | None,
    form: LineForm,
    status: int = 200,
) -> HttpResponse:
    """Render the form for a line. Without a line, the memory does not have it any more."""
    on = request.POST.get("on", request.GET.get("on", ""))
    context: dict[str, Any] = {
        "access": access,
        "memory": memory,
        "line": line,
        "words_hash": hash_words(show_words(line.text)) if line else "",
        "key": f"{memory.pk}-{form.position}",
        "form": form,
        "on": on,
        "since": request.POST.get("since", request.GET.get("since", "")),
        "is_wrong": "wrong" in request.GET or bool(form.reason or form.source),
        "max_length": MAX_LENGTH,
    }
    page, part = "memory/lines/edit.html", "memory/lines/_form.html"
    response = render_page_or_part(request, page, part, context, status=status)
    if request.method == "POST" and wants_part(request):
        response["HX-Retarget"] = "closest .line-form"
        response["HX-Reswap"] = "innerHTML"
    return response
