"""An operator opens a private channel: for an hour, for a reason, on the record, and no other way."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
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


@pytest.fixture
def operator(client):
    user = UserFactory(is_superuser=True, is_staff=True, username="op")
    client.force_login(user)
    return user


def path(channel, name="channels-detail"):
    return reverse(name, args=["team", channel.slack_id])


def open_it(client, channel, reason="a complaint"):
    return client.post(reverse(ADD), {"channel": channel.pk, "reason": reason})


def test_closed_until_opened_and_again_after_an_hour(client, channel, operator):
    assert client.get(path(channel)).status_code == 404
    assert open_it(client, channel).status_code == 302
    page = client.get(path(channel)).content.decode()
    assert f"{WORD} remembered" in page
    assert "You opened" in page and "a complaint" in page
    assert WORD in client.get(path(channel, "messages-index")).content.decode()
    AccessGrant.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert client.get(path(channel)).status_code == 404
    assert "You opened" not in client.get("/w/team/").content.decode()


def test_it_is_on_the_record(client, channel, operator):
    open_it(client, channel)
    event = AuditEvent.objects.get(action="channel_open")
    assert (event.actor, event.workspace) == ("op", "team")
    assert event.subject == f"channel {channel.pk}"
    assert event.details == {"reason": "a complaint"}
    assert AuditEvent.objects.exclude(action__in=("login", "channel_open")).count() <= 1


def test_what_may_be_opened_is_shown_without_its_name(client, channel, operator):
    page = client.get(reverse(ADD)).content.decode()
    assert f"private channel {channel.pk} of" in page
    open_it(client, channel)
    AccessGrant.objects.update(until=timezone.now() - timedelta(seconds=1))
    listed = client.get(reverse("admin:memories_accessgrant_changelist")).content.decode()
    one = client.get(
        reverse("admin:memories_accessgrant_change", args=[AccessGrant.objects.get().pk])
    )
    for text in (page, listed, one.content.decode()):
        assert WORD not in text and channel.slack_id not in text


@pytest.mark.parametrize("reason", ["", "   "])
def test_not_without_a_reason(client, channel, operator, reason):
    assert open_it(client, channel, reason).status_code == 200
    assert not AccessGrant.objects.exists() and not AuditEvent.objects.filter(
        subject__contains="chan"
    )


def test_a_public_channel_needs_none(client, operator):
    assert open_it(client, ChannelFactory()).status_code == 200
    assert not AccessGrant.objects.exists()


def test_nobody_else_opens(client, channel):
    user = UserFactory(is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    MemberFactory(workspace=channel.workspace, user=user, role="admin")
    client.force_login(user)
    assert client.get(reverse(ADD)).status_code == 403
    assert open_it(client, channel).status_code == 403
    with pytest.raises(ValueError, match="operator"):
        AccessGrant.objects.open(channel, by=user, reason="because", now=timezone.now())
    AccessGrant.objects.create(
        user=user, channel=channel, reason="", until=timezone.now() + timedelta(hours=1)
    )
    assert client.get(path(channel)).status_code == 404


def test_an_opening_is_one_operators_and_one_channels(client, channel, operator):
    other = ChannelFactory(workspace=channel.workspace, kind="im")
    open_it(client, channel)
    assert client.get(path(other)).status_code == 404
    reader = Reader.of(UserFactory(is_superuser=True))
    for model in (Channel, Message, MemoryVersion):
        assert not model.objects.visible_to(reader).exists()


def test_openings_are_neither_changed_nor_removed(client, channel, operator):
    open_it(client, channel)
    pk = AccessGrant.objects.get().pk
    change = reverse("admin:memories_accessgrant_change", args=[pk])
    assert client.post(change, {"reason": "another"}).status_code == 403
    delete = reverse("admin:memories_accessgrant_delete", args=[pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    assert AccessGrant.objects.get().reason == "a complaint"
