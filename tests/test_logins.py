"""Coming in: by password, and with Slack, against an OpenID Connect server on loopback that signs
real tokens and shows its keys."""

import json
import time
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import time_machine
from allauth.account.models import EmailAddress
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.cache import cache
from django.db import connection
from django.test import Client
from jwt.algorithms import RSAAlgorithm
from werkzeug import Request, Response

from memories.models import AuditEvent, Channel, Person, Reader, User
from memories.pipeline.access import operators
from tests.factories import (
    PASSWORD,
    ChannelFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)
from tests.openid import openid_apps
from tests.secondfactors import give_factor

pytestmark = pytest.mark.django_db

TEAM = "T0001"


class Slack:
    """A fake identity provider. ``claims`` describe the person who signs in."""

    def __init__(self, server) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.url = server.url_for("").rstrip("/")
        self.issuer, self.audience = self.url, "client"
        self.claims = person()
        for path, answer in {
            "/.well-known/openid-configuration": self.configuration,
            "/openid/connect/keys": self.keys,
            "/api/openid.connect.token": self.token,
            "/api/openid.connect.userInfo": self.user_info,
        }.items():
            server.expect_request(path).respond_with_handler(answer)

    def configuration(self, request: Request) -> Response:
        return json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/openid/connect/authorize",
                "token_endpoint": f"{self.url}/api/openid.connect.token",
                "userinfo_endpoint": f"{self.url}/api/openid.connect.userInfo",
                "jwks_uri": f"{self.url}/openid/connect/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
        )

    def keys(self, request: Request) -> Response:
        public = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return json_response({"keys": [public | {"kid": "k1", "alg": "RS256", "use": "sig"}]})

    def token(self, request: Request) -> Response:
        if request.form["client_secret"] != "hush" or request.form["code"] != "yes":
            return json_response({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": self.audience, "iat": now, "exp": now + 300}
        token = jwt.encode(claims | self.claims, self.key, "RS256", headers={"kid": "k1"})
        return json_response({"access_token": "xoxp", "token_type": "Bearer", "id_token": token})

    def user_info(self, request: Request) -> Response:
        assert request.headers["Authorization"] == "Bearer xoxp"
        return json_response(self.claims)


def json_response(data, status=200):
    return Response(json.dumps(data), status, content_type="application/json")


def person(slack_id="U0001", team=TEAM, email="mika@example.com", **given):
    return {
        "sub": slack_id,
        "https://slack.com/user_id": slack_id,
        "https://slack.com/team_id": team,
        "email": email,
        "email_verified": True,
        "name": "Mika",
        **given,
    }


@pytest.fixture
def slack(httpserver, settings):
    slack = Slack(httpserver)
    settings.SOCIALACCOUNT_PROVIDERS = openid_apps(slack.url, "slack")
    return slack


@pytest.fixture
def team():
    return WorkspaceFactory(team_id=TEAM, slug="team")


@pytest.fixture
def mika(team):
    return PersonFactory(workspace=team, slack_id="U0001", name="Mika")


def sign_in(client, code="yes"):
    """Follow the link on the login page to Slack and back."""
    away = client.get("/login/slack/")
    assert away.status_code == 302, away.content.decode()
    query = parse_qs(urlsplit(away["Location"]).query)
    assert query["redirect_uri"] == ["http://testserver/login/slack/callback/"]
    return client.get("/login/slack/callback/", {"code": code, "state": query["state"][0]})


def account_of(client):
    key = client.session.get("_auth_user_id")
    return User.objects.get(pk=key) if key else None


# -- with Slack


def test_the_link_is_shown_where_slack_is_configured(client, slack, mika):
    """It is shown even without any account, because the login creates one."""
    assert "/login/slack/" in client.get("/login/").content.decode()


def test_slack_login_is_hidden_without_configuration(client, settings):
    UserFactory()
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": []}}
    assert "/login/slack/" not in client.get("/login/").content.decode()
    assert client.get("/login/slack/").status_code == 404


def test_a_person_of_the_workspace_gets_an_account(client, slack, mika):
    assert sign_in(client)["Location"] == "/"
    mika.refresh_from_db()
    assert account_of(client) == mika.user
    assert mika.linked_by == "slack" and not mika.user.has_usable_password()
    assert not mika.user.is_staff and not mika.user.is_superuser
    assert EmailAddress.objects.get(user=mika.user).verified
    linked = AuditEvent.objects.get(action="person_link")
    assert (linked.actor, linked.subject) == (mika.user.username, "U0001")
    assert client.get("/", follow=True).status_code == 200
    client.post("/logout/")
    sign_in(client)  # the same again
    assert account_of(client) == mika.user and User.objects.count() == 1


def test_a_linked_account_is_signed_in(client, slack, mika):
    user = UserFactory()
    mika.link(user, "")
    sign_in(client)
    assert account_of(client) == user and User.objects.count() == 1


def test_a_signed_in_user_is_linked(client, slack, mika):
    operator = UserFactory(is_superuser=True, is_staff=True)
    client.force_login(operator)
    sign_in(client)
    mika.refresh_from_db()
    assert mika.user == account_of(client) == operator


def refused(answer, client):
    assert answer.status_code == 403, answer.status_code
    assert account_of(client) is None
    assert "sheet" in answer.content.decode()
    return AuditEvent.objects.filter(action="login_refused").count() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"is_deleted": True},
        {"is_external": True},
        {"is_bot": True},
        {"is_placeholder": True},
        {"slack_id": "U0002"},
    ],
    ids=str,
)
def test_an_unlisted_person_is_refused(client, slack, team, changed):
    PersonFactory(workspace=team, **{"slack_id": "U0001"} | changed)
    assert refused(sign_in(client), client)
    assert not User.objects.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "claims",
    [
        person(team="T0002"),
        person(team=""),
        person(slack_id=""),
        {k: v for k, v in person().items() if "team_id" not in k},
        person(**{"https://slack.com/team_id": ["T0001"]}),
    ],
)
def test_a_login_without_a_team_is_refused(client, slack, mika, claims):
    WorkspaceFactory(team_id="")
    slack.claims = {**claims, "sub": "U0001"}
    assert refused(sign_in(client), client)


