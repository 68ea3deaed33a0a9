"""The operations of `/api/v1/webhooks`."""

import base64
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated

from django.conf import settings
from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import Field

from memories.api.idempotency import IDEMPOTENCY_PARAMETER, add_once
from memories.api.problems import Problem, ProblemOut
from memories.api.queries import get_or_404
from memories.api.schemas import Id
from memories.models import ApiKey
from memories.models.access.webhooks import Webhook
from memories.rules.access.webhooks import host_of, is_public

MAX_WEBHOOKS = 10  # of a key

ERRORS = {400: ProblemOut, 401: ProblemOut, 422: ProblemOut, 429: ProblemOut}
router = Router()


class WebhookIn(Schema):
    """``url`` is an http or https address. Its host is public or in MEMORYHUB_WEBHOOK_HOSTS."""

    url: Annotated[
        str, Field(pattern=r"^https?://[a-zA-Z0-9.-]+(:[0-9]{1,5})?(/[!-~]*)?$", max_length=500)
    ]


class WebhookOut(Schema):
    id: int
    url: str
    created_at: datetime


class NewWebhookOut(WebhookOut):
    """``secret`` verifies the signatures. Only this response and its repetitions contain it."""

    secret: str


class WebhooksOut(Schema):
    items: list[WebhookOut]


@router.get("", response={200: WebhooksOut} | ERRORS, summary="The webhooks of this key")
def webhooks(request: HttpRequest) -> WebhooksOut:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    return WebhooksOut(items=[WebhookOut.from_orm(row) for row in key.webhooks.all()])


@router.post(
    "",
    response={201: NewWebhookOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut} | ERRORS,
    summary="Add a webhook, which receives the ids of new versions",
    openapi_extra={"parameters": [IDEMPOTENCY_PARAMETER]},
)
def add_webhook(request: HttpRequest, given: WebhookIn) -> Status[NewWebhookOut]:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    pk = add_once(request, lambda: _register(key, given.url))
    row: Webhook = get_or_404(key.webhooks.all(), pk=pk)
    secret = f"whsec_{base64.b64encode(row.signing_keys()[0]).decode()}"
    return Status(201, NewWebhookOut(secret=secret, **WebhookOut.from_orm(row).dict()))


@router.delete("/{pk}", response={204: None, 404: ProblemOut} | ERRORS, summary="Remove a webhook")
def remove_webhook(request: HttpRequest, pk: Id) -> Status[None]:
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    get_or_404(key.webhooks.all(), pk=pk).delete()
    return Status(204, None)


def _register(key: ApiKey, url: str) -> Webhook:
    """Add a webhook. Raises Problem 403 for a host that is not public, and 409 if the key has MAX_WEBHOOKS."""
    if not _may_call(url):
        raise Problem(403, "This host is not public. An operator can allow it in the settings.")
    if key.webhooks.count() >= MAX_WEBHOOKS:
        raise Problem(409, f"A key has at most {MAX_WEBHOOKS} webhooks.")
    return Webhook.objects.register(key, url)


def _may_call(url: str) -> bool:
    """Return whether the host is allowed or may be public. Its IP address is checked at each send."""
    try:
        host = host_of(url)
    except ValueError:
        return False
    if host in settings.MEMORYHUB_WEBHOOK_HOSTS:
        return True
    try:
        ip_address(host)
    except ValueError:
        return host != "localhost" and not host.endswith((".localhost", ".local", ".internal"))
    return is_public(host)
