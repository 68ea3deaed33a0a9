"""An operator's audited access to a private channel, for an hour and with a reason."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from memories.models import AccessGrant, AuditEvent, Channel, MemoryVersion, Message, Reader
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
)

pytestmark = pytest.mark.django_db

ADD = "admin:memories_accessgrant_add"
WORD = "canaryyellow"


@pytest.fixture
def channel():
    workspace = WorkspaceFactory(slug="team")
    channel = ChannelFactory(
        workspace=workspace,
        name=f"{WORD}-room",
        slack_id="GYELLOW1",
        kind="private",
        members=[PersonFactory(workspace=workspace)],
    )
    MessageFactory(channel=channel, text=f"{WORD} said")
    make_channel_memory(channel=channel, texts=[f"- {WORD} remembered"])
    return channel


def path(channel, name="channels-detail"):
    return reverse(name, args=["team", channel.slack_id])


def add_grant(client, channel, reason="a complaint"):
    return client.post(reverse(ADD), {"channel": channel.pk, "reason": reason})


@pytest.mark.slow
def test_a_channel_is_readable_for_an_hour(client, channel, operator):
    assert client.get(path(channel)).status_code == 404
    assert add_grant(client, channel).status_code == 302
    page = client.get(path(channel)).content.decode()
    assert f"{WORD} remembered" in page
    assert "You opened" in page and "a complaint" in page
    assert WORD in client.get(path(channel, "messages-index")).content.decode()
    AccessGrant.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert client.get(path(channel)).status_code == 404
    assert "You opened" not in client.get("/w/team/").content.decode()


def test_the_audit_log_records_a_grant(client, channel, operator):
    add_grant(client, channel)
    event = AuditEvent.objects.get(action="channel_open")
    assert (event.actor, event.workspace) == ("boss", "team")
    assert event.subject == f"channel {channel.pk}"
    assert event.details == {"reason": "a complaint"}
    assert AuditEvent.objects.exclude(action__in=("login", "channel_open")).count() <= 1


def test_pages_do_not_show_the_name_of_a_channel(client, channel, operator):
    page = client.get(reverse(ADD)).content.decode()
    assert f"private channel {channel.pk} of" in page
    add_grant(client, channel)
    AccessGrant.objects.update(until=timezone.now() - timedelta(seconds=1))
    listed = client.get(reverse("admin:memories_accessgrant_changelist")).content.decode()
    detail = client.get(
        reverse("admin:memories_accessgrant_change", args=[AccessGrant.objects.get().pk])
    )
    for text in (page, listed, detail.content.decode()):
        assert WORD not in text and channel.slack_id not in text


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_grant_needs_a_reason(client, channel, operator, reason):
    assert add_grant(client, channel, reason).status_code == 200
    assert not AccessGrant.objects.exists() and not AuditEvent.objects.filter(
        subject__contains="chan"
    )


def test_a_public_channel_cannot_be_opened(client, operator):
    assert add_grant(client, ChannelFactory()).status_code == 200
    assert not AccessGrant.objects.exists()


def test_only_operators_open_channels(client, clerk, channel):
    MemberFactory(workspace=channel.workspace, user=clerk, role="admin")
    client.force_login(clerk)
    assert client.get(reverse(ADD)).status_code == 403
    assert add_grant(client, channel).status_code == 403
    with pytest.raises(ValueError, match="operator"):
        AccessGrant.objects.open(channel, by=clerk, reason="because", now=timezone.now())
    AccessGrant.objects.create(
        user=clerk, channel=channel, reason="", until=timezone.now() + timedelta(hours=1)
    )
    assert client.get(path(channel)).status_code == 404


def test_a_grant_is_for_one_operator_and_one_channel(client, channel, operator):
    direct = ChannelFactory(workspace=channel.workspace, kind="im")
    add_grant(client, channel)
    assert client.get(path(direct)).status_code == 404
    reader = Reader.of(UserFactory(is_superuser=True))
    for model in (Channel, Message, MemoryVersion):
        assert not model.objects.visible_to(reader).exists()
