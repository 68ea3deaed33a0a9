"""Parameters, error responses and paging that several routes of the API share."""

from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import BeforeValidator

from memories.api.problems import ProblemOut
from memories.api.schemas import refuse_numbers
from memories.models import ApiKey, Workspace

MAX_PAGE_SIZE = 100

Cursor = Annotated[int | None, Query(None, ge=0, le=2**63 - 1)]
Limit = Annotated[int, Query(MAX_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE)]
AsOf = Annotated[
    datetime | None,
    BeforeValidator(refuse_numbers),
    Query(None, description="the data as of this time; default: now"),
]

READ_ERRORS = {400: ProblemOut, 401: ProblemOut, 404: ProblemOut, 422: ProblemOut, 429: ProblemOut}
WRITE_ERRORS = READ_ERRORS | {403: ProblemOut, 409: ProblemOut, 412: ProblemOut, 428: ProblemOut}


def workspace_of(request: HttpRequest) -> Workspace:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    return key.workspace


def page_of(rows: QuerySet[Any], cursor: int | None, limit: int) -> tuple[list[Any], str | None]:
    """Return a page, ordered by primary key, and the cursor of the next page."""
    if cursor is not None:
        rows = rows.filter(pk__gt=cursor)
    page = list(rows.order_by("pk")[: limit + 1])
    return page[:limit], str(page[limit - 1].pk) if len(page) > limit else None
