"""Webhooks against a local receiver: content, recipients and retries."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.models import ApiKey, MemoryVersion, Webhook, WebhookDelivery
from memories.pipeline.access import webhooks
from memories.rules.access.webhooks import sign
from tests.factories import ChannelFactory, MemberFactory, PersonFactory, make_channel_memory

pytestmark = pytest.mark.django_db
LATER = timedelta(minutes=2)


class Receiver:
    """A local server that records requests and answers with ``status``."""

    def __init__(self, server: HTTPServer) -> None:
        self.requests: list[Request] = []
        self.status = 204
        self.url = server.url_for("/hook")
        server.expect_request("/hook", method="POST").respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        self.requests.append(request)
        request.get_data()
        return Response(status=self.status, headers={"Location": self.url})

    @property
    def versions(self) -> list[int]:
        return [json.loads(request.get_data())["data"]["version_id"] for request in self.requests]


@pytest.fixture
def receiver(httpserver: HTTPServer, settings: Any) -> Receiver:
    settings.MEMORYHUB_WEBHOOK_HOSTS = ["localhost", "127.0.0.1"]
    return Receiver(httpserver)


@pytest.fixture
def member() -> Any:
    return MemberFactory()


def make_key(member: Any, **options: Any) -> ApiKey:
    return ApiKey.objects.issue(member.workspace, name="bot", by=None, user=member.user, **options)[
        0
    ]


def add_version(member: Any, **channel: Any) -> MemoryVersion:
    row = ChannelFactory(workspace=member.workspace, **channel)
    return make_channel_memory(channel=row, texts=["- news"]).current


def run(now: datetime) -> None:
    webhooks.fill_outbox(now)
    webhooks.send_due(now)


def now() -> datetime:
    return datetime.now(UTC)


def test_a_new_version_is_sent_once_and_without_text(member: Any, receiver: Receiver) -> None:
    add_version(member)  # before the webhook
    webhook = Webhook.objects.register(make_key(member), receiver.url)
    version = add_version(member)
    run(now() + LATER)
    run(now() + 2 * LATER)
    (request,) = receiver.requests
    body = request.get_data(as_text=True)
    assert json.loads(body)["data"] == {
        "memory": version.memory_id,
        "version": 1,
        "version_id": version.pk,
        "scope": "channel",
        "memory_type": "long_term",
    }
    assert "news" not in body
    headers = request.headers
    assert headers["webhook-signature"] == sign(
        webhook.signing_keys(), headers["webhook-id"], int(headers["webhook-timestamp"]), body
    )
    delivery = WebhookDelivery.objects.get()
    assert (delivery.status, delivery.next_try_at, delivery.delivered_at is None) == (
        204,
        None,
        False,
    )


def test_it_waits_for_transactions_that_are_not_over(member: Any, receiver: Receiver) -> None:
    Webhook.objects.register(make_key(member), receiver.url)
    add_version(member)
    run(now())
    assert receiver.requests == []


@pytest.mark.parametrize("status", [500, 302, 404])
def test_a_refused_delivery_is_sent_six_times(member: Any, receiver: Receiver, status: int) -> None:
    receiver.status = status
    Webhook.objects.register(make_key(member), receiver.url)
    add_version(member)
    at = now() + LATER
    for _ in range(9):
        run(at)
        at += timedelta(hours=7)
    assert len(receiver.requests) == 6
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    delivery = WebhookDelivery.objects.get()
    assert (delivery.status, delivery.tries, delivery.next_try_at) == (status, 6, None)


def test_a_receiver_gets_the_delivery_after_an_outage(member: Any, receiver: Receiver) -> None:
    receiver.status = 503
    Webhook.objects.register(make_key(member), receiver.url)
    version = add_version(member)
    run(now() + LATER)
    receiver.status = 200
    run(now() + LATER)  # too soon
    run(now() + LATER + timedelta(seconds=31))
    assert receiver.versions == [version.pk, version.pk]
    assert WebhookDelivery.objects.get().delivered_at is not None


def test_a_webhook_reports_only_versions_its_key_reads(member: Any, receiver: Receiver) -> None:
    Webhook.objects.register(make_key(member), receiver.url)
    add_version(member, kind="private", members=[PersonFactory(workspace=member.workspace)])
    public = add_version(member)
    run(now() + LATER)
    assert receiver.versions == [public.pk]


@pytest.mark.parametrize("change", ["revoked", "expired", "role", "private"])
def test_the_audience_is_checked_when_it_is_sent(
    member: Any, receiver: Receiver, change: str
) -> None:
    key = make_key(member)
    Webhook.objects.register(key, receiver.url)
    version = add_version(member)
    later = now() + LATER
    webhooks.fill_outbox(later)
    assert WebhookDelivery.objects.count() == 1
    if change == "revoked":
        key.revoke(by=None, now=now())
    elif change == "expired":
        ApiKey.objects.filter(pk=key.pk).update(expires_at=now())
    elif change == "role":
        member.delete()
    else:
        version.memory.channel.update_fields({"kind": "private"})
    webhooks.send_due(later)
    assert receiver.requests == []
    assert not WebhookDelivery.objects.exists()


def test_a_host_that_is_not_public_is_not_called(
    member: Any, receiver: Receiver, settings: Any
) -> None:
    settings.MEMORYHUB_WEBHOOK_HOSTS = []
    Webhook.objects.register(make_key(member), receiver.url)
    add_version(member)
    run(now() + LATER)
    assert receiver.requests == []
    assert WebhookDelivery.objects.get().tries == 1


def test_two_workers_send_it_once(member: Any, receiver: Receiver) -> None:
    Webhook.objects.register(make_key(member), receiver.url)
    add_version(member)
    at = now() + LATER
    webhooks.fill_outbox(at)
    first, second = (WebhookDelivery.objects.select_related("webhook__key").get() for _ in range(2))
    assert [delivery.claim(at, at + LATER) for delivery in (first, second)] == [True, False]
