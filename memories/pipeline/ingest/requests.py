"""Requests of people in Slack: stored at once, answered by a task.

A request is a row of SlackEvent, so it survives a restart, and one that Slack sends twice is one row.
"""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext_lazy as _

from memories.models import SlackEvent, Workspace
from memories.rules.slack_app.blocks import Block, answer
from memories.rules.slack_app.payloads import BUTTON, SETTINGS, SHORTCUT, AppRequest

UNKNOWN_TEAM, SWITCHED_OFF, REPEATED = "unknown_team", "switched_off", "repeated"


REFUSALS = {
    UNKNOWN_TEAM: _("This Slack workspace is not connected to this hub."),
    SWITCHED_OFF: _(
        "This is switched off here. An admin can switch it on in the settings of the workspace."
    ),
    REPEATED: _("This request was received before. Its answer is on the way."),
}


@dataclass(frozen=True)
class StoredRequest:
    """``event_id`` is the row that needs a task. Without one, ``refusal`` is the reason."""

    event_id: int | None = None
    refusal: str = ""

    @property
    def answer(self) -> Block:
        """The answer to a request that was not stored."""
        return refuse(self.refusal)


def refuse(refusal: str) -> Block:
    """Return the answer for a key of `REFUSALS`."""
    return answer(str(REFUSALS[refusal]))


def workspace_of(request: AppRequest) -> Workspace | None:
    """Return the team's workspace in which the request's feature is on, None without one."""
    if request.setting not in SETTINGS.values():
        return None
    for workspace in Workspace.objects.filter(team_id=request.team).order_by("pk"):
        if getattr(workspace.memory_settings, request.setting):
            return workspace
    return None


def find_refusal(request: AppRequest) -> str:
    """Return why no workspace answers the request (a key of `REFUSALS`), "" if there is one."""
    if workspace_of(request) is not None:
        return ""
    is_known = Workspace.objects.filter(team_id=request.team).exists()
    return SWITCHED_OFF if is_known else UNKNOWN_TEAM


def store_request(request: AppRequest) -> StoredRequest:
    """Store a request once. If its feature is off, it is refused instead.

    Slack shows the response to a command only. So a task refuses a shortcut or a button.
    """
    refusal = find_refusal(request)
    if refusal and not (refusal == SWITCHED_OFF and request.kind in (SHORTCUT, BUTTON)):
        return StoredRequest(refusal=refusal)
    values = {"team_id": request.team, "kind": request.kind, "body": request.body}
    event, is_new = SlackEvent.objects.get_or_create(event_id=request.key, defaults=values)
    return StoredRequest(event.pk) if is_new else StoredRequest(refusal=REPEATED)


def due_requests(now: datetime) -> list[int]:
    """Return the row ids of the requests that wait for a worker."""
    return list(SlackEvent.objects.due(now).app_requests().values_list("pk", flat=True))
