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
from memories.rules.memory.lines import MAX_TEXT_LENGTH, hash_text
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_edit,
    open_workspace,
)
from memories.views.memory.memories import text_error
from memories.views.memory.proposals import read_typed_text
from memories.views.pages import render_page
from memories.views.paths import message_path

SHOWN = 50


@dataclass
class ReviewItem:
    """A proposal: of a text by a ``job``, or of a line or note by a person, a key or a merge.

    ``key`` names it in the form. ``rows`` compares the texts. ``text`` is the proposed or the typed
    one, and ``shown`` the digest of the proposed text that the form shows.
    """

    key: str
    memory: Memory
    rows: list[DiffRow]
    text: str
    shown: str
    max_length: int
    is_edited: bool = False
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

    POST ``do``: approve or reject those in ``chosen``. ``only`` is an action and one key. The page
    then has the typed texts that were not saved. The status is 409 if a chosen one is among them.
    """
    access = open_workspace(request, slug)
    must_edit(access)
    typed: dict[str, str] = {}
    status = 200
    if request.method == "POST":
        typed, is_complete = _decide(request, access)
        if not typed:
            return redirect("review-index", slug)
        status = 200 if is_complete else 409
    rows = _rows(access)
    items = [_item(key, row, access) for key, row in list(rows.items())[:SHOWN]]
    for item in items:
        # An edit of a text that has changed since is shown above the forms.
        if item.key in typed and request.POST.get(f"shown-of-{item.key}") == item.shown:
            item.text, item.is_edited = typed.pop(item.key), True
    context: dict[str, Any] = {
        "access": access,
        "items": items,
        "has_more": len(rows) > SHOWN,
        "has_several": len(rows) > 1,
        "unsaved": list(typed.values()),
        "has_typed": any(item.is_edited for item in items),
    }
    return render_page(request, "memory/review/index.html", context, status=status)


def _rows(access: WorkspaceAccess) -> dict[str, Job | Proposal]:
    """Return the open proposals by their keys in the form: whole texts first."""
    readable = Message.objects.visible_to(access.reader).select_related("channel", "author")
    of_lines = review.open_proposals(access.workspace, access.reader)
    jobs = review.find_proposed_jobs(access.workspace, access.reader)
    return {f"text-{job.pk}": job for job in jobs} | {
        f"line-{row.pk}": row for row in of_lines.prefetch_related(Prefetch("sources", readable))
    }


def _decide(request: UserRequest, access: WorkspaceAccess) -> tuple[dict[str, str], bool]:
    """Decide about the chosen proposals.

    Return the typed texts of the others by key, and whether none of these was chosen.
    """
    chosen, action = request.POST.getlist("chosen"), request.POST.get("do")
    if "only" in request.POST:
        action, _space, key = request.POST["only"].partition(" ")
        chosen = [key]
    if action not in ("approve", "reject"):
        raise Http404
    rows, decided = _rows(access), set()
    for key in chosen:
        row = rows.get(key)
        if row is None:
            continue
        if (
            review.reject(row, by=request.user)
            if action == "reject"
            else _approve(request, key, row)
        ):
            decided.add(key)
    count = len(decided)
    if decided:
        news = (
            ngettext("%(n)s proposal approved.", "%(n)s proposals approved.", count)
            if action == "approve"
            else ngettext("%(n)s proposal rejected.", "%(n)s proposals rejected.", count)
        )
        toasts.success(request, news % {"n": count})
    if not chosen:
        toasts.error(request, _("Nothing was changed. Select at least one proposal."))
    elif skipped := len(set(chosen)) - count:
        text = ngettext(
            "%(n)s proposal was not decided. It was decided already, its text has changed, or the "
            "text that you typed is not possible.",
            "%(n)s proposals were not decided. They were decided already, their texts have changed, "
            "or the texts that you typed are not possible.",
            skipped,
        )
        toasts.error(request, text % {"n": skipped})
    keys = [name.removeprefix("text-of-") for name in request.POST if name.startswith("text-of-")]
    typed = {key: read_typed_text(request, f"-of-{key}") for key in keys if key not in decided}
    unsaved = {key: text for key, text in typed.items() if text}
    return unsaved, unsaved.keys().isdisjoint(chosen)


def _approve(request: UserRequest, key: str, row: Job | Proposal) -> bool:
    typed = read_typed_text(request, f"-of-{key}")
    limit = MAX_LENGTH if isinstance(row, Proposal) else MAX_TEXT_LENGTH
    if typed is not None and text_error(typed, limit):
        return False
    shown = request.POST.get(f"shown-of-{key}", "")
    return review.approve(row, by=request.user, text=typed or "", shown=shown)


def _item(key: str, row: Job | Proposal, access: WorkspaceAccess) -> ReviewItem:
    if isinstance(row, Job):
        base = proposals.get_base(row)
        text = proposals.proposed_text(row)
        rows = compare_lines(base.content if base else "", text)
        return ReviewItem(key, row.memory, rows, text, hash_text(text), MAX_TEXT_LENGTH, job=row)
    slug = access.workspace.slug
    sources = [(message, message_path(slug, message)) for message in row.sources.all()]
    rows = compare_lines(row.line_text, row.text)
    shown = hash_text(row.text)
    return ReviewItem(
        key, row.memory, rows, row.text, shown, MAX_LENGTH, proposal=row, sources=sources
    )
