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
from memories.views.access.access import UserRequest, WorkspaceContext, must_edit, open_workspace
from memories.views.pages import render_page
from memories.views.paths import message_path

SHOWN = 50


@dataclass(frozen=True)
class ReviewItem:
    """A proposal: of a text by a ``job``, or of a line or note by a person, a key or a merge.

    ``key`` names it in the form. ``rows`` compares the texts.
    """

    key: str
    memory: Memory
    rows: list[DiffRow]
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

    POST ``do``: approve or reject those in ``chosen``. ``only`` is an action and one key.
    """
    place = open_workspace(request, slug)
    must_edit(place)
    if request.method == "POST":
        _decide(request, place)
        return redirect("review-index", slug)
    rows = _rows(place)
    context: dict[str, Any] = {
        "place": place,
        "items": [_item(key, row, place) for key, row in list(rows.items())[:SHOWN]],
        "has_more": len(rows) > SHOWN,
        "has_several": len(rows) > 1,
        "max_length": MAX_LENGTH,
    }
    return render_page(request, "memory/review/index.html", context)


def _rows(place: WorkspaceContext) -> dict[str, Job | Proposal]:
    """Return the open proposals by their keys in the form: whole texts first."""
    readable = Message.objects.visible_to(place.reader).select_related("channel", "author")
    of_lines = review.open_proposals(place.workspace, place.reader)
    jobs = review.find_proposed_jobs(place.workspace, place.reader)
    return {f"text-{job.pk}": job for job in jobs} | {
        f"line-{row.pk}": row for row in of_lines.prefetch_related(Prefetch("sources", readable))
    }


def _decide(request: UserRequest, place: WorkspaceContext) -> None:
    chosen, action = request.POST.getlist("chosen"), request.POST.get("do")
    if "only" in request.POST:
        action, _space, key = request.POST["only"].partition(" ")
        chosen = [key]
    if action not in ("approve", "reject"):
        raise Http404
    decided = 0
    rows = _rows(place)
    for key in chosen:
        row = rows.get(key)
        if row is None:
            continue
        text = request.POST.get(f"text-of-{key}", "").replace("\0", "")[:MAX_LENGTH]
        if action == "approve":
            decided += review.approve(row, by=request.user, text=text)
        else:
            decided += review.reject(row, by=request.user)
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
            "%(n)s proposal was not decided. It was decided already, or its text has changed.",
            "%(n)s proposals were not decided. They were decided already, or their texts have "
            "changed.",
            skipped,
        )
        toasts.error(request, text % {"n": skipped})


def _item(key: str, row: Job | Proposal, place: WorkspaceContext) -> ReviewItem:
    if isinstance(row, Job):
        base = proposals.get_base(row)
        text = "\n".join(line.text for line in proposals.proposed_lines(row))
        return ReviewItem(
            key, row.memory, compare_lines(base.content if base else "", text), job=row
        )
    slug = place.workspace.slug
    sources = [(message, message_path(slug, message)) for message in row.sources.all()]
    rows = compare_lines(row.line_text, row.text)
    return ReviewItem(key, row.memory, rows, proposal=row, sources=sources)
