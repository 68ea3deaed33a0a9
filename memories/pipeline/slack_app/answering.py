"""Answer stored requests of people in Slack, by a task."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings

from memories.models import SlackEvent, Workspace
from memories.pipeline.ingest.requests import SWITCHED_OFF, find_workspace, refuse
from memories.pipeline.sync.connecting import client_for
from memories.rules.slack_app import payloads
from memories.rules.slack_app.blocks import Block
from memories.rules.slack_app.payloads import RESPONDED, RESPONSE_LASTS, AppRequest, load_request
from memories.slack.responses import respond
from memories.slack.web import SlackError

logger = logging.getLogger(__name__)

Answerer = Callable[[AppRequest, Workspace, datetime], Block]


def process_request(pk: int, answer: Answerer, now: datetime) -> bool:
    """Answer the stored request with this row id. Return False without the claim.

    An error schedules a retry. No transaction is open while ``answer`` runs.
    """
    event = SlackEvent.objects.due(now).app_requests().filter(pk=pk).first()
    lease = timedelta(seconds=settings.MEMORYHUB_LEASE)
    if event is None or not event.claim(now, now + lease):
        return False
    request = replace(load_request(event.body), attempt=event.attempts)
    try:
        skipped = _answer(request, answer, now, is_late=now - event.received_at > RESPONSE_LASTS)
    except SlackError as error:
        logger.warning("request %s was not answered: %s", event.pk, error.code)
        if error.permanent:
            event.finish(skipped=f"Slack refuses the answer: {error.code}")
        else:
            event.fail(error.code, now)
    except Exception as error:
        logger.exception("request %s failed, attempt %d", event.pk, event.attempts)
        event.fail(type(error).__name__, now)
    else:
        event.finish(skipped)
    return True


def _answer(request: AppRequest, answer: Answerer, now: datetime, *, is_late: bool) -> str:
    """Do what a request asks for, and send the answer. Return why it was skipped, "" if it was not.

    Slack accepts no late answer at a response URL. What the request saves is saved all the same.
    """
    is_silent = is_late and request.kind in RESPONDED
    workspace = find_workspace(request)
    if workspace is None:
        if request.kind in RESPONDED and not is_silent:
            respond(request.response_url, refuse(SWITCHED_OFF), settings.SLACK_BASE_URL)
        return "switched off"
    if is_silent and request.only_reads:
        return "too late to answer"
    reply = answer(request, workspace, now)
    if not is_silent:
        _send(reply, request, workspace)
    return ""


def _send(reply: Block, request: AppRequest, workspace: Workspace) -> None:
    """Send an answer to where its request came from."""
    target = {"channel": request.channel}
    match request.kind:
        case payloads.HOME:
            view = {"type": "home", "blocks": reply["blocks"]}
            client_for(workspace).send("views.publish", user_id=request.user, view=view)
        case payloads.REACTION:
            fields = {**target, "user": request.user, "text": reply["text"]}
            client_for(workspace).send("chat.postEphemeral", **fields, blocks=reply["blocks"])
        case payloads.LINKS:
            if reply["unfurls"]:
                fields = {**target, "ts": request.ts}
                client_for(workspace).send("chat.unfurl", **fields, unfurls=reply["unfurls"])
        case _:
            respond(request.response_url, reply, settings.SLACK_BASE_URL)
