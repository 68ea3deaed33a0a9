"""The period of "new since": its parameters in a URL, and the choices of the form."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _

from memories.rules.backfill_input import InvalidInput
from memories.rules.memory.catch_up import PERIODS, SEEN, Since, parse_cursor, parse_since
from memories.views.access.access import WorkspaceAccess

DAY = "day"  # the value of the radio button beside the date field


@dataclass(frozen=True)
class Selection:
    """The parameters of a request. ``error`` is set if ``day`` is invalid."""

    since: Since
    day: str
    cursor: str
    error: str = ""

    @property
    def query(self) -> dict[str, str]:
        query = {} if self.since.is_seen else {"since": self.since.choice}
        return query | ({"cursor": self.cursor} if self.cursor else {})


def parse_selection(params: QueryDict, access: WorkspaceAccess, now: datetime) -> Selection:
    choice, day = params.get("since", ""), params.get("day", "").strip()
    cursor = params.get("cursor", "") if parse_cursor(params.get("cursor", "")) else ""
    try:
        since = parse_since(day or "-" if choice == DAY else choice, now, access.zone)
    except InvalidInput:
        return Selection(Since(), day or choice, "", _("Choose a date that is not in the future."))
    return Selection(since, since.choice if "-" in since.choice else "", cursor)


def requested_period(params: QueryDict, access: WorkspaceAccess) -> Since | None:
    """Return the period whose new lines a card has first, None without a valid one."""
    selection = parse_selection(params, access, timezone.now())
    return selection.since if "since" in params and not selection.error else None


def form_context(selection: Selection) -> dict[str, Any]:
    return {
        "selection": selection,
        "since": selection.since,
        "choice": DAY if selection.day else selection.since.choice,
        "choices": [
            (SEEN, _("my last visit")),
            *zip(PERIODS, (_("24 hours"), _("7 days")), strict=True),
        ],
    }
