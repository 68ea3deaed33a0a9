"""Connections to Slack in the admin. No page shows a token."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from memories.models import AuditEvent, SlackConnection, User, Workspace
from tests.admin.conftest import act, change_page, page_of, staff
from tests.factories import MemberFactory, WorkspaceFactory, store_token
from tests.slack.fake_slack import TOKEN, FakeSlack

pytestmark = pytest.mark.django_db

LIST, ADD = page_of(SlackConnection), page_of(SlackConnection, "add")
PASTED = "xoxb-1234-pasted-SECRETpart"


@pytest.fixture
def workspace() -> Workspace:
    return WorkspaceFactory(slug="team")


def test_a_token_is_stored_and_not_shown(
    client: Client, operator: User, workspace: Workspace
) -> None:
    answer = client.post(ADD, {"workspace": workspace.pk, "new_token": f" {PASTED}\n"})
    assert answer.status_code == 302
    connection = SlackConnection.objects.get()
    assert connection.decrypt_token() == PASTED
    for path in (change_page(connection), LIST, reverse("admin:index")):
        shown = client.get(path).content.decode()
        assert "SECRET" not in shown and connection.encrypted_token not in shown
    assert "…part" in client.get(change_page(connection)).content.decode()
    history = reverse("admin:memories_slackconnection_history", args=[connection.pk])
    assert "SECRET" not in client.get(history).content.decode()
    everything = [*LogEntry.objects.values(), *AuditEvent.objects.values()]
    assert "SECRET" not in str(everything) and connection.encrypted_token not in str(everything)
    [event] = AuditEvent.objects.filter(action="slack_token_set")
    assert (event.actor, event.workspace) == ("boss", "team")


def test_a_form_without_a_token_keeps_the_old_token(
    client: Client, operator: User, workspace: Workspace
) -> None:
    connection = store_token(workspace)
    assert client.post(change_page(connection), {"new_token": ""}).status_code == 302
    connection.refresh_from_db()
    assert connection.decrypt_token() == TOKEN
    assert client.post(change_page(connection), {"new_token": PASTED}).status_code == 302
    connection.refresh_from_db()
    assert connection.decrypt_token() == PASTED and connection.token_end == "part"


@pytest.mark.parametrize("wrong", ["", "xoxp-1-SECRET", "xapp-1-SECRET", "hunter2-SECRET"])
def test_a_wrong_token_is_refused_and_not_shown(
    client: Client, operator: User, workspace: Workspace, wrong: str
) -> None:
    answer = client.post(ADD, {"workspace": workspace.pk, "new_token": wrong})
    assert answer.status_code == 200 and "SECRET" not in answer.content.decode()
    assert "errorlist" in answer.content.decode()
    assert not SlackConnection.objects.exists()


def test_a_token_can_be_tested(
    client: Client, operator: User, workspace: Workspace, bare_slack: FakeSlack
) -> None:
    connection = store_token(workspace)
    assert act(client, "test_connection", connection) == [
        "team: The connection works. All required data can be read."
    ]
    bare_slack.scopes.discard("users:read")
    [message] = act(client, "test_connection", connection)
    assert message.startswith("team: users:read is missing.") and "install it again" in message
    assert "users:read" in client.get(change_page(connection)).content.decode()
    bare_slack.token_error = "token_revoked"
    [message] = act(client, "test_connection", connection)
    assert "revoked" in message
    assert "token revoked" in client.get(LIST).content.decode()


def test_admins_see_their_own_connection_and_viewers_change_nothing(
    client: Client, workspace: Workspace
) -> None:
    own, foreign = store_token(workspace), store_token(WorkspaceFactory(slug="other"), PASTED)
    user = staff(client, "view_slackconnection")
    assert (
        client.get(change_page(own)).status_code == 302
    )  # the admin redirects when it finds no row
    MemberFactory(workspace=workspace, user=user, role="editor")
    assert "other" not in client.get(LIST).content.decode()
    assert client.get(change_page(own)).status_code == 302
    user.memberships.update(role="admin")
    shown = client.get(change_page(own)).content.decode()
    assert "new_token" not in shown and f"…{TOKEN[-4:]}" in shown
    assert client.get(change_page(foreign)).status_code == 302
    assert client.post(change_page(own), {"new_token": PASTED}).status_code == 403
    act(client, "delete_token", own)
    own.refresh_from_db()
    assert own.decrypt_token() == TOKEN