@pytest.mark.slow
def test_an_account_with_rights_is_opened_by_its_password_first(client, slack, mika):
    operator = UserFactory(is_superuser=True)
    mika.link(operator, "")
    assert refused(sign_in(client), client)
    client.force_login(operator)
    assert "/login/slack/" in client.get("/settings/").content.decode()
    sign_in(client)
    assert "/login/slack/" not in client.get("/settings/").content.decode()
    client.post("/logout/")
    sign_in(client)
    assert account_of(client) == operator


def test_a_person_linked_to_another_account_is_refused(client, slack, mika):
    mika.link(UserFactory(), "")
    client.force_login(UserFactory())
    assert sign_in(client).status_code == 403
    mika.refresh_from_db()
    assert mika.user_id == User.objects.order_by("pk")[0].pk


def test_an_account_that_is_off_stays_off(client, slack, mika):
    mika.link(UserFactory(is_active=False), "")
    assert refused(sign_in(client), client)


@pytest.mark.parametrize("wrong", ["issuer", "audience", "code"])
def test_a_token_of_another_issuer_is_refused(client, slack, mika, wrong):
    if wrong != "code":
        setattr(slack, wrong, "https://elsewhere.example.com")
    answer = sign_in(client, code="no" if wrong == "code" else "yes")
    assert answer.status_code == 401
    assert account_of(client) is None and not User.objects.exists()
    assert "sheet" in answer.content.decode()


@pytest.mark.parametrize("answer", ["none", "a page", "not found"])
def test_a_provider_that_is_down_is_explained(client, settings, httpserver, mika, answer):
    url = "http://127.0.0.1:1" if answer == "none" else httpserver.url_for("").rstrip("/")
    if answer == "a page":
        httpserver.expect_request("/.well-known/openid-configuration").respond_with_data("<html>")
    settings.SOCIALACCOUNT_PROVIDERS = openid_apps(url, "slack")
    response = client.get("/login/slack/")
    assert response.status_code == 503 and "Sign-in failed" in response.content.decode()


