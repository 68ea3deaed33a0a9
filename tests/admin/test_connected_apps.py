"""Connected apps in the admin: operators see and revoke them, and nobody reaches their tokens."""

import pytest
from allauth.idp.oidc.models import Client as OAuthClient
from allauth.idp.oidc.models import Token
from django.contrib import admin
from django.utils import timezone

from memories.models import ApiKey, AuditEvent
from tests.admin.conftest import act, change_page, page_of
from tests.factories import MemberFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def key():
    member = MemberFactory(user__username="mika")
    app = OAuthClient.objects.create(name="Claude", redirect_uris="https://claude.ai/callback")
    Token.objects.create(type="at", hash="canarydigest", client=app, user=member.user)
    connected = ApiKey.objects.connect(app, member.user, member.workspace, now=timezone.now())
    Token.objects.create(type="rt", hash="canarydigest", client=app, user=member.user)
    return connected


def test_operators_see_and_revoke_apps(client, operator, key):
    assert Token.objects.count() == 1, "a new connection ends earlier tokens"
    for path in (page_of(ApiKey), change_page(key)):
        page = client.get(path).content.decode()
        assert "Claude" in page and "canarydigest" not in page
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
