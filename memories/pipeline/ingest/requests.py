"""Requests of people in Slack: stored at once, answered by a task.

A request is a row of SlackEvent, so it survives a restart, and one that Slack sends twice is one row.
"""

from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memories.models import SlackEvent, Workspace
from memories.rules.slack_app.blocks import Block, answer
from memories.rules.slack_app.payloads import BUTTON, SETTINGS, SHORTCUT, AppRequest

UNKNOWN_TEAM = _("This Slack workspace is not connected to this hub.")
SWITCHED_OFF = _(
    "This is switched off here. An admin can switch it on in the settings of the workspace."
)
REPEATED = _("This request was received before. Its answer is on the way.")


def refuse(reason: Promise) -> Block:
    """Return the answer that gives a reason."""
    return answer(str(reason))


def find_workspace(request: AppRequest) -> Workspace | None:
    """Return the team's workspace in which the request's feature is on, None without one."""
    if request.setting not in SETTINGS.values():
        return None
    for workspace in Workspace.objects.filter(team_id=request.team).order_by("pk"):
        if getattr(workspace.memory_settings, request.setting):
            return workspace
    return None


def why_no_workspace(request: AppRequest) -> Promise:
    """Return why no workspace answers the request."""
    is_connected = Workspace.objects.filter(team_id=request.team).exists()
    return SWITCHED_OFF if is_connected else UNKNOWN_TEAM


def store_request(request: AppRequest) -> int | Block:
    """Store a request once. Return the key of its row, or the answer if it is refused.

    Slack shows the response to a command only. So a task refuses a shortcut or a button.
    """
    if find_workspace(request) is None:
        reason = why_no_workspace(request)
        if not (reason is SWITCHED_OFF and request.kind in (SHORTCUT, BUTTON)):
            return refuse(reason)
    values = {"team_id": request.team, "kind": request.kind, "body": request.body}
    event, is_new = SlackEvent.objects.get_or_create(event_id=request.key, defaults=values)
    return event.pk if is_new else refuse(REPEATED)


def due_requests(now: datetime) -> list[int]:
    """Return the row ids of the requests that wait for a worker."""
    return list(SlackEvent.objects.due(now).app_requests().values_list("pk", flat=True))
