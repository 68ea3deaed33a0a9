"""OAuth: registration, consent, tokens, and what a token may do."""

from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from allauth.idp.oidc.models import Client as OAuthClient
from allauth.idp.oidc.models import Token
from django.core.cache import cache
from django.test import Client
from django.test.client import MULTIPART_CONTENT
from django.utils import timezone

from memories.models import ApiKey, AuditEvent, Member
from tests.factories import MemberFactory, WorkspaceFactory
from tests.oauth import CALLBACK, CONSENT, VERIFIER, App, hidden_fields

pytestmark = pytest.mark.slow

ADDRESSES = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/oauth/authorize",
    "/oauth/token",
    "/oauth/revoke",
    "/oauth/register",
]


@pytest.fixture(autouse=True)
def switched_on(settings):
    settings.MEMORYHUB_OAUTH = True
    settings.MEMORYHUB_URL = "http://testserver"
    cache.clear()  # the limit of registrations


@pytest.fixture
def app(db):
    return App.register()


@pytest.fixture
def browser(cast):
    """The browser of a person who reads everything and edits."""
    return cast.clients["insider"]


# ---- switched off


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_nothing_is_there_without_the_setting(client, db, settings, address, method):
    settings.MEMORYHUB_OAUTH = False
    assert getattr(client, method)(address).status_code == 404


def test_tokens_end_with_the_setting(app, browser, ask, settings):
    access = app.connect(browser)["access_token"]
    assert ask(access, "status").status_code == 200
    settings.MEMORYHUB_OAUTH = False
    refusal = ask(access, "status")
    assert (refusal.status_code, refusal["WWW-Authenticate"]) == (401, "Bearer")


# ---- metadata


def test_metadata_name_what_the_hub_supports(client):
    server, hub, mcp = (client.get(address).json() for address in ADDRESSES[:3])
    assert server["issuer"] == "http://testserver"
    assert server["token_endpoint"] == "http://testserver/oauth/token"
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["response_types_supported"] == ["code"]
    assert server["token_endpoint_auth_methods_supported"] == ["none"]
    assert hub["resource"] == "http://testserver"
    assert mcp["resource"] == "http://testserver/mcp"
    assert mcp["authorization_servers"] == ["http://testserver"]
    assert mcp["scopes_supported"] == ["read", "notes", "propose"]


@pytest.mark.parametrize("path, named", [("/mcp", "/mcp"), ("/api/v1/status", "")])
def test_a_refusal_says_where_to_begin(client, db, path, named):
    challenge = client.get(path)["WWW-Authenticate"]
    metadata = f"http://testserver/.well-known/oauth-protected-resource{named}"
    assert challenge == f'Bearer resource_metadata="{metadata}"'


# ---- registration


def test_every_app_becomes_a_public_client(db):
    answer = App.send_registration(
        Client(),
        client_name="<b>Claude</b> evil.example/login",
        token_endpoint_auth_method="client_secret_basic",
        grant_types=["client_credentials", "implicit"],
        response_types=["token"],
        scope="openid email",
        skip_consent=True,
    )
    assert answer.status_code == 201
    data = answer.json()
    assert "client_secret" not in data
    assert data["token_endpoint_auth_method"] == "none"
    assert (data["grant_types"], data["response_types"]) == (
        ["authorization_code", "refresh_token"],
        ["code"],
    )
    assert data["scope"] == "read notes propose"
    row = OAuthClient.objects.get()
    assert (row.type, row.skip_consent, row.allow_uri_wildcards) == ("public", False, False)
    assert row.name == "(b)Claude( b) evil example login"


@pytest.mark.parametrize(
    "uris",
    [
        ["https://evil.example/callback"],
        [CALLBACK, "https://evil.example/callback"],
        [f"{CALLBACK}\nhttps://evil.example/callback"],
        ["javascript:alert(1)"],
        [5],
        [],
        "no list",
        ["\x00", "\ud800"],
    ],
)
def test_other_addresses_are_refused(db, uris):
    assert App.send_registration(Client(), redirect_uris=uris).status_code == 400
    assert not OAuthClient.objects.exists()


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"client_name": []}'])
def test_junk_is_refused(db, body):
    answer = Client().post("/oauth/register", body, content_type="application/json")
    assert answer.status_code == 400


@pytest.mark.parametrize("content_type", [MULTIPART_CONTENT, "application/x-www-form-urlencoded"])
def test_a_form_is_no_registration(db, content_type):
    form = {"redirect_uris": CALLBACK}
    body = form if content_type == MULTIPART_CONTENT else urlencode(form)
    answer = Client().post("/oauth/register", body, content_type=content_type)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")


