"""API keys and connected apps in the admin, for operators. No page shows a token twice."""

import logging
import re
from datetime import timedelta

import pytest
from allauth.idp.oidc.models import Client as OAuthClient
from allauth.idp.oidc.models import Token
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.utils import timezone

from memories.models import ApiKey, AuditEvent
from tests.admin.conftest import act, change_page, page_of
from tests.factories import ChannelFactory, MemberFactory, PersonFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def key():
    member = MemberFactory(user__username="mika")
    app = OAuthClient.objects.create(name="Claude", redirect_uris="https://claude.ai/callback")
    Token.objects.create(type="at", hash="canaryhash", client=app, user=member.user)
    connected = ApiKey.objects.connect(app, member.user, member.workspace, now=timezone.now())
    Token.objects.create(type="rt", hash="canaryhash", client=app, user=member.user)
    return connected


def test_operators_see_and_revoke_apps(client, operator, key):
    assert Token.objects.count() == 1, "a new connection ends earlier tokens"
    for path in (page_of(ApiKey), change_page(key)):
        page = client.get(path).content.decode()
        assert "Claude" in page and "canaryhash" not in page
    assert "https://claude.ai" in client.get(page_of(ApiKey)).content.decode()
    for empty, is_listed in (("0", True), ("1", False)):
        page = client.get(page_of(ApiKey), {"client__isempty": empty}).content.decode()
        assert ("https://claude.ai" in page) == is_listed
    act(client, "revoke", key)
    key.refresh_from_db()
    assert key.revoked_at is not None and not Token.objects.exists()
    assert AuditEvent.objects.get(action="api_key_revoke").actor == operator.username


def test_staff_see_no_app(client, clerk, key):
    client.force_login(clerk)
    assert "Claude" not in client.get(page_of(ApiKey)).content.decode()
    assert client.get(change_page(key)).status_code == 302


@pytest.mark.parametrize("table", ["client", "token"])
@pytest.mark.parametrize("page", ["", "add/", "1/change/", "1/delete/"])
def test_the_providers_own_tables_have_no_page(client, operator, table, page):
    assert client.get(f"/admin/allauth_idp_oidc/{table}/{page}").status_code == 404
    assert not {OAuthClient, Token} & admin.site._registry.keys()


ADD = page_of(ApiKey, "add")
NEW = {"name": "laptop", "days": "90", "channels": "", "requests_per_minute": "120"}


@pytest.fixture
def workspace():
    workspace = WorkspaceFactory(slug="team")
    ChannelFactory(workspace=workspace, name="launch")
    person = PersonFactory(workspace=workspace)
    ChannelFactory(workspace=workspace, name="salaries", kind="private", members=[person])
    return workspace


def create(client, workspace, fields=()):
    return client.post(ADD, NEW | {"workspace": workspace.pk} | dict(fields))


def token_in(response):
    return re.search(r"<code>(mh[rw]_[^<]+)</code>", response.content.decode())[1]


def test_only_the_response_to_the_form_shows_the_token(client, operator, workspace, caplog):
    caplog.set_level(logging.DEBUG)
    response = create(client, workspace)
    token = token_in(response)
    assert "no-store" in response["Cache-Control"]
    key = ApiKey.objects.find(token, timezone.now())
    assert (key.workspace, key.user, key.created_by) == (workspace, operator, operator)
    secret = token.rpartition("_")[2]
    history = page_of(ApiKey, "history", key.pk)
    for path in (page_of(ApiKey), change_page(key), history, ADD, page_of(AuditEvent)):
        assert secret not in client.get(path).content.decode()
    stored = [*LogEntry.objects.values(), *AuditEvent.objects.values(), *ApiKey.objects.values()]
    sessions = [session.get_decoded() for session in Session.objects.all()]
    assert secret not in f"{stored} {sessions} {client.cookies} {caplog.text}"
    assert AuditEvent.objects.get(action="api_key_issue").actor == operator.username
    [entry] = LogEntry.objects.all()
    assert (entry.object_id, entry.object_repr) == (str(key.pk), f"API key {key.pk}")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"scopes": ["read"], "is_narrowed": False, "requests_per_minute": 120}),
        ({"notes": "on", "propose": "on"}, {"scopes": ["notes", "propose", "read"]}),
        ({"channels": "launch"}, {"is_narrowed": True}),
        ({"is_public": "on"}, {"user": None}),
        ({"days": "0"}, {"expires_at": None}),
        ({"requests_per_minute": "60"}, {"requests_per_minute": 60}),
        ({"user": "", "scopes": '["notes"]'}, {"scopes": ["read"]}),
    ],
)
def test_a_key_has_the_limits_of_the_form(client, operator, workspace, fields, expected):
    token_in(create(client, workspace, fields))
    key = ApiKey.objects.get()
    expected = {"user": operator} | expected
    assert {name: getattr(key, name) for name in expected} == expected
    assert {channel.name for channel in key.channels.all()} == set(
        fields.get("channels", "").split()
    )
    if "days" not in fields:
        assert abs(key.expires_at - key.created_at - timedelta(days=90)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"workspace": ""}, {"workspace"}),
        ({"workspace": "0", "channels": "launch"}, {"workspace"}),
        ({"name": " "}, {"name"}),
        ({"days": "5"}, {"days"}),
        ({"channels": "salaries"}, {"channels"}),
        ({"requests_per_minute": "0"}, {"requests_per_minute"}),
    ],
)
def test_invalid_input_creates_no_key(client, operator, workspace, fields, wrong):
    response = create(client, workspace, fields)
    assert response.context["adminform"].form.errors.keys() == wrong
    assert not ApiKey.objects.exists() and not LogEntry.objects.exists()


def test_staff_create_no_key(client, clerk, workspace):
    MemberFactory(user=clerk, workspace=workspace, role="admin")
    client.force_login(clerk)
    assert client.get(ADD).status_code == create(client, workspace).status_code == 403
    assert not ApiKey.objects.exists()


def test_no_button_leaves_the_page_with_the_token(client, operator, workspace):
    page = client.get(ADD).content.decode()
    assert "_save" in page and "_addanother" not in page and "_continue" not in page
