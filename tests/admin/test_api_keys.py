"""API keys in the admin: made by operators, shown once, revoked at once."""

import pytest
from django.urls import reverse

from memories.models import ApiKey, AuditEvent
from tests.factories import ChannelFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db
LIST = "admin:memories_apikey_changelist"
ADD = "admin:memories_apikey_add"


def add(client, workspace, **changes):
    given = {"workspace": workspace.pk, "name": "ci", "days": "30", "requests_per_minute": "60"}
    return client.post(reverse(ADD), given | changes)


def test_an_operator_makes_a_key_and_sees_its_token_once(client, operator, caplog):
    caplog.set_level("INFO")
    channel = ChannelFactory()
    response = add(
        client, channel.workspace, scopes=["notes", "propose"], channels=[channel.pk], is_own="on"
    )
    key = ApiKey.objects.get()
    token = response.content.decode().partition("<code>")[2].partition("</code>")[0]
    assert ApiKey.objects.find(token, key.created_at) == key
    assert (key.user, key.created_by, key.requests_per_minute) == (operator, operator, 60)
    assert key.scopes == ["notes", "propose", "read"] and list(key.channels.all()) == [channel]
    assert key.expires_at is not None
    assert token not in caplog.text and token not in str(response.cookies)
    for path in (reverse(LIST), reverse("admin:memories_apikey_change", args=[key.pk])):
        page = client.get(path).content.decode()
        assert "ci" in page and token not in page and key.digest not in page
    assert AuditEvent.objects.get(action="api_key_issue").actor == operator.username


def test_a_key_without_the_account_reads_public_channels_only(client, operator):
    add(client, WorkspaceFactory())
    key = ApiKey.objects.get()
    assert key.user is None and key.reader(key.created_at).is_public


def test_a_channel_of_another_workspace_is_refused(client, operator):
    response = add(client, WorkspaceFactory(), channels=[ChannelFactory().pk])
    assert "This channel is in another workspace." in response.content.decode()
    assert not ApiKey.objects.exists()


def test_keys_are_revoked(client, operator):
    key, token = ApiKey.objects.issue(WorkspaceFactory(), name="ci", by=None)
    given = {"action": "revoke", "_selected_action": [key.pk]}
    page = client.post(reverse(LIST), given, follow=True).content.decode()
    assert "1 key was revoked." in page
    assert ApiKey.objects.find(token, key.created_at) is None
    assert AuditEvent.objects.get(action="api_key_revoke").actor == operator.username


def test_staff_who_are_no_operators_neither_see_nor_make_keys(client, operator):
    workspace = WorkspaceFactory()
    ApiKey.objects.issue(workspace, name="secret-name", by=None)
    operator.is_superuser = False
    operator.save()
    assert "secret-name" not in client.get(reverse(LIST)).content.decode()
    assert add(client, workspace).status_code == 403