def test_a_forged_state_is_refused(client, slack, mika):
    client.get("/login/slack/")
    answer = client.get("/login/slack/callback/", {"code": "yes", "state": "forged"})
    assert answer.status_code == 401 and account_of(client) is None


@pytest.mark.parametrize("how", ["not verified", "taken"])
def test_an_unverified_or_used_address_is_not_stored(client, slack, mika, how):
    slack.claims = person(email_verified=how != "not verified")
    if how == "taken":
        UserFactory(email="MIKA@example.com")
    sign_in(client)
    assert account_of(client).email == ""
    assert not EmailAddress.objects.exists()


# -- by password


def test_there_is_no_sign_up(client):
    for path in ("/signup/", "/login/signup/", "/accounts/signup/"):
        assert client.get(path).status_code == 404


def try_password(client, password="wrong", username="alice", **request):
    return client.post("/login/", {"username": username, "password": password}, **request)


def is_refused(answer):
    """By a limit, and not for the password."""
    return "Too many attempts" in answer.content.decode()


@pytest.fixture
def alice():
    return UserFactory(username="alice")


def test_too_many_attempts_have_to_wait(client, alice):
    for _ in range(5):
        assert not is_refused(try_password(client))
    right = try_password(client, PASSWORD)
    assert right.status_code == 200 and account_of(client) is None
    assert "band danger" in right.content.decode() and is_refused(right)


def test_an_account_is_locked_for_every_host_address_and_spelling(client, alice):
    for n in range(5):
        try_password(client, HTTP_HOST=f"localhost:{n + 1}", REMOTE_ADDR=f"192.0.2.{n}")
    for name in ("alice", "ALICE"):
        guess = try_password(
            client, PASSWORD, name, HTTP_HOST="localhost:99", REMOTE_ADDR="192.0.2.99"
        )
        assert is_refused(guess) and account_of(client) is None


@pytest.mark.parametrize("name", ["Zoë", "ZOË", "zoë"])
def test_a_name_opens_its_account_in_any_spelling(client, name):
    account = UserFactory(username="Zoë")
    try_password(client, PASSWORD, name)
    assert account_of(client) == account


@pytest.mark.slow
def test_an_address_that_tries_many_names_waits(client, alice):
    for n in range(20):
        assert not is_refused(try_password(client, username=f"name-{n}"))
    assert is_refused(try_password(client, PASSWORD))
    try_password(client, PASSWORD, REMOTE_ADDR="192.0.2.1")
    assert account_of(client) == alice, "another address"


def test_ipv4_addresses_in_ipv6_form_count_apart(client, alice):
    """All of them are in one /64, so together they would use up the limit of one address."""
    for n in range(20):
        try_password(client, username=f"name-{n}", REMOTE_ADDR="::ffff:192.0.2.1")
    assert is_refused(try_password(client, PASSWORD, REMOTE_ADDR="192.0.2.1"))
    try_password(client, PASSWORD, REMOTE_ADDR="::ffff:192.0.2.2")
    assert account_of(client) == alice


def test_a_known_device_signs_in_while_the_account_is_locked(client, alice):
    try_password(client, PASSWORD)
    client.post("/logout/")
    stranger = Client()
    for _ in range(25):  # from the same address
        try_password(stranger)
    assert is_refused(try_password(stranger, PASSWORD))
    try_password(client, PASSWORD)
    assert account_of(client) == alice


def test_a_known_device_waits_for_its_own_guesses(client, alice):
    try_password(client, PASSWORD)
    client.post("/logout/")
    for _ in range(5):
        assert not is_refused(try_password(client))
    assert is_refused(try_password(client, PASSWORD))


def test_a_second_factor_is_requested_on_a_new_device_during_guesses(client, alice):
    spare = give_factor(alice)[0]
    for n in range(10):
        try_password(Client(), REMOTE_ADDR=f"192.0.2.{n}")
    assert try_password(client, PASSWORD)["Location"] == "/factors/authenticate/"
    assert account_of(client) is None
    client.post("/factors/authenticate/", {"code": spare})
    assert account_of(client) == alice


def test_guesses_are_limited_even_with_a_second_factor(alice):
    give_factor(alice)
    for n in range(5):
        assert not is_refused(try_password(Client(), HTTP_HOST=f"localhost:{n + 1}"))
    assert is_refused(try_password(Client(), PASSWORD))