def test_a_name_may_hold_anything(db):
    answer = App.send_registration(Client(), client_name="a\x00\ud800b" * 100)
    assert answer.status_code == 201
    assert len(answer.json()["client_name"]) <= 80


def test_registrations_are_limited_by_address(db):
    statuses = [App.send_registration(Client()).status_code for _ in range(11)]
    assert statuses == [201] * 10 + [429]


def test_apps_that_nobody_connects_are_deleted_after_a_week(app, browser):
    connected = App.register()
    connected.connect(browser)
    OAuthClient.objects.update(created_at=timezone.now() - timedelta(days=8))
    newest = App.register()
    assert set(OAuthClient.objects.values_list("pk", flat=True)) == {
        connected.client_id,
        newest.client_id,
    }


# ---- consent


def test_the_page_names_the_app_its_address_and_what_it_reads(app, browser):
    page = app.ask(browser)
    text = page.content.decode()
    assert "Connect Claude?" in text and "http://127.0.0.1:7777" in text and "The team" in text
    assert "form-action 'self' http://127.0.0.1:7777;" in f"{page['Content-Security-Policy']};"
    assert page["X-Frame-Options"] == "DENY" and "no-store" in page["Cache-Control"]


def test_a_visitor_signs_in_first(app):
    answer = app.ask(Client())
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/?next=/oauth/authorize%3Fclient_id%3D")
    assert app.ask(Client(), prompt="none").status_code == 302
    assert Client().post("/oauth/authorize?prompt=none", {"request": "x"}).status_code == 302


@pytest.mark.parametrize("changes", [{}, {"prompt": "none"}])
def test_consent_is_asked_every_time(app, browser, changes):
    app.connect(browser)
    assert app.ask(browser, **changes).status_code == 200
    assert "Connect Claude?" in App.register().ask(browser, **changes).content.decode()


def test_another_site_cannot_consent(app, cast):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(cast.users["insider"])
    fields = hidden_fields(app.ask(browser).content.decode())
    sent = fields | {"action": "grant", "days": "90", "csrfmiddlewaretoken": ""}
    assert browser.post("/oauth/authorize", sent).status_code == 403
    assert not ApiKey.objects.exists()


def test_a_form_that_this_page_did_not_make_is_refused(app, browser):
    assert browser.post("/oauth/authorize", {"action": "grant"}).status_code == 400
    assert browser.post("/oauth/authorize", {"request": "x", "action": "grant"}).status_code == 403


def test_a_person_without_a_workspace_cannot_connect(app, cast):
    assert app.ask(cast.clients["outsider"]).status_code == 403


def test_cancel_gives_nothing(app, browser):
    answer = app.consent(browser, {"action": "cancel"})
    assert parse_qs(urlsplit(answer["Location"]).query) == {
        "error": ["access_denied"],
        "state": ["s"],
    }
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": f"{CALLBACK}?to=elsewhere"},
        {"redirect_uri": CALLBACK.replace("7777", "8888")},
        {"redirect_uri": CALLBACK.replace("127", "x@127")},
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": None},
        {"client_id": "unknown"},
        {"client_id": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"resource": "https://other.example"},
        {"resource": "http://testserver/mcp/x"},
        {"scope": "notes"},
    ],
)
def test_a_wrong_request_is_not_sent_back(app, browser, changes):
    page = app.ask(browser, **changes)
    assert page.status_code in (200, 400) and "Location" not in page
    assert "Connect Claude?" not in page.content.decode()


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"response_type": "token"}, "unauthorized_client"),
        ({"response_type": "id_token"}, "unauthorized_client"),
        ({"response_type": "code id_token"}, "unauthorized_client"),
        ({"response_type": None}, "invalid_request"),
        ({"scope": "read openid"}, "invalid_scope"),
        ({"code_challenge": None}, "invalid_request"),
    ],
)
def test_an_app_learns_why_it_is_refused(app, browser, changes, error):
    answer = app.ask(browser, **changes)
    assert answer.status_code == 302 and answer["Location"].startswith(CALLBACK)
    query = urlsplit(answer["Location"])
    assert parse_qs(query.query or query.fragment)["error"] == [error]


def test_an_app_reads_one_workspace(app, cast, ask):
    zoo = WorkspaceFactory(slug="zoo", name="Zoo")
    MemberFactory(workspace=zoo, user=cast.users["insider"])
    browser = cast.clients["insider"]
    assert "workspace=zoo" in app.ask(browser).content.decode()
    access = app.connect(browser, workspace="zoo")["access_token"]
    assert ask(access, "status").json()["workspace"] == "zoo"
    assert app.ask(browser, workspace="unknown").status_code == 404


