"""Slackbot as a client of MCP. Slack signs its requests, and names the person who asks in them."""

import logging
from dataclasses import replace
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone

from memories.api.auth import check_rate
from memories.api.problems import Problem
from memories.models import ApiKey, Reader, Workspace
from memories.pipeline.ingest.events import is_signed_by_slack
from memories.pipeline.ingest.requests import find_workspace, why_no_workspace
from memories.rules.ingest.references import load_object
from memories.rules.ingest.slack_objects import parse_slack_id
from memories.rules.json_values import as_dict
from memories.rules.slack_app.payloads import MCP, AppRequest
from memories.slack_app.callers import Caller, find_caller

logger = logging.getLogger(__name__)

REQUESTS_PER_MINUTE = 120


class SlackbotCaller:
    """The person for whom Slackbot asks. It reads what they read, and writes nothing."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def __str__(self) -> str:
        return f"Slackbot for {self.caller.person.slack_id}"

    @property
    def workspace(self) -> Workspace:
        return self.caller.workspace

    def reader(self, now: datetime) -> Reader:
        """Return the reader of the person. An operator's access grants do not extend to Slackbot."""
        return replace(Reader.of_person(self.caller.person, now), is_operator=False)


ReadsAs = ApiKey | SlackbotCaller


def signed_request(request: HttpRequest) -> AppRequest:
    """Return who asks, by a request with Slack's signature. Raises Problem 401 or 429."""
    now = timezone.now()
    if not is_signed_by_slack(request.body, request.headers, now):
        raise Problem(
            401, "This request has no signature of Slack, or it is older than five minutes."
        )
    params = as_dict(load_object(request.body.decode()).get("params"))
    slack = as_dict(as_dict(params.get("_meta")).get("slack"))
    team, user = parse_slack_id(slack.get("team_id")), parse_slack_id(slack.get("user_id"))
    app_request = AppRequest(key="", kind=MCP, team=team or "", user=user or "")
    check_rate(request, (app_request.team, app_request.user), REQUESTS_PER_MINUTE, now)
    logger.info("Slackbot for %s in %s: %s", app_request.user, app_request.team, request.path)
    return app_request


def caller_of(request: AppRequest) -> SlackbotCaller:
    """Return the person in the workspace. Raises Problem 403 with the reason."""
    workspace = find_workspace(request)
    if workspace is None:
        raise Problem(403, str(why_no_workspace(request)))
    caller = find_caller(request, workspace, timezone.now())
    if isinstance(caller, str):
        raise Problem(403, caller)
    return SlackbotCaller(caller)
