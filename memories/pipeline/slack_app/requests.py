"""Requests of people in Slack: stored at once, answered by a task.

A request is a row of SlackEvent, so it survives a restart, and one that Slack sends twice is one row.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from memories.models import SlackEvent, Workspace
from memories.rules.slack_app.payloads import (
    RESPONSE_LASTS,
    SETTINGS,
    AppRequest,
    load_request,
)
from memories.slack.web import SlackError

logger = logging.getLogger(__name__)

UNKNOWN_TEAM, SWITCHED_OFF, REPEATED = "unknown_team", "switched_off", "repeated"
Answerer = Callable[[AppRequest, Workspace, datetime], None]


@dataclass(frozen=True)
class StoredRequest:
    """``event_id`` is the row that needs a task. Without one, ``refusal`` is the reason."""

    event_id: int | None = None
    refusal: str = ""


def workspace_of(request: AppRequest) -> Workspace | None:
    """Return the team's workspace in which the request's feature is on, None without one."""
    if request.setting not in SETTINGS.values():
        return None
    for workspace in Workspace.objects.filter(team_id=request.team).order_by("pk"):
        if getattr(workspace.memory_settings, request.setting):
            return workspace
    return None


def store_request(request: AppRequest) -> StoredRequest:
    """Store a request, unless its feature is off or the same request was stored before."""
    if not Workspace.objects.filter(team_id=request.team).exists():
        return StoredRequest(refusal=UNKNOWN_TEAM)
    if workspace_of(request) is None:
        return StoredRequest(refusal=SWITCHED_OFF)
    values = {"team_id": request.team, "kind": request.kind, "body": request.body}
    event, is_new = SlackEvent.objects.get_or_create(event_id=request.key, defaults=values)
    return StoredRequest(event.pk) if is_new else StoredRequest(refusal=REPEATED)


def due_requests(now: datetime) -> list[int]:
    """Return the row ids of the requests that wait for a worker."""
    return list(SlackEvent.objects.due(now).app_requests().values_list("pk", flat=True))


def process_request(event_id: int, answer: Answerer, now: datetime) -> bool:
    """Answer a stored request; return False without the claim. An error schedules a retry.

    Slack accepts no answer that comes too late. No transaction is open while ``answer`` runs.
    """
    event = SlackEvent.objects.due(now).app_requests().filter(pk=event_id).first()
    lease = timedelta(seconds=settings.MEMORYHUB_LEASE)
    if event is None or not event.claim(now, now + lease):
        return False
    request = load_request(event.body)
    workspace = workspace_of(request)
    if workspace is None or now - event.received_at > RESPONSE_LASTS:
        event.finish(skipped="switched off" if workspace is None else "too late to answer")
        return True
    try:
        answer(request, workspace, now)
    except SlackError as error:
        logger.warning("request %s was not answered: %s", event.pk, error.code)
        if error.permanent:
            event.finish(skipped=f"Slack refuses the answer: {error.code}")
        else:
            event.fail(error.code, now + timedelta(seconds=settings.MEMORYHUB_BACK_OFF))
    except Exception as error:
        logger.exception("request %s failed, attempt %d", event.pk, event.attempts)
        event.fail(type(error).__name__, now + timedelta(seconds=settings.MEMORYHUB_BACK_OFF))
    else:
        event.finish()
    return True