@pytest.mark.parametrize("how", ["another person", "forged", "new password"])
def test_only_the_cookie_of_this_account_is_a_known_device(client, alice, how):
    try_password(client, PASSWORD)
    cookie = client.cookies["known_device"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
    client.post("/logout/")
    if how == "another person":
        UserFactory(username="mallory")
        try_password(client, PASSWORD, "mallory")
        client.post("/logout/")
    elif how == "forged":
        client.cookies["known_device"] = cookie.value[:-1] + "AB"[cookie.value.endswith("A")]
    else:
        alice.set_password("something new")
        alice.save()
    stranger = Client()
    for _ in range(5):
        try_password(stranger, REMOTE_ADDR="192.0.2.1")
    assert is_refused(try_password(client, "something new" if how == "new password" else PASSWORD))


def test_a_locked_account_does_not_stop_a_signed_in_user(client, alice):
    try_password(client, PASSWORD)
    stranger = Client()
    for _ in range(6):
        try_password(stranger)
    again = client.post("/login/again/", {"password": PASSWORD, "next": "/settings/"})
    assert again["Location"] == "/settings/"


def test_new_entries_evict_no_live_entry():
    """As guesses at unknown names from many addresses would create."""
    with time_machine.travel(time.time(), tick=False) as clock:
        cache.set("a-lock", "closed", timeout=300)
        for n in range(400):
            cache.set(f"junk-{n}", n, timeout=60)
        assert cache.get("a-lock") == "closed"
        clock.shift(61)
        cache.set("one-more", 1)
        assert entries() == 2, "what has expired goes"
        assert cache.get("a-lock") == "closed"


def entries():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM memoryhub_cache")
        return cursor.fetchone()[0]


def test_the_admin_uses_the_same_login(client):
    UserFactory()
    answer = client.get("/admin/")
    assert answer.status_code == 302
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/login/")


def test_an_account_that_is_off_sees_why(client):
    UserFactory(username="alice", is_active=False)
    answer = client.post("/login/", {"username": "alice", "password": PASSWORD}, follow=True)
    assert account_of(client) is None
    assert "sheet" in answer.content.decode()


@pytest.mark.parametrize("path", ["/login/", "/login/off/", "/login/cancelled", "/login/failed"])
def test_pages_are_ours_and_have_nothing_inline(client, path):
    UserFactory()
    page = client.get(path).content.decode()
    assert "Memory Hub" in page and "<style" not in page and "style=" not in page
    assert "<script>" not in page


def test_a_login_is_of_the_record(client):
    UserFactory(username="alice")
    client.post("/login/", {"username": "alice", "password": PASSWORD})
    assert AuditEvent.objects.get().action == "login"
    assert Person.objects.count() == 0


@pytest.mark.parametrize(
    ("name", "subject"), [("alice", "alice"), ("ALICE", "alice"), ("a password", "")]
)
def test_a_wrong_password_is_recorded_with_the_account(client, alice, name, subject):
    try_password(client, username=name)
    event = AuditEvent.objects.get()
    assert (event.action, event.subject) == ("login_failed", subject)


# -- a second factor


def test_slack_alone_is_not_enough_either(client, slack, mika):
    user = UserFactory()
    mika.link(user, "")
    spare = give_factor(user)[0]
    assert sign_in(client)["Location"] == "/factors/authenticate/"
    assert account_of(client) is None
    client.post("/factors/authenticate/", {"code": spare})
    assert account_of(client) == user


# -- links by an operator, and links by Slack


@pytest.fixture
def closed(team, mika):
    """A private channel that Mika is in."""
    return ChannelFactory(workspace=team, kind="private", members=[mika])


def opens(channel, user):
    return Channel.objects.visible_to(Reader.of(user)).filter(pk=channel.pk).exists()


def knows(user):
    user.refresh_from_db()
    return user.check_password(PASSWORD)


@pytest.mark.slow
def test_a_slack_login_proves_the_link_and_ends_a_given_password(client, slack, mika, closed):
    user = UserFactory()
    mika.link(user, "")
    elsewhere = Client()
    elsewhere.force_login(user)
    assert not opens(closed, user)
    sign_in(client)
    assert account_of(client) == user and opens(closed, user)
    assert not knows(user) and elsewhere.get("/settings/").status_code == 302
    assert "was removed" in client.get("/settings/").content.decode()
    assert AuditEvent.objects.filter(action="password_ended").count() == 1
    sign_in(Client())
    assert AuditEvent.objects.filter(action="password_ended").count() == 1


def test_a_signed_in_user_proves_the_link_too(client, slack, mika, closed):
    """Another person who knew a given password may have chosen the current password."""
    user = UserFactory()
    mika.link(user, "")
    client.force_login(user)
    assert (
        "Sign in with Slack to open your private channels"
        in client.get("/settings/").content.decode()
    )
    sign_in(client)
    assert account_of(client) == user and opens(closed, user) and not knows(user)
    page = client.get("/settings/").content.decode()
    assert "Sign in with Slack to open" not in page and "may know it" in page


@pytest.mark.slow
def test_a_key_made_with_a_given_password_ends_at_slack_login(client, slack, mika, closed):
    """An operator signs in as Mika, makes a key, and waits until she has proven who she is."""
    user, boss = UserFactory(username="mika"), UserFactory(is_superuser=True)
    mika.link(user, "slack")
    operators.give_password(user, "a given word 7", by=boss)
    as_mika, token = Client(), ""
    as_mika.post("/login/", {"username": "mika", "password": "a given word 7"})
    page = as_mika.post("/w/team/keys/", {"name": "mine", "days": "0"}).content.decode()
    token = page.partition("<code>mhr_")[2].partition("<")[0]
    channels = "/api/v1/channels", {"Authorization": f"Bearer mhr_{token}"}
    answer = Client().get(channels[0], headers=channels[1])
    assert answer.status_code == 200 and not answer.json()["items"]
    # She chooses a password of her own before she signs in with Slack.
    client.force_login(user)
    own = {
        "oldpassword": "a given word 7",
        "password1": "my own word 8",
        "password2": "my own word 8",
    }
    client.post("/password/", own)
    sign_in(client)
    assert opens(closed, user)
    assert Client().get(channels[0], headers=channels[1]).status_code == 401


def test_a_slack_login_unlinks_a_person_from_an_operators_account(client, slack, mika, closed):
    sign_in(client)
    user = account_of(client)
    client.post("/logout/")
    operator = UserFactory(is_superuser=True)
    mika.link(operator, "", was=user, by=operator, reason="a complaint")
    assert opens(closed, operator) and not opens(closed, user)
    sign_in(client)
    assert account_of(client) == user and opens(closed, user) and not opens(closed, operator)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["they are named", "the password is set", "they are unlinked"])
