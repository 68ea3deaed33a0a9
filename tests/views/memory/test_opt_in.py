"""The opt-in of a private channel's long-term memory into the workspace's."""

import pytest
from django.urls import reverse

from memories.models import AccessGrant, AuditEvent, Channel
from tests.factories import (
    ChannelFactory,
    ChannelMemberFactory,
    MemberFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_workspace_memory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def team():
    workspace = WorkspaceFactory(slug="team")
    make_workspace_memory(workspace=workspace)
    return workspace


@pytest.fixture
def secret(team):
    return ChannelFactory(workspace=team, name="secret", slack_id="C1", kind="private", members=[])


def somebody(team, channel=None, role="", **account):
    """Create an account with a membership, and with a person in the channel."""
    user = UserFactory(**account)
    person = PersonFactory(workspace=team, user=user)
    if role:
        MemberFactory(workspace=team, user=user, role=role)
    if channel is not None:
        ChannelMemberFactory(channel=channel, person=person)
    return user


def path(channel):
    return reverse("channels-opt_in", args=["team", channel.slack_id])


def is_in(channel):
    return Channel.objects.get(pk=channel.pk).in_workspace_memory


@pytest.mark.slow
def test_an_admin_in_the_channel_decides(client, team, secret):
    admin = somebody(team, secret, "admin")
    client.force_login(admin)
    detail = reverse("channels-detail", args=["team", "C1"])
    assert path(secret) in client.get(detail).content.decode()
    page = client.get(path(secret)).content.decode()
    assert "shares the long-term memory" in page and not is_in(secret)
    assert client.post(path(secret), {"on": "1"})["Location"] == detail
    assert is_in(secret)
    assert "Stop sharing" in client.get(path(secret)).content.decode()
    client.post(path(secret), {"on": "0"})
    assert not is_in(secret)
    events = AuditEvent.objects.filter(action__startswith="channel_opt").order_by("pk")
    assert [(e.action, e.actor) for e in events] == [
        ("channel_opt_in", admin.username),
        ("channel_opt_out", admin.username),
    ]


@pytest.mark.slow
def test_the_page_of_the_workspace_names_the_channel(client, team, secret):
    secret.update_fields({"in_workspace_memory": True})
    client.force_login(somebody(team))
    assert (
        "It includes #secret, which is private, by opt-in."
        in client.get("/w/team/").content.decode()
    )
    guest = UserFactory()
    PersonFactory(workspace=team, user=guest, is_guest=True)
    client.force_login(guest)
    assert "#secret" not in client.get("/w/team/").content.decode()


@pytest.mark.parametrize(
    ("who", "status"),
    [
        ({"role": "admin"}, 404),  # not in the channel
        ({"role": "editor", "inside": True}, 403),
        ({"inside": True}, 403),
        ({}, 404),
        ({"is_superuser": True}, 404),
    ],
    ids=str,
)
def test_other_accounts_cannot_decide(client, team, secret, who, status):
    inside = who.pop("inside", False)
    client.force_login(somebody(team, secret if inside else None, **who))
    assert client.get(path(secret)).status_code == status
    assert client.post(path(secret), {"on": "1"}).status_code == status
    assert not is_in(secret)


def test_an_access_grant_is_no_membership(client, team, secret):
    from django.utils import timezone

    operator = somebody(team, is_superuser=True)
    AccessGrant.objects.open(secret, by=operator, reason="to look", now=timezone.now())
    client.force_login(operator)
    assert client.get(reverse("channels-detail", args=["team", "C1"])).status_code == 200
    assert client.post(path(secret), {"on": "1"}).status_code == 403
    assert not is_in(secret)


@pytest.mark.parametrize("kind", ["public", "im", "mpim"])
def test_other_channels_have_no_opt_in(client, team, kind):
    channel = ChannelFactory(workspace=team, kind=kind)
    client.force_login(somebody(team, channel, "admin"))
    assert client.post(path(channel), {"on": "1"}).status_code == 403
    assert not is_in(channel)


def test_a_shared_channel_has_an_opt_in(client, team):
    channel = ChannelFactory(workspace=team, is_shared=True, name="fjord")
    client.force_login(somebody(team, channel, "admin"))
    client.post(path(channel), {"on": "1"})
    assert is_in(channel)
    assert (
        "#fjord, which is shared with others, by opt-in" in client.get("/w/team/").content.decode()
    )