def test_a_new_consent_replaces_the_earlier_one(app, browser, ask):
    first = app.connect(browser, {"notes": "on"})
    second = app.connect(browser)
    assert ask(first["access_token"], "status").status_code == 401
    assert app.refresh(first["refresh_token"]).status_code == 400
    assert ask(second["access_token"], "status").json()["scopes"] == ["read"]
    assert ApiKey.objects.filter(revoked_at=None).count() == 1


# ---- tokens


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": VERIFIER.replace("v", "w")},
        {"code_verifier": ""},
        {"redirect_uri": f"{CALLBACK}/x"},
        {"client_id": "unknown"},
        {"client_id": "\x00"},
        {"code": "unknown"},
        {"code": "no\r\ncode"},
        {"code": "x" * 300},
        {"grant_type": "client_credentials"},
        {"grant_type": "password"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "x"},
        {"resource": "https://other.example"},
    ],
)
def test_a_wrong_exchange_gives_nothing(app, browser, changes):
    answer = app.exchange(app.code(browser), **changes)
    assert answer.status_code in (400, 401) and not Token.objects.exists()


def test_a_code_works_once_and_for_its_own_app(app, browser):
    code = app.code(browser)
    assert App.register().exchange(code).status_code == 400
    assert app.exchange(code).status_code == 200
    assert app.exchange(code).status_code == 400


def test_a_code_lives_for_a_minute(app, browser, time_machine):
    time_machine.move_to("2026-11-24T09:00:00Z", tick=False)
    code = app.code(browser)
    time_machine.move_to("2026-11-24T09:01:01Z", tick=False)
    assert app.exchange(code).status_code == 400


def test_secrets_are_refused_unread(app, browser, django_assert_max_num_queries):
    code = app.code(browser)
    with django_assert_max_num_queries(0):
        assert app.exchange(code, client_secret="x").status_code == 401


def test_a_refresh_token_works_once(app, browser, ask):
    first = app.connect(browser)
    second = app.refresh(first["refresh_token"]).json()
    assert ask(second["access_token"], "status").status_code == 200
    assert app.refresh(first["refresh_token"]).status_code == 400
    assert App.register().refresh(second["refresh_token"]).status_code in (400, 401)


def test_an_access_token_lives_for_a_quarter_of_an_hour(app, browser, ask, time_machine):
    time_machine.move_to("2026-11-24T09:00:00Z", tick=False)
    tokens = app.connect(browser)
    time_machine.move_to("2026-11-24T09:14:59Z", tick=False)
    assert ask(tokens["access_token"], "status").status_code == 200
    time_machine.move_to("2026-11-24T09:15:00Z", tick=False)
    assert ask(tokens["access_token"], "status").status_code == 401
    access = app.refresh(tokens["refresh_token"]).json()["access_token"]
    assert ask(access, "status").status_code == 200
    assert Token.objects.count() == 2, "the expired token is deleted"


def test_a_refresh_narrows_and_never_widens(app, browser, ask):
    tokens = app.connect(browser, {"notes": "on"})
    narrow = app.refresh(tokens["refresh_token"], scope="read").json()
    assert ask(narrow["access_token"], "status").json()["scopes"] == ["read"]
    refusal = ask(narrow["access_token"], "notes", "post", data={}, content_type="application/json")
    assert refusal.status_code in (403, 422)
    assert app.refresh(narrow["refresh_token"], scope="read notes").status_code == 400
    assert app.refresh(narrow["refresh_token"], scope="read propose").status_code == 400


def test_a_token_without_the_scope_read_reads_nothing(app, browser, ask):
    tokens = app.connect(browser, {"notes": "on"})
    access = app.refresh(tokens["refresh_token"], scope="notes").json()["access_token"]
    assert ask(access, "status").status_code == 401


def test_a_token_for_mcp_is_no_token_for_the_api(app, browser, ask):
    access = app.connect(browser, resource="http://testserver/mcp")["access_token"]
    assert ask(access, "status").status_code == 401
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {
        "Authorization": f"Bearer {access}",
        "Accept": "application/json, text/event-stream",
        "Host": "testserver",
    }
    answer = Client().post("/mcp", body, content_type="application/json", headers=headers)
    assert answer.status_code == 200 and "get_context" in answer.content.decode()


