"""Fill the outbox of webhooks with new versions, and send what is due.

A request holds ids alone. The audience is checked when a version enters the outbox, and again when
it is sent. A delivery may arrive twice; its id stays the same.
"""

import http.client
import json
import logging
import socket
import ssl
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from memories.models import MemoryVersion
from memories.models.access.webhooks import Webhook, WebhookDelivery
from memories.rules.access.webhooks import host_of, is_public, next_try, sign

logger = logging.getLogger(__name__)

AT_ONCE = 100  # versions that a webhook looks at, and deliveries of one run
SETTLED_AFTER = timedelta(minutes=1)
"""A transaction that began earlier may commit a lower primary key later."""
TIMEOUT = 10  # seconds
MAX_REPLY_BYTES = 1_000


class NotPublic(Exception):
    """The address leads to a host that is not public and that no operator allowed."""


def fill_outbox(now: datetime) -> None:
    """Add deliveries for the new versions that each webhook's key may read."""
    for webhook in Webhook.objects.active(now):
        with transaction.atomic():
            row = Webhook.objects.select_for_update().get(pk=webhook.pk)
            new = MemoryVersion.objects.filter(
                pk__gt=row.cursor,
                memory__workspace=webhook.key.workspace,
                created_at__lte=now - SETTLED_AFTER,
            ).order_by("pk")
            keys = list(new.values_list("pk", flat=True)[:AT_ONCE])
            if keys:
                readable = MemoryVersion.objects.visible_to(webhook.key.reader(now)).with_text()
                WebhookDelivery.objects.enqueue(row, readable.filter(pk__in=keys), now)
                Webhook.objects.filter(pk=row.pk).update(cursor=keys[-1])


def send_due(now: datetime) -> int:
    """Send the deliveries that are due, and return how many were accepted."""
    due = WebhookDelivery.objects.due(now).select_related("webhook__key__user", "version__memory")
    return sum(_send(delivery, now) for delivery in due[:AT_ONCE])


def _send(delivery: WebhookDelivery, now: datetime) -> bool:
    webhook = delivery.webhook
    if not _may_still_read(delivery, now):
        delivery.delete()
        return False
    if not delivery.claim(now, next_try(delivery.tries + 1, now)):
        return False
    memory = delivery.version.memory
    body = json.dumps(
        {
            "type": "memory.version_added",
            "timestamp": delivery.version.created_at.isoformat(),
            "data": {
                "memory": memory.pk,
                "version": delivery.version.number,
                "version_id": delivery.version_id,
                "scope": memory.scope,
                "memory_type": memory.memory_type,
            },
        }
    )
    message_id, timestamp = f"msg_{delivery.pk}", int(now.timestamp())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Memory-Hub",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(webhook.signing_keys(), message_id, timestamp, body),
    }
    try:
        status = post(webhook.url, body.encode(), headers)
    except (OSError, ValueError, http.client.HTTPException, NotPublic) as error:
        logger.warning("%s was not reached: %s", webhook, type(error).__name__)
        return False
    if not 200 <= status < 300:
        WebhookDelivery.objects.filter(pk=delivery.pk).update(status=status)
        logger.warning("%s refused delivery %s: status %s", webhook, delivery.pk, status)
        return False
    delivery.finish(now, status)
    return True


def _may_still_read(delivery: WebhookDelivery, now: datetime) -> bool:
    """Whether the key is usable, and still reads the version."""
    if not Webhook.objects.active(now).filter(pk=delivery.webhook_id).exists():
        return False
    readable = MemoryVersion.objects.visible_to(delivery.webhook.key.reader(now)).with_text()
    return readable.filter(pk=delivery.version_id).exists()


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Send a request to a public host, and return the status of the response.

    The connection goes to the address that was checked, so that a second look-up of the name
    cannot lead elsewhere. Redirects are not followed. Raise NotPublic, OSError or HTTPException.
    """
    parts, host = urlsplit(url), host_of(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    connection.sock = _connect(host, port)
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        response.read(MAX_REPLY_BYTES)
        return response.status
    finally:
        connection.close()


def _connect(host: str, port: int) -> socket.socket:
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if host not in settings.MEMORYHUB_WEBHOOK_HOSTS and not all(
        is_public(str(address[4][0])) for address in addresses
    ):
        raise NotPublic(host)
    return socket.create_connection((str(addresses[0][4][0]), port), timeout=TIMEOUT)
