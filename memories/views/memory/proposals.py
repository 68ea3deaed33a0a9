"""The proposals for a memory: a new text, and corrections of lines. Editors decide them."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.db.models import Prefetch
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from memories.models import ChangedSince, Job, Memory, Message, Proposal, StaleBase, Unchanged
from memories.models.memory.proposals import MAX_LENGTH
from memories.pipeline.memory import proposals
from memories.rules.memory.compare import DiffRow, changed_rows, compare_lines
from memories.rules.memory.drift import DriftKind
from memories.rules.memory.lines import MAX_TEXT_LENGTH, hash_text
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_edit,
    number_in,
    numbers_in,
    open_memory,
)
from memories.views.memory.display import display_proposal, display_version
from memories.views.memory.memories import clean_text, empty_error, text_error
from memories.views.pages import render_page
from memories.views.paths import card_path, message_path

DRIFT_NAMES: dict[DriftKind, str | Promise] = {
    DriftKind.PINNED: gettext_lazy("Pinned lines"),
    DriftKind.DATE: gettext_lazy("Dates"),
    DriftKind.NUMBER: gettext_lazy("Numbers"),
    DriftKind.NAME: gettext_lazy("Names"),
    DriftKind.LINK: gettext_lazy("Links"),
}


@login_required
@require_safe
def detail(request: UserRequest, pk: int) -> HttpResponse:
    """Compare the current text with its proposals. 404 if there are none."""
    access, memory = open_memory(request, pk)
    return _render(request, access, memory)


@login_required
@require_POST
def accept(request: UserRequest, pk: int) -> HttpResponse:
    """Make the proposal (``job``) the current text, or ``text`` in its place.

    ``shown`` is the digest of the text that the form showed. The status is 422 for an invalid text.
    It is 409 if the memory or the proposed text has changed. The page then has the typed text.
    """
    access, memory = open_memory(request, pk)
    must_edit(access)
    job, typed = _find_seen_job(request, memory), read_typed_text(request)
    error = text_error(typed, empty=_("The text is empty.")) if typed is not None else ""
    if error and job and proposals.get_base(job) == memory.current:
        return _render(request, access, memory, text=typed, error=error)
    version, shown = None, request.POST.get("shown", "")
    try:
        if job:
            version = proposals.approve(job, by=request.user, text=typed or "", shown=shown)
    except ValueError:
        return _render(request, access, memory, text=typed, error=empty_error())
    except (StaleBase, ChangedSince):
        pass
    if version is None:
        return _answer_conflict(request, access, memory, typed)
    toasts.success(request, _("Approved. It is version %(number)s.") % {"number": version.number})
    return redirect(card_path(memory))


@login_required
@require_POST
def reject(request: UserRequest, pk: int) -> HttpResponse:
    """Keep the current text. The status is 409 as in `accept`."""
    access, memory = open_memory(request, pk)
    must_edit(access)
    job = _find_seen_job(request, memory)
    if job is None or not proposals.reject(job, by=request.user):
        return _answer_conflict(request, access, memory)
    toasts.success(request, _("Rejected. The text is unchanged."))
    return redirect(card_path(memory))


@login_required
@require_POST
def decide(request: UserRequest, pk: int, proposal: int) -> HttpResponse:
    """Approve the correction of a line (``do=approve``, with ``text`` as the line), or reject it.

    The status is 422 for an invalid text. It is 409 if the correction was decided already, or if
    there is another text than ``based_on``, ``revision``. The page then has the typed text.
    """
    access, memory = open_memory(request, pk)
    must_edit(access)
    corrections = Proposal.objects.corrections().visible_to(access.reader).filter(memory=memory)
    correction = get_object_or_404(corrections.with_memory(), pk=proposal)
    news, is_decided = _("Rejected. The text is unchanged."), False
    typed = read_typed_text(request)
    if request.POST.get("do") == "approve":
        empty = _("The text is empty.")
        if typed is not None and (error := text_error(typed, MAX_LENGTH, empty)):
            return _render(request, access, memory, unsaved=typed, problem=error)
        try:
            version = correction.approve(
                by=request.user,
                based_on=number_in(request, "based_on"),
                revision=number_in(request, "revision"),
                text=typed or "",
            )
            if version is not None:
                news = _("Approved. It is version %(number)s.") % {"number": version.number}
                is_decided = True
        except (StaleBase, Unchanged):
            pass
        except (ValueError, LookupError):
            problem = _("The memory cannot have this text.")
            return _render(request, access, memory, unsaved=typed or "", problem=problem)
    else:
        is_decided = correction.reject(by=request.user)
    if not is_decided:
        return _answer_conflict(request, access, memory, typed)
    toasts.success(request, news)
    if corrections.open().exists():
        return redirect("proposals-detail", pk)
    return redirect(card_path(memory))


def _load_corrections(
    access: WorkspaceAccess, memory: Memory
) -> list[tuple[Proposal, list[DiffRow], list[tuple[Message, str]]]]:
    """Return the open corrections, oldest first, with their change and their source messages."""
    readable = Message.objects.visible_to(access.reader).select_related("channel", "author")
    proposals = Proposal.objects.open().corrections().visible_to(access.reader)
    proposals = proposals.filter(memory=memory)
    rows = proposals.with_memory().prefetch_related(Prefetch("sources", readable)).order_by("pk")
    return [
        (
            proposal,
            compare_lines(proposal.line_text, proposal.text),
            [
                (message, message_path(access.workspace.slug, message))
                for message in proposal.sources.all()
            ],
        )
        for proposal in rows
    ]


def _find_seen_job(request: UserRequest, memory: Memory) -> Job | None:
    """Return the proposal if it is that on screen: ``job``, for the text ``based_on``."""
    job = proposals.find_proposal(memory)
    base = proposals.get_base(job) if job else None
    if job is None or base is None:
        return None
    seen = numbers_in(request, "job", "based_on")
    return job if seen == [job.pk, base.number] else None


def read_typed_text(request: UserRequest, suffix: str = "") -> str | None:
    """Return the ``text`` of a form, None if it is the one that the form showed."""
    text = clean_text(request.POST.get(f"text{suffix}", ""))
    is_shown = hash_text(text) == request.POST.get(f"shown{suffix}")
    return None if is_shown or f"text{suffix}" not in request.POST else text


def _answer_conflict(
    request: UserRequest, access: WorkspaceAccess, memory: Memory, typed: str | None = None
) -> HttpResponse:
    memory.refresh_from_db()
    return _render(request, access, memory, unsaved=typed or "", status=409)


def _render(
    request: UserRequest,
    access: WorkspaceAccess,
    memory: Memory,
    *,
    text: str | None = None,
    error: str = "",
    unsaved: str = "",
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render all open proposals.

    ``text`` is the typed text of the proposal, by default the proposed one, with its ``error``.
    ``unsaved`` is a typed text without a form, with its ``problem``.
    """
    proposal = display_proposal(memory.current) if memory.current else None
    corrections = _load_corrections(access, memory)
    if proposal is None and not corrections and request.method != "POST":
        raise Http404
    proposal_text = proposal.text if proposal else ""
    rows = compare_lines(proposal.base.content, proposal_text) if proposal else []
    drifts = proposals.proposal_drift(proposal.job) if proposal and proposal.job.is_rebuild else []
    return render_page(
        request,
        "memory/memories/proposal.html",
        {
            "access": access,
            "memory": memory,
            "proposal": proposal,
            "old": display_version(proposal.base, access) if proposal else None,
            "rows": rows,
            "corrections": corrections,
            "max_length": MAX_LENGTH,
            "changes": changed_rows(rows),
            "drift": [(DRIFT_NAMES[drift.kind], drift) for drift in drifts],
            "has_conflict": status == 409,
            "unsaved": unsaved,
            "problem": problem,
            "text": proposal_text if text is None else text,
            "max_text_length": MAX_TEXT_LENGTH,
            "shown": request.POST.get("shown", "") if error else hash_text(proposal_text),
            "error": error,
        },
        status=422 if error or problem else status,
    )
