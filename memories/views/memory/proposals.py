"""A long-term text that waits for a person's word, shorter or rebuilt: looked at, accepted or
rejected."""

from contextlib import suppress

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from memories.models import Job, Memory, StaleBase
from memories.pipeline.memory import proposals
from memories.rules.memory.compare import changed_rows, compare_lines
from memories.rules.memory.drift import Drift, DriftKind
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    must_edit,
    number_or_none,
    open_memory,
)
from memories.views.memory.shown import Proposal, proposal_to, show_one
from memories.views.pages import render_page
from memories.views.paths import card_path

DRIFT_WORDS: dict[DriftKind, str | Promise] = {
    DriftKind.PINNED: gettext_lazy("Pinned lines"),
    DriftKind.DATE: gettext_lazy("Dates"),
    DriftKind.NUMBER: gettext_lazy("Numbers"),
    DriftKind.NAME: gettext_lazy("Names"),
    DriftKind.LINK: gettext_lazy("Links"),
}


@login_required
@require_safe
def detail(request: UserRequest, pk: int) -> HttpResponse:
    """The current text beside the one that waits. 404 when none does."""
    place, memory = open_memory(request, pk)
    proposal = _waiting(memory)
    if proposal is None:
        raise Http404
    return _page(request, place, memory, proposal)


@login_required
@require_POST
def accept(request: UserRequest, pk: int) -> HttpResponse:
    """Make the text that was looked at (``job``) the current one; 409 when the memory moved
    on, or another text waits by now."""
    place, memory = open_memory(request, pk)
    must_edit(place)
    job = _seen(request, memory)
    version = None
    with suppress(StaleBase):
        version = proposals.accept(job, by=request.user) if job else None
    if version is None:
        return _moved_on(request, place, memory)
    toasts.success(request, _("Accepted: it is version %(number)s.") % {"number": version.number})
    return redirect(card_path(memory))


@login_required
@require_POST
def reject(request: UserRequest, pk: int) -> HttpResponse:
    """The text stays as it is. 409 like `accept`."""
    place, memory = open_memory(request, pk)
    must_edit(place)
    job = _seen(request, memory)
    if job is None or not proposals.reject(job, by=request.user):
        return _moved_on(request, place, memory)
    toasts.success(request, _("Rejected: the text stays as it is."))
    return redirect(card_path(memory))


def _waiting(memory: Memory) -> Proposal | None:
    return proposal_to(memory.current) if memory.current else None


def _seen(request: UserRequest, memory: Memory) -> Job | None:
    """The proposal that was on screen, over the text (``based_on``) that was; None when another
    waits by now, or none."""
    job = proposals.find_proposal(memory)
    base = proposals.get_base(job) if job else None
    if job is None or base is None:
        return None
    seen = tuple(number_or_none(request.POST.get(name, "")) for name in ("job", "based_on"))
    return job if seen == (job.pk, base.number) else None


def _drift(proposal: Proposal | None) -> list[tuple[str | Promise, Drift]]:
    """What a rebuild loses and gains, each kind with its name."""
    if proposal is None or not proposal.job.is_rebuild:
        return []
    return [(DRIFT_WORDS[drift.kind], drift) for drift in proposals.proposal_drift(proposal.job)]


def _moved_on(request: UserRequest, place: WorkspaceContext, memory: Memory) -> HttpResponse:
    memory.refresh_from_db()
    return _page(request, place, memory, _waiting(memory), moved_on=True)


def _page(
    request: UserRequest,
    place: WorkspaceContext,
    memory: Memory,
    proposal: Proposal | None,
    *,
    moved_on: bool = False,
) -> HttpResponse:
    rows = compare_lines(proposal.base.content, proposal.text) if proposal else []
    return render_page(
        request,
        "memory/memories/proposal.html",
        {
            "place": place,
            "memory": memory,
            "proposal": proposal,
            "old": show_one(proposal.base, place) if proposal else None,
            "rows": rows,
            "changes": changed_rows(rows),
            "drift": _drift(proposal),
            "moved_on": moved_on,
        },
        status=409 if moved_on else 200,
    )
