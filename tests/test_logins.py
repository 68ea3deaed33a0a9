"""Coming in: by password, and with Slack, against an OpenID Connect server on loopback that signs
real tokens and shows its keys."""

import json
import time
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from allauth.account.models import EmailAddress
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from werkzeug import Request, Response

from memories.models import AuditEvent, Person, User
from tests.factories import PASSWORD, PersonFactory, UserFactory, WorkspaceFactory
from tests.secondfactors import give_factor

pytestmark = pytest.mark.django_db

TEAM = "T0001"


class Slack:
    """Says who somebody is. ``claims`` of the person who signs in can be told in advance."""

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
        return said(
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
        return said({"keys": [public | {"kid": "k1", "alg": "RS256", "use": "sig"}]})

    def token(self, request: Request) -> Response:
        if request.form["client_secret"] != "hush" or request.form["code"] != "yes":
            return said({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": self.audience, "iat": now, "exp": now + 300}
        token = jwt.encode(claims | self.claims, self.key, "RS256", headers={"kid": "k1"})
        return said({"access_token": "xoxp", "token_type": "Bearer", "id_token": token})

    def user_info(self, request: Request) -> Response:
        assert request.headers["Authorization"] == "Bearer xoxp"
        return said(self.claims)


def said(data, status=200):
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
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "APPS": [
                {
                    "provider_id": "slack",
                    "name": "Slack",
                    "client_id": "client",
                    "secret": "hush",
                    "settings": {"server_url": slack.url},
                }
            ]
        }
    }
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
    """Also where nobody has an account yet: they get one that way."""
    assert "/login/slack/" in client.get("/login/").content.decode()


def test_without_it_there_is_none(client, settings):
    UserFactory()
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": []}}
    assert "/login/slack/" not in client.get("/login/").content.decode()
    assert client.get("/login/slack/").status_code == 404


def test_a_known_person_gets_an_account(client, slack, mika):
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


def test_the_account_that_is_linked_already_is_theirs(client, slack, mika):
    user = UserFactory()
    mika.link(user, "")
    sign_in(client)
    assert account_of(client) == user and User.objects.count() == 1


def test_who_is_signed_in_is_linked(client, slack, mika):
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
def test_who_is_not_in_the_list_of_people_is_refused(client, slack, team, changed):
    PersonFactory(workspace=team, **{"slack_id": "U0001"} | changed)
    assert refused(sign_in(client), client)
    assert not User.objects.exists()


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
def test_what_slack_does_not_say_is_not_guessed(client, slack, mika, claims):
    WorkspaceFactory(team_id="")
    slack.claims = {**claims, "sub": "U0001"}
    assert refused(sign_in(client), client)


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


def test_nobody_takes_over_another_persons_account(client, slack, mika):
    mika.link(UserFactory(), "")
    client.force_login(UserFactory())
    assert sign_in(client).status_code == 403
    mika.refresh_from_db()
    assert mika.user_id == User.objects.order_by("pk")[0].pk


def test_an_account_that_is_off_stays_off(client, slack, mika):
    mika.link(UserFactory(is_active=False), "")
    assert refused(sign_in(client), client)


@pytest.mark.parametrize("wrong", ["issuer", "audience", "code"])
def test_a_token_for_somebody_else_is_none(client, slack, mika, wrong):
    if wrong != "code":
        setattr(slack, wrong, "https://elsewhere.example.com")
    answer = sign_in(client, code="no" if wrong == "code" else "yes")
    assert answer.status_code == 401
    assert account_of(client) is None and not User.objects.exists()
    assert "sheet" in answer.content.decode()


def test_a_forged_state_is_refused(client, slack, mika):
    client.get("/login/slack/")
    answer = client.get("/login/slack/callback/", {"code": "yes", "state": "forged"})
    assert answer.status_code == 401 and account_of(client) is None


@pytest.mark.parametrize("how", ["not verified", "taken"])
def test_an_address_that_is_not_theirs_is_not_taken_over(client, slack, mika, how):
    slack.claims = person(email_verified=how != "not verified")
    if how == "taken":
        UserFactory(email="MIKA@example.com")
    sign_in(client)
    assert account_of(client).email == ""
    assert not EmailAddress.objects.exists()


# -- by password


def test_nobody_signs_up(client):
    for path in ("/signup/", "/login/signup/", "/accounts/signup/"):
        assert client.get(path).status_code == 404


def test_who_tries_too_often_waits(client):
    UserFactory(username="alice")
    for _ in range(5):
        client.post("/login/", {"username": "alice", "password": "wrong"})
    right = client.post("/login/", {"username": "alice", "password": PASSWORD})
    assert right.status_code == 200 and account_of(client) is None
    assert "band danger" in right.content.decode()


def test_the_admins_login_is_the_same_one(client):
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


# -- a second factor


def test_slack_alone_is_not_enough_either(client, slack, mika):
    user = UserFactory()
    mika.link(user, "")
    spare = give_factor(user)[0]
    assert sign_in(client)["Location"] == "/factors/authenticate/"
    assert account_of(client) is None
    client.post("/factors/authenticate/", {"code": spare})
    assert account_of(client) == user
