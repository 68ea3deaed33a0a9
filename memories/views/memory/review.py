"""Review: all open proposals of a workspace, to approve or reject several at once."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.db.models import Prefetch
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memories.models import Job, Memory, Message, Proposal
from memories.models.memory.proposals import MAX_LENGTH
from memories.pipeline.memory import proposals, review
from memories.rules.memory.compare import DiffRow, changed_rows, compare_lines
from memories.rules.memory.lines import MAX_TEXT_LENGTH
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    must_edit,
    open_workspace,
)
from memories.views.memory.memories import text_error
from memories.views.memory.proposals import read_typed_text
from memories.views.pages import render_page
from memories.views.paths import message_path

SHOWN = 50


@dataclass(frozen=True)
class ReviewItem:
    """A proposal: of a text by a ``job``, or of a line or note by a person, a key or a merge.

    ``key`` names it in the form. ``rows`` compares the texts. ``text`` is the proposed one.
    """

    key: str
    memory: Memory
    rows: list[DiffRow]
    text: str
    max_length: int
    job: Job | None = None
    proposal: Proposal | None = None
    sources: list[tuple[Message, str]] = field(default_factory=list)

    @cached_property
    def changes(self) -> list[DiffRow]:
        return changed_rows(self.rows)

    @property
    def unchanged(self) -> int:
        return len(self.rows) - len(self.changes)


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List the open proposals, for editors.

    POST ``do``: approve or reject those in ``chosen``. ``only`` is an action and one key. The status
    is 409 if a typed text could not be saved. The page then has the text.
    """
    place = open_workspace(request, slug)
    must_edit(place)
    unsaved = []
    if request.method == "POST":
        unsaved = _decide(request, place)
        if not unsaved:
            return redirect("review-index", slug)
    rows = _rows(place)
    context: dict[str, Any] = {
        "place": place,
        "items": [_item(key, row, place) for key, row in list(rows.items())[:SHOWN]],
        "has_more": len(rows) > SHOWN,
        "has_several": len(rows) > 1,
        "unsaved": unsaved,
    }
    status = 409 if unsaved else 200
    return render_page(request, "memory/review/index.html", context, status=status)


def _rows(place: WorkspaceContext) -> dict[str, Job | Proposal]:
    """Return the open proposals by their keys in the form: whole texts first."""
    readable = Message.objects.visible_to(place.reader).select_related("channel", "author")
    of_lines = review.open_proposals(place.workspace, place.reader)
    jobs = review.find_proposed_jobs(place.workspace, place.reader)
    return {f"text-{job.pk}": job for job in jobs} | {
        f"line-{row.pk}": row for row in of_lines.prefetch_related(Prefetch("sources", readable))
    }


def _decide(request: UserRequest, place: WorkspaceContext) -> list[str]:
    """Decide about the chosen proposals. Return the typed texts that were not saved."""
    chosen, action = request.POST.getlist("chosen"), request.POST.get("do")
    if "only" in request.POST:
        action, _space, key = request.POST["only"].partition(" ")
        chosen = [key]
    if action not in ("approve", "reject"):
        raise Http404
    decided, unsaved = 0, []
    rows = _rows(place)
    for key in chosen:
        row, typed = rows.get(key), read_typed_text(request, f"-of-{key}")
        if row is not None and action == "reject":
            decided += review.reject(row, by=request.user)
        elif row is not None and _approve(request, row, key, typed):
            decided += 1
        elif typed and action == "approve":
            unsaved.append(typed)
    if decided:
        news = (
            ngettext("%(n)s proposal approved.", "%(n)s proposals approved.", decided)
            if action == "approve"
            else ngettext("%(n)s proposal rejected.", "%(n)s proposals rejected.", decided)
        )
        toasts.success(request, news % {"n": decided})
    if not chosen:
        toasts.error(request, _("Nothing was changed. Select at least one proposal."))
    elif skipped := len(chosen) - decided:
        text = ngettext(
            "%(n)s proposal was not decided. It was decided already, its text has changed, or the "
            "text that you typed is not possible.",
            "%(n)s proposals were not decided. They were decided already, their texts have changed, "
            "or the texts that you typed are not possible.",
            skipped,
        )
        toasts.error(request, text % {"n": skipped})
    return unsaved


def _approve(request: UserRequest, row: Job | Proposal, key: str, typed: str | None) -> bool:
    limit = MAX_LENGTH if isinstance(row, Proposal) else MAX_TEXT_LENGTH
    if typed is not None and text_error(typed, limit):
        return False
    shown = request.POST.get(f"shown-of-{key}", "")
    return review.approve(row, by=request.user, text=typed or "", shown=shown)


def _item(key: str, row: Job | Proposal, place: WorkspaceContext) -> ReviewItem:
    if isinstance(row, Job):
        base = proposals.get_base(row)
        text = proposals.proposed_text(row)
        rows = compare_lines(base.content if base else "", text)
        return ReviewItem(key, row.memory, rows, text, MAX_TEXT_LENGTH, job=row)
    slug = place.workspace.slug
    sources = [(message, message_path(slug, message)) for message in row.sources.all()]
    rows = compare_lines(row.line_text, row.text)
    return ReviewItem(key, row.memory, rows, row.text, MAX_LENGTH, proposal=row, sources=sources)
