"""Review: all open proposals of a workspace, and the decision about one of them."""

from django.db.models import F, Q

from memories.models import (
    ChangedSince,
    Job,
    NotesDisabled,
    Proposal,
    Reader,
    StaleBase,
    Unchanged,
    User,
    Workspace,
)
from memories.models.generate.jobs import REBUILD
from memories.models.memory.new_version import number_and_revision
from memories.models.memory.proposals import ProposalQuerySet
from memories.pipeline.memory import proposals


def find_proposed_jobs(workspace: Workspace, reader: Reader) -> list[Job]:
    """Return the newest readable proposal of a whole text for each memory."""
    proposed = Job.objects.of_workspace(workspace).proposed()
    if not proposed.exists():  # the usual case, and `visible_to` is a slow query
        return []
    for_current_text = Q(base=F("memory__current")) | Q(base=None, memory__current=None)
    waiting = (
        proposed.visible_to(reader)
        .filter(for_current_text | Q(trigger__reason=REBUILD))
        .exclude(input_rows__version__audience__in=("members", "nobody"))
        .with_memory()
        .order_by("memory", "pk")
    )
    return list({job.memory_id: job for job in waiting}.values())


def open_proposals(workspace: Workspace, reader: Reader) -> ProposalQuerySet:
    """Return the readable proposals of lines and notes, oldest first."""
    rows = Proposal.objects.open().visible_to(reader).filter(memory__workspace=workspace)
    return rows.with_memory().order_by("pk")


def approve(
    proposal: Proposal | Job,
    *,
    by: User,
    text: str = "",
    shown: str = "",
    seen: tuple[int, int] | None = None,
) -> bool:
    """Approve a proposal, with ``text`` in place of the proposed one if it is not empty.

    ``shown`` is the hash of the whole text that the person saw. ``seen`` are the number and the
    revision of the version that the person saw. Notes do not depend on it.

    Return False, and change nothing, if the proposal was decided already, if the memory or the
    proposed text has changed, or if the memory cannot have the text.
    """
    try:
        if isinstance(proposal, Proposal) and proposal.note_type:
            return proposal.approve_as_note(by=by, text=text) is not None
        proposal.memory.refresh_from_db()
        number, revision = seen or number_and_revision(proposal.memory.current)
        if isinstance(proposal, Job):
            if (number, revision) != number_and_revision(proposal.memory.current):
                return False
            return proposals.approve(proposal, by=by, text=text, shown=shown) is not None
        version = proposal.approve(by=by, based_on=number, revision=revision, text=text)
        return version is not None
    except (StaleBase, ChangedSince, Unchanged, NotesDisabled, ValueError, LookupError):
        return False


def reject(proposal: Proposal | Job, *, by: User) -> bool:
    """Reject a proposal. Return False if it was decided already."""
    return (
        proposals.reject(proposal, by=by) if isinstance(proposal, Job) else proposal.reject(by=by)
    )
