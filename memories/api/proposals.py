"""The operations of `/api/v1/memories/{id}/proposals` and `/api/v1/proposals`."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Status

from memories.api import serialize
from memories.api.auth import needs, reader_of
from memories.api.idempotency import IDEMPOTENCY_PARAMETER, add_once
from memories.api.operations import READ_ERRORS, WRITE_ERRORS, Cursor, Limit, page_of, workspace_of
from memories.api.queries import get_or_404, propose
from memories.api.schemas import Id, ProposalIn, ProposalOut, ProposalsOut
from memories.models import ApiKey, Proposal

router = Router()


def _proposals(request: HttpRequest) -> Any:
    """Return the proposals of this key that it may still read."""
    rows = Proposal.objects.visible_to(reader_of(request)).filter(api_key=request.auth)  # type: ignore[attr-defined]
    return rows.filter(memory__workspace=workspace_of(request))


@router.post(
    "/memories/{pk}/proposals",
    response={202: ProposalOut} | WRITE_ERRORS,
    summary="Propose a correction of a line. A person decides.",
    openapi_extra={"parameters": [IDEMPOTENCY_PARAMETER]},
)
@needs(ApiKey.Scope.PROPOSE)
def add_proposal(request: HttpRequest, pk: Id, given: ProposalIn) -> Status[ProposalOut]:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    added = add_once(request, lambda: propose(key, pk, given, timezone.now()))
    return Status(202, serialize.proposal_out(get_or_404(_proposals(request), pk=added)))


@router.get(
    "/proposals", response={200: ProposalsOut} | READ_ERRORS, summary="The proposals of this key"
)
def proposals(request: HttpRequest, cursor: Cursor, limit: Limit) -> ProposalsOut:
    page, following = page_of(_proposals(request), cursor, limit)
    return ProposalsOut(items=[serialize.proposal_out(row) for row in page], next=following)


@router.get("/proposals/{pk}", response={200: ProposalOut} | READ_ERRORS, summary="A proposal")
def proposal(request: HttpRequest, pk: Id) -> ProposalOut:
    return serialize.proposal_out(get_or_404(_proposals(request), pk=pk))
