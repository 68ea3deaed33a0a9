"""Where Slack tells what happens: signed, stored and acknowledged at once, worked on later."""

import logging

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from memories.pipeline.ingest.events import is_signed_by_slack, receive_event
from memories.rules.ingest.events import MAX_BODY_BYTES
from memories.tasks import events_later

logger = logging.getLogger(__name__)


@csrf_exempt
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    """200 when it is stored, or not ours to store; 401 to whatever is not Slack's own; 413 to more
    than 1 MB; 503 when nothing can be stored, so that Slack sends it again."""
    try:
        body = _read(request)
    except UnreadablePostError:  # nobody is there any more
        return HttpResponse(status=401)
    if len(body) > MAX_BODY_BYTES:
        return HttpResponse(status=413)
    if not is_signed_by_slack(body, request.headers, timezone.now()):
        return HttpResponse(status=401)
    try:
        received = receive_event(body)
    except DatabaseError:
        logger.exception("an event could not be stored")
        return HttpResponse(status=503)
    if received is None:
        return HttpResponse(status=401)
    if received.workspace_id is not None:
        events_later(received.workspace_id)
    return HttpResponse(received.challenge, content_type="text/plain; charset=utf-8")


def _read(request: HttpRequest) -> bytes:
    """The raw body: one byte more than is allowed when there is more, whatever its length says."""
    parts = []
    left = MAX_BODY_BYTES + 1
    while left and (part := request.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
