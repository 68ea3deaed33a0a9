"""Single sign-on with any OpenID Connect provider: accounts, roles by claims, links to people."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone

from memories.models import ApiKey, AuditEvent, Digest, Member, Reader, User
from memories.models.ingest.people import BY_OPERATOR
from memories.pipeline.access import linking, operators
from memories.rules.access.claims import ClaimRole, parse_claim_roles, roles_from_claims
from tests.factories import (
    ChannelFactory,
    ChannelMemberFactory,
    MemberFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)
from tests.openid import openid_apps
from tests.test_logins import Slack as Provider
from tests.test_logins import account_of
from tests.test_logins import person as slack_claims
from tests.test_logins import sign_in as sign_in_with_slack

RULES = "groups:boss=admin, groups:staff=member,groups:root=operator"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", ()),
        ("groups:admins=admin,", (ClaimRole("groups", "admins", "admin"),)),
        ("https://x.org/roles:a b=editor", (ClaimRole("https://x.org/roles", "a b", "editor"),)),
        ("groups:a=b=guest", (ClaimRole("groups", "a=b", "guest"),)),
    ],
)
def test_rules_are_read(text: str, rules: tuple[ClaimRole, ...]) -> None:
    assert parse_claim_roles(text) == rules


@pytest.mark.parametrize(
    "text", ["admins", "groups:admins", "groups=admin", "groups:a=boss", ":a=admin"]
)
def test_a_wrong_rule_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text}' is not like claim:value=role"):
        parse_claim_roles(text)


@pytest.mark.parametrize(
    ("claims", "rights"),
    [
        ({}, ("", False)),
        ({"groups": "staff"}, ("member", False)),
        ({"groups": ["other", "staff", "boss"]}, ("admin", False)),
        ({"groups": ["root"]}, ("", True)),
        ({"groups": ["staff", "root"]}, ("member", True)),
        ({"groups": ["Staff"]}, ("", False)),
        ({"groups": {"staff": True}}, ("", False)),
        ({"groups": [1, None, ["staff"]]}, ("", False)),
        ({"realm": {"roles": ["editors"]}}, ("editor", False)),
        ({"realm": ["editors"]}, ("", False)),
    ],
)
def test_roles_from_claims(claims: dict[str, Any], rights: tuple[str, bool]) -> None:
    rules = parse_claim_roles(f"{RULES},realm.roles:editors=editor")
    assert roles_from_claims(claims, rules) == rights


# -- sign-ins


@pytest.fixture
def provider(db: None, httpserver: Any, settings: Any) -> Provider:
    provider = Provider(httpserver)
    settings.MEMORYHUB_OIDC_ROLES = parse_claim_roles(RULES)
    settings.SOCIALACCOUNT_PROVIDERS = openid_apps(provider.url, "slack", "sso")
    provider.claims = claims()
    return provider


def claims(*groups: str, sub: str = "42", **values: Any) -> dict[str, Any]:
    address = {"email": "mika@example.com", "email_verified": True}
    return {"sub": sub, "preferred_username": "mika", "groups": list(groups), **address, **values}


def sign_in(client: Client) -> Any:
    away = client.get("/login/sso/")
    query = parse_qs(urlsplit(away["Location"]).query)
    return client.get("/login/sso/callback/", {"code": "yes", "state": query["state"][0]})


def role_of(user: User) -> str:
    return "".join(Member.objects.filter(user=user).values_list("role", flat=True))


def test_the_provider_is_asked_for_the_scopes_of_the_settings(
    client: Client, provider: Provider, settings: Any
) -> None:
    [app] = openid_apps(provider.url, "sso")["openid_connect"]["APPS"]
    app["settings"]["scope"] = ["openid", "groups"]
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    query = parse_qs(urlsplit(client.get("/login/sso/")["Location"]).query)
    assert set(query["scope"][0].split()) == {"openid", "groups"}


def test_claims_set_the_role_at_each_sign_in(client: Client, provider: Provider) -> None:
    MemberFactory(workspace=WorkspaceFactory(), role="admin")
    for groups, role in ((["staff"], "member"), (["boss"], "admin"), (["other"], "")):
        provider.claims = claims(*groups)
        sign_in(client)
        user = account_of(client)
        assert user.username == "mika" and not user.is_staff and not user.is_superuser
        assert role_of(user) == role
        client.post("/logout/")
    assert SocialAccount.objects.count() == 1
    changes = AuditEvent.objects.filter(action="role", subject="mika")
    assert [event.details["source"] for event in changes] == ["single sign-on"] * 3


def test_without_a_role_there_is_no_account(
    client: Client, provider: Provider, settings: Any
) -> None:
    response = sign_in(client)
    assert response.status_code == 403
    assert "Your account at Sso has no role here." in response.content.decode()
    assert not User.objects.exists()
    assert AuditEvent.objects.get().details == {"why": "role", "provider": "Sso"}
    settings.MEMORYHUB_OIDC_ROLES = ()
    sign_in(client)
    assert role_of(account_of(client)) == ""


def test_only_a_rule_appoints_operators(client: Client, provider: Provider) -> None:
    UserFactory(is_superuser=True, is_staff=True)
    provider.claims = claims("root")
    sign_in(client)
    assert account_of(client).is_operator
    client.post("/logout/")
    provider.claims = claims("staff")
    sign_in(client)
    assert not account_of(client).is_operator and not account_of(client).is_staff


def test_the_last_admin_and_operator_stay(client: Client, provider: Provider) -> None:
    workspace = WorkspaceFactory()
    provider.claims = claims("root", "boss")
    sign_in(client)
    client.post("/logout/")
    provider.claims = claims()
    sign_in(client)
    user = account_of(client)
    assert user.is_operator
    assert workspace.members.get(user=user).role == "admin"


def test_an_account_links_it_from_its_settings(client: Client, provider: Provider) -> None:
    provider.claims = claims("staff")
    alice = UserFactory(username="alice")
    client.force_login(alice)
    assert "/login/sso/" in client.get("/settings/").content.decode()
    sign_in(client)
    assert "/login/sso/" not in client.get("/settings/").content.decode()
    client.post("/logout/")
    sign_in(client)
    assert account_of(client) == alice and User.objects.count() == 1
    assert AuditEvent.objects.filter(action="login_linked", actor="alice").count() == 1


OLD = "https://old.example.com"


@pytest.mark.parametrize("former", [[], [OLD]])
def test_the_same_id_at_another_issuer_opens_nothing(
    client: Client, provider: Provider, settings: Any, former: list[str]
) -> None:
    """Unless the operator says that it is an earlier address of the same provider."""
    provider.claims = claims("staff")
    sign_in(client)
    user = account_of(client)
    login = SocialAccount.objects.get()
    login.extra_data["id_token"]["iss"] = OLD
    login.save()
    client.post("/logout/")
    settings.MEMORYHUB_OIDC_FORMER_ISSUERS = former
    if former:
        sign_in(client)
        assert account_of(client) == user
        return
    for _ in range(2):
        response = sign_in(client)
        assert response.status_code == 403
        assert "The provider of Sso has changed" in response.content.decode()
    assert AuditEvent.objects.filter(action="login_refused", details__why="issuer").count() == 2
    boss = UserFactory(is_staff=True, is_superuser=True)
    client.force_login(boss)
    data = {"action": "unlink_single_sign_on", "_selected_action": [user.pk]}
    client.post("/admin/memories/user/", data)
    event = AuditEvent.objects.get(action="account")
    assert (event.actor, event.subject) == (boss.username, user.username)
    client.force_login(user)
    sign_in(client)
    assert SocialAccount.objects.get().user == user


@pytest.mark.parametrize("how", ["another's", "a second one", "inactive"])
def test_a_login_of_another_account_is_refused(
    client: Client, provider: Provider, how: str
) -> None:
    provider.claims = claims("staff")
    sign_in(client)
    mika = account_of(client)
    client.post("/logout/")
    if how == "another's":
        client.force_login(UserFactory())
    elif how == "a second one":
        client.force_login(mika)
        provider.claims = claims("staff", sub="43")
    else:
        User.objects.update(is_active=False)
    assert sign_in(client).status_code == 403
    assert list(SocialAccount.objects.values_list("user", "uid")) == [(mika.pk, "42")]


def test_a_login_with_slack_ends_single_sign_on_that_an_operator_left(
    client: Client, provider: Provider
) -> None:
    """The operator keeps neither a login of their own in the account nor a session."""
    mika = PersonFactory(workspace=WorkspaceFactory(team_id="T0001"), slack_id="U0001")
    elsewhere = Client()
    provider.claims = claims("staff")
    sign_in(elsewhere)
    user = account_of(elsewhere)
    mika.link(user, BY_OPERATOR, by=UserFactory(is_superuser=True))
    provider.claims = slack_claims()
    sign_in_with_slack(client)
    assert account_of(client) == user and client.get("/settings/").status_code == 200
    assert "was removed" not in client.get("/settings/").content.decode()
    assert elsewhere.get("/settings/").status_code == 302
    events = AuditEvent.objects.filter(action="account")
    assert [event.details for event in events] == [{"single_sign_on": False}]
    provider.claims = claims("staff")
    sign_in(elsewhere)
    assert account_of(elsewhere) not in (user, None)


def test_single_sign_on_that_opened_the_session_stays_after_slack(
    client: Client, provider: Provider
) -> None:
    mika = PersonFactory(workspace=WorkspaceFactory(team_id="T0001"), slack_id="U0001")
    provider.claims = claims("staff")
    sign_in(client)
    user = account_of(client)
    mika.link(user, BY_OPERATOR, by=UserFactory(is_superuser=True))
    provider.claims = slack_claims()
    sign_in_with_slack(client)
    assert account_of(client) == user and client.get("/settings/").status_code == 200
    assert SocialAccount.objects.filter(user=user).count() == 2


@pytest.mark.parametrize("is_older", [False, True])
def test_a_chosen_password_ends_what_was_made_with_a_given_one(
    client: Client, provider: Provider, is_older: bool
) -> None:
    """Single sign-on from before stays: who knew the given password did not link it."""
    provider.claims = claims("staff")
    user, boss = UserFactory(username="alice"), UserFactory(is_superuser=True)
    if is_older:
        client.force_login(user)
        sign_in(client)
    for password in ("a given word 6", "a given word 7"):
        operators.give_password(user, password, by=boss)
        elsewhere = Client()
        elsewhere.post("/login/", {"username": "alice", "password": password})
        assert account_of(elsewhere) == user
        if not SocialAccount.objects.exists():
            sign_in(elsewhere)
    ApiKey.objects.issue(WorkspaceFactory(), name="agent", by=user, user=user)
    feed = Digest.objects.create(user=user).new_feed_token()
    client.force_login(user)
    own = {"password1": "my own word 8", "password2": "my own word 8"}
    client.post("/password/", {"oldpassword": "a given word 7", **own})
    user.refresh_from_db()
    assert user.check_password("my own word 8") and user.password_set_at is None
    assert not ApiKey.objects.usable(timezone.now()).exists()
    assert Digest.objects.find_by_token(feed) is None
    assert SocialAccount.objects.exists() is is_older


@pytest.mark.parametrize("is_trusted", [False, True])
def test_private_channels_need_a_link(
    client: Client, provider: Provider, settings: Any, is_trusted: bool
) -> None:
    now = timezone.now()
    team = WorkspaceFactory(team_id="T0001", connected_at=now, listed_at=now)
    mika = PersonFactory(workspace=team, slack_id="U0001", email="mika@example.com")
    private = ChannelFactory(workspace=team, kind="private", members_known_at=now)
    ChannelMemberFactory(channel=private, person=mika)
    settings.MEMORYHUB_OIDC_TRUST_EMAIL = is_trusted
    # These claims mean something in a sign-in with Slack only.
    slack = {linking.TEAM: "T0001", linking.PERSON: "U0001"}
    provider.claims = claims("staff", **slack)

    def read_channels() -> list[Any]:
        sign_in(client)
        reader = Reader.of(account_of(client))
        client.post("/logout/")
        return list(team.channels.visible_to(reader))

    assert read_channels() == ([private] if is_trusted else [])
    assert EmailAddress.objects.exists() == is_trusted
    for changed in ({"email_verified": False}, {"email": "other@example.com"}):
        provider.claims = claims("staff", **changed)
        assert read_channels() == []


def test_digests_follow_the_verified_address(
    client: Client, provider: Provider, settings: Any
) -> None:
    """The provider may have given the old address to somebody else."""
    settings.MEMORYHUB_OIDC_TRUST_EMAIL = True
    for changed, address in (
        ({}, "mika@example.com"),
        ({"email": "new@example.com"}, "new@example.com"),
        ({"email_verified": False}, ""),
    ):
        provider.claims = claims("staff", **changed)
        sign_in(client)
        assert account_of(client).email == address
        client.post("/logout/")


def test_an_address_that_an_operator_entered_stays(
    client: Client, provider: Provider, settings: Any
) -> None:
    settings.MEMORYHUB_OIDC_TRUST_EMAIL = True
    provider.claims = claims("staff")
    sign_in(client)
    User.objects.update(email="work@example.com")
    client.post("/logout/")
    provider.claims = claims("staff", email="new@example.com")
    sign_in(client)
    assert account_of(client).email == "work@example.com"


def test_an_address_of_another_account_is_not_stored(
    client: Client, provider: Provider, settings: Any
) -> None:
    settings.MEMORYHUB_OIDC_TRUST_EMAIL = True
    UserFactory(email="MIKA@example.com")
    provider.claims = claims("staff")
    for _ in range(2):
        sign_in(client)
        client.post("/logout/")
    assert not EmailAddress.objects.exists()


@pytest.mark.parametrize("wrong", ["issuer", "audience"])
def test_a_token_of_another_issuer_is_refused(
    client: Client, provider: Provider, wrong: str
) -> None:
    setattr(provider, wrong, "https://elsewhere.example.com")
    assert sign_in(client).status_code == 401
    assert not User.objects.exists()
