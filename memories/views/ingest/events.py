"""The request URL for Slack's events. It stores them at once; a task processes them later."""

import logging

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from memories.pipeline.ingest.events import is_signed_by_slack, receive_event
from memories.rules.ingest.events import MAX_BODY_BYTES
from memories.tasks import schedule_received

logger = logging.getLogger(__name__)


@csrf_exempt
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    """Store an event. The status is 200 for stored and skipped events.

    It is 401 without Slack's signature, 413 above 1 MB, and 503 when the database fails, so that
    Slack sends the event again.
    """
    body = read_signed_body(request)
    if isinstance(body, HttpResponse):
        return body
    try:
        received = receive_event(body)
    except DatabaseError:
        logger.exception("cannot store an event")
        return HttpResponse(status=503)
    if received is None:
        return HttpResponse(status=401)
    schedule_received(received)
    return HttpResponse(received.challenge, content_type="text/plain; charset=utf-8")


def read_signed_body(request: HttpRequest) -> bytes | HttpResponse:
    """Return the raw body, or a refusal: 413 above 1 MB, 401 without Slack's signature of it.

    A signature is valid for five minutes.
    """
    try:
        body = _read_body(request)
    except UnreadablePostError:  # the client has disconnected
        return HttpResponse(status=401)
    if len(body) > MAX_BODY_BYTES:
        return HttpResponse(status=413)
    if not is_signed_by_slack(body, request.headers, timezone.now()):
        return HttpResponse(
            "This request has no signature of Slack, or it is older than five minutes.",
            status=401,
            content_type="text/plain",
        )
    return body


def _read_body(request: HttpRequest) -> bytes:
    """Return the raw body, cut one byte above the limit. Content-Length is not trusted."""
    parts = []
    remaining = MAX_BODY_BYTES + 1
    while remaining and (part := request.read(remaining)):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)
