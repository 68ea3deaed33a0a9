"""What clients with an API key receive and write: webhooks, memoryhub-agent and the tools of MCP.

Each reader of the matrix has a key of the same workspace. "public" has one without an account.
"""

import json
from datetime import datetime

from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.models import ApiKey, MemoryVersion, Webhook, WebhookDelivery
from memories.pipeline.access import webhooks
from memories.rules.memory.identity import MemoryType
from tests.leaks.world import ELSEWHERE, ROLES, World

READERS = (*ROLES, "public")
Rows = set[tuple[str, int]]  # a reader, and the primary key of a version


def issue_keys(world: World) -> dict[str, tuple[ApiKey, str]]:
    """Return a key and its token for each reader. None of them reads another workspace."""
    world.audiences[ELSEWHERE] = set()
    return {
        role: ApiKey.objects.issue(
            world.team,
            name=role,
            by=None,
            user=world.users.get(role),
            scopes=list(ApiKey.Scope),
            requests_per_minute=10**6,
        )
        for role in READERS
    }


class WebhookReceiver:
    """A local server, and a webhook of each reader that calls it. ``is_full``: all versions are
    sent, else one of each place."""

    def __init__(self, server: HTTPServer, world: World, *, is_full: bool) -> None:
        self.world, self.is_full = world, is_full
        self.requests: list[tuple[str, str, str]] = []  # reader, headers, body
        server.expect_request("/", method="POST").respond_with_handler(self._answer)
        for role, (key, _) in issue_keys(world).items():
            Webhook.objects.register(key, server.url_for(f"/?{role}"))

    def _answer(self, request: Request) -> Response:
        role, body = request.query_string.decode(), request.get_data(as_text=True)
        self.requests.append((role, str(request.headers), body))
        return Response(status=204)

    def readable_rows(self) -> Rows:
        """Return the versions of each reader, by the words in their texts."""
        versions = MemoryVersion.objects.with_text()
        if not self.is_full:
            versions = versions.filter(
                memory__memory_type=MemoryType.LONG_TERM, content__contains="kqwvnew"
            )
        self.chosen = dict(versions.values_list("pk", "content"))
        return {
            (role, pk)
            for pk, text in self.chosen.items()
            for role in READERS
            if not self.world.leaks(text, role)
        }

    def enqueue(self) -> Rows:
        """Fill the outbox from the first version on, and return its rows."""
        WebhookDelivery.objects.all().delete()
        Webhook.objects.update(cursor=0)
        before: list[int] = []
        while before != (cursors := list(Webhook.objects.values_list("cursor", flat=True))):
            before = cursors
            webhooks.fill_outbox(_soon())
        WebhookDelivery.objects.exclude(version__in=self.chosen).delete()
        return set(WebhookDelivery.objects.values_list("webhook__key__name", "version"))

    def send(self) -> Rows:
        """Send what is in the outbox, and return what arrived."""
        self.requests.clear()
        while WebhookDelivery.objects.due(_soon()).exists():
            webhooks.send_due(_soon())
        return {(role, json.loads(body)["data"]["version_id"]) for role, _, body in self.requests}


def _soon() -> datetime:
    return timezone.now() + 2 * webhooks.SETTLED_AFTER