def test_no_token_is_stored_or_logged(app, browser, ask, caplog):
    caplog.set_level("INFO")
    code = app.code(browser)
    tokens = app.exchange(code).json()
    ask(tokens["access_token"], "search?q=confidential-words")
    rows = str([*Token.objects.values(), *ApiKey.objects.values()])
    for secret in (tokens["access_token"], tokens["refresh_token"], code, "confidential-words"):
        assert secret not in rows and secret not in caplog.text
    assert "API key" in caplog.text and "/api/v1/search" in caplog.text
    assert ApiKey.objects.get().last_used_at is not None
    assert AuditEvent.objects.filter(action="api_key_issue").count() == 1


def test_the_key_of_an_app_has_no_usable_token_of_its_own(app, browser, ask):
    refresh = app.connect(browser)["refresh_token"]
    key = ApiKey.objects.get()
    for guess in (f"{key.prefix}_{key.lookup}_", f"{key.prefix}_{key.lookup}_x", refresh):
        assert ask(guess, "status").status_code == 401


# ---- what a token reads


@pytest.mark.parametrize(
    ("who", "channels"),
    [
        *(("insider", ""), ("guest", ""), ("member", "launch")),
        *(
            pytest.param(*given, marks=pytest.mark.nightly("other readers"))
            for given in (("editor", ""), ("operator", ""), ("insider", "launch"))
        ),
    ],
)
def test_a_token_reads_what_a_key_of_the_person_reads(app, cast, token, ask, who, channels):
    narrowed = [cast.public] if channels else []
    key = token(who, channels=narrowed)
    access = app.connect(cast.clients[who], {"channels": channels})["access_token"]
    paths = ("context?budget=20000", "channels", "search?q=earns", "notes")
    paths += (f"memories/{cast.private_memory.pk}", f"memories/{cast.memory.pk}")
    for path in paths:
        as_key, as_app = ask(key, path), ask(access, path)
        assert (as_app.status_code, as_app.content) == (as_key.status_code, as_key.content)


def test_scopes_are_those_that_the_person_ticked(app, cast, ask):
    def scopes(who, given=None, **changes):
        access = app.connect(cast.clients[who], given, **changes)["access_token"]
        return ask(access, "status").json()["scopes"]

    both = {"notes": "on", "propose": "on"}
    assert scopes("editor") == ["read"]
    assert scopes("editor", both) == ["notes", "propose", "read"]
    assert scopes("editor", both, scope="read propose") == ["propose", "read"]
    assert scopes("member", both) == ["propose", "read"]


def test_a_person_who_loses_access_loses_it_in_apps(app, cast, ask):
    tokens = app.connect(cast.clients["insider"])
    access = tokens["access_token"]
    assert ask(access, "channels/C0PRIVATE").status_code == 200
    cast.private.memberships.all().delete()
    assert ask(access, "channels/C0PRIVATE").status_code == 404
    Member.objects.filter(user=cast.users["insider"]).delete()
    cast.users["insider"].people.all().delete()
    assert ask(access, "channels").json()["items"] == []
    cast.users["insider"].is_active = False
    cast.users["insider"].save()
    assert ask(access, "status").status_code == 401
    assert app.refresh(tokens["refresh_token"]).status_code == 400


def test_a_revoked_or_expired_app_gets_nothing(app, browser, ask):
    for end in ("revoked", "expired"):
        tokens = app.connect(browser)
        if end == "revoked":
            ApiKey.objects.get(revoked_at=None).revoke(by=None, now=timezone.now())
            assert not Token.objects.exists()
        else:
            ApiKey.objects.filter(revoked_at=None).update(expires_at=timezone.now())
        assert ask(tokens["access_token"], "status").status_code == 401
        assert app.refresh(tokens["refresh_token"]).status_code == 400


def test_an_app_can_end_its_own_connection(app, browser, ask):
    tokens = app.connect(browser)
    data = {"token": tokens["refresh_token"], "client_id": app.client_id}
    assert app.http.post("/oauth/revoke", data | {"client_id": "unknown"}).status_code == 401
    assert ask(tokens["access_token"], "status").status_code == 200
    assert app.http.post("/oauth/revoke", data).status_code == 200
    assert ask(tokens["access_token"], "status").status_code == 401
    assert ApiKey.objects.get().revoked_at is not None


def test_requests_of_an_app_are_limited(app, browser, ask):
    access = app.connect(browser)["access_token"]
    ApiKey.objects.update(requests_per_minute=2)
    assert [ask(access, "status").status_code for _ in range(3)] == [200, 200, 429]


def test_the_consent_page_explains_an_invalid_field(app, browser):
    page = app.consent(browser, {"channels": "nowhere"})
    assert page.status_code == 422 and "No channel nowhere" in page.content.decode()
    assert not ApiKey.objects.exists()
    fields = hidden_fields(page.content.decode())
    assert browser.post("/oauth/authorize", fields | CONSENT).status_code == 302
