"""The request URLs of the command, the shortcuts and the buttons in Slack.

A request is stored and acknowledged at once. A task answers it at its response URL.
"""

import json
import logging
from collections.abc import Callable
from urllib.parse import parse_qsl

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from memories.pipeline.ingest.requests import store_request
from memories.rules.slack_app.payloads import parse_request
from memories.tasks import schedule_request
from memories.views.ingest.events import read_signed_body

logger = logging.getLogger(__name__)


@csrf_exempt
@require_POST
def commands(request: HttpRequest) -> HttpResponse:
    """Store a command. A refusal is an answer that only the person sees."""
    return _receive(request, lambda body: dict(parse_qsl(body)))


@csrf_exempt
@require_POST
def interactivity(request: HttpRequest) -> HttpResponse:
    """Store a shortcut or the press of a button."""
    return _receive(request, lambda body: json.loads(dict(parse_qsl(body)).get("payload", "")))


def _receive(request: HttpRequest, parse: Callable[[str], object]) -> HttpResponse:
    body = read_signed_body(request)
    if isinstance(body, HttpResponse):
        return body
    try:
        parsed = parse_request(parse(body.decode()))
    except (ValueError, RecursionError):
        parsed = None
    if parsed is None:
        return HttpResponse("This is no request of Slack.", status=400, content_type="text/plain")
    try:
        stored = store_request(parsed)
    except DatabaseError:
        logger.exception("cannot store a request")
        return HttpResponse(status=503)
    if not isinstance(stored, int):
        return JsonResponse(stored)
    schedule_request(stored)
    return HttpResponse()