def test_a_slack_login_does_not_join_an_operator_linked_account(
    client, slack, team, mika, closed, first
):
    """An operator linked another person to Mika's account. That person signs in there with their
    own Slack account, and would keep access after Mika has proven the link.
    """
    user, boss = UserFactory(), UserFactory(is_superuser=True)
    if first == "they are named":
        mika.link(user, "", by=boss)
    else:
        sign_in(client)
        user = account_of(client)
        client.post("/logout/")
        operators.give_password(user, PASSWORD, by=boss, reason="a complaint")
    if first == "they are unlinked":
        mika.refresh_from_db()
        mika.link(None, "", was=user, by=boss)
    PersonFactory(workspace=team, slack_id="U0666")
    slack.claims = person(slack_id="U0666", email="eve@example.com")
    client.force_login(user)
    assert sign_in(client).status_code == 403
    assert not user.people.filter(slack_id="U0666").exists()
    slack.claims = person()
    mikas = Client()
    sign_in(mikas)
    assert account_of(mikas) == user and opens(closed, user) and not knows(user)


def test_an_operator_link_does_not_open_another_persons_account(client, slack, team, mika, closed):
    user = UserFactory()
    mika.link(user, "slack")
    eve = PersonFactory(workspace=team, slack_id="U0666")
    eve.link(user, "")
    slack.claims = person(slack_id="U0666", email="eve@example.com")
    assert refused(sign_in(client), client)
    assert opens(closed, user)
