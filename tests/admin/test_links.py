"""Links between accounts and people in Slack.

A link by an operator opens private channels for an hour, with a reason in the audit log. A sign-in with
Slack opens them permanently.
"""

from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memories.models import AuditEvent, Channel, Message, Person, Reader
from tests.factories import (
    PASSWORD,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)

pytestmark = pytest.mark.django_db

WORD = "canaryyellow"
MIKA = "mika@example.com"
NEW = "a long word 7"


@pytest.fixture
def channel():
    workspace = WorkspaceFactory(slug="team")
    mika = PersonFactory(workspace=workspace, slack_id="U1", name="mika", email=MIKA)
    channel = ChannelFactory(workspace=workspace, kind="private", slack_id="G1", members=[mika])
    MessageFactory(channel=channel, text=f"{WORD} said")
    return channel


@pytest.fixture
def mika(channel):
    return Person.objects.get(slack_id="U1")


def reads(user):
    return Message.objects.visible_to(Reader.of(user)).filter(text__contains=WORD).exists()


def let_an_hour_pass():
    end = timezone.now() - timedelta(seconds=1)
    Person.objects.filter(link_valid_until__isnull=False).update(link_valid_until=end)


def page(row, name="change"):
    return reverse(f"admin:memories_{row._meta.model_name}_{name}", args=[row.pk])


def link(client, person, user, reason=""):
    """Post the form of the admin."""
    data = {"user": user.pk if user else "", "reason": reason}
    return client.post(page(person), data)


def set_password(client, user, **more):
    data = {"password1": NEW, "password2": NEW, "usable_password": "true", **more}
    return client.post(reverse("admin:auth_user_password_change", args=[user.pk]), data)


# -- addresses


@pytest.mark.parametrize("who", ["clerk", "operator"])
def test_an_address_cannot_be_marked_as_verified_in_the_admin(client, channel, mika, request, who):
    user = request.getfixturevalue(who)
    MemberFactory(workspace=channel.workspace, user=user, role="editor")
    client.force_login(user)
    data = {"user": user.pk, "email": MIKA, "verified": "on", "primary": "on"}
    add = reverse("admin:account_emailaddress_add")
    assert client.post(add, data).status_code == 403
    typed = EmailAddress.objects.create(user=user, email=MIKA, verified=False)
    for name in ("change", "delete"):
        path = reverse(f"admin:account_emailaddress_{name}", args=[typed.pk])
        assert client.post(path, {**data, "post": "yes"}).status_code in (302, 403)
    typed.refresh_from_db()
    mika.refresh_from_db()
    assert not typed.verified and mika.user is None and not reads(user)


# -- links by hand


def test_a_link_by_an_operator_needs_a_reason_and_opens_for_an_hour(client, mika, operator):
    user = UserFactory(username="other")
    response = link(client, mika, user)
    assert response.status_code == 200 and "Enter a reason" in response.content.decode()
    mika.refresh_from_db()
    assert mika.user is None
    assert link(client, mika, user, "a complaint").status_code == 302
    mika.refresh_from_db()
    assert reads(user) and mika.linked_by == ""
    assert timedelta() < mika.link_valid_until - timezone.now() <= timedelta(hours=1)
    event = AuditEvent.objects.get(action="person_link")
    assert (event.actor, event.workspace, event.subject) == ("boss", "team", "U1")
    until = mika.link_valid_until.isoformat()
    assert event.details == {
        "account": "other",
        "how": "operator",
        "reason": "a complaint",
        "until": until,
    }
    let_an_hour_pass()
    assert not reads(user)


def test_an_operator_who_links_a_person_and_back_leaves_no_access(client, mika, operator):
    """The first account loses its access too, because its proof was overwritten."""
    own = UserFactory()
    mika.link(own, "slack")
    assert reads(own)
    link(client, mika, operator, "to look")
    assert reads(operator) and not reads(own)
    link(client, mika, own, "back")
    assert not reads(operator)
    let_an_hour_pass()
    assert not reads(own) and not reads(operator)
    assert AuditEvent.objects.filter(action="person_link", actor="boss").count() == 2


def test_a_link_without_private_channels_needs_no_reason(client, channel, operator):
    ben = PersonFactory(workspace=channel.workspace, slack_id="U2")
    user = UserFactory()
    public = ChannelFactory(workspace=channel.workspace)
    assert link(client, ben, user).status_code == 302
    assert Channel.objects.visible_to(Reader.of(user)).get() == public
    channel.memberships.create(person=ben)
    assert not reads(user)


def test_another_reason_extends_the_access_by_an_hour(client, mika, operator):
    user = UserFactory()
    link(client, mika, user, "a complaint")
    let_an_hour_pass()
    link(client, mika, user, "it goes on")
    assert reads(user)
    assert AuditEvent.objects.filter(action="person_link").count() == 2


def test_staff_cannot_link_people(client, mika, clerk):
    MemberFactory(workspace=mika.workspace, user=clerk, role="admin")
    client.force_login(clerk)
    link(client, mika, clerk, "because")
    mika.refresh_from_db()
    assert mika.user is None and not reads(clerk)
    with pytest.raises(ValueError, match="operator"):
        mika.link(clerk, "", by=clerk, reason="because")


def test_the_database_refuses_a_link_without_proof_or_end(mika):
    with pytest.raises(IntegrityError), transaction.atomic():
        Person.objects.filter(pk=mika.pk).update(user=UserFactory())


# -- passwords


@pytest.mark.slow
def test_staff_cannot_set_passwords(client, mika, clerk):
    user = UserFactory(username="mika")
    mika.link(user, "slack")
    client.force_login(clerk)
    for target in (user, clerk):
        assert set_password(client, target).status_code == 403
    add = {"username": "new", "password1": NEW, "password2": NEW, "usable_password": "true"}
    assert client.post(reverse("admin:memories_user_add"), add).status_code == 403
    for name, value in (("username", "renamed"), ("email", MIKA), ("password", "md5$a$b")):
        client.post(page(clerk), {"username": "clerk", name: value})
    clerk.refresh_from_db()
    assert (clerk.username, clerk.email) == ("clerk", "") and clerk.check_password(PASSWORD)
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_a_password_by_an_operator_needs_a_reason_and_opens_for_an_hour(client, mika, operator):
    user = UserFactory(username="mika")
    EmailAddress.objects.create(user=user, email="other@example.com", verified=True)
    mika.link(user, "slack")
    response = set_password(client, user)
    assert response.status_code == 200 and "Enter a reason" in response.content.decode()
    assert set_password(client, user, reason="a complaint").status_code == 302
    user.refresh_from_db()
    assert user.check_password(NEW) and reads(user)
    event = AuditEvent.objects.get(action="password_given")
    assert (event.actor, event.subject) == ("boss", "mika")
    assert event.details == {"usable": True, "reason": "a complaint"}
    let_an_hour_pass()
    assert not reads(user)
    # After an unlink, an address that was verified earlier does not link the account again.
    link(client, mika, None)
    Person.objects.filter(pk=mika.pk).update(email="other@example.com")
    EmailAddress.objects.get().save()
    assert not reads(user)


def test_a_password_needs_no_reason_without_private_channels(client, channel, operator):
    user = UserFactory()
    PersonFactory(workspace=channel.workspace, user=user)
    assert set_password(client, user).status_code == 302
    assert AuditEvent.objects.get(action="password_given").details == {"usable": True}


def test_an_own_password_keeps_access(client, mika, operator):
    mika.link(operator, "slack")
    assert set_password(client, operator).status_code == 302
    operator.refresh_from_db()
    assert operator.password_set_at is None and reads(operator)


def test_removing_a_password_keeps_the_access_of_the_person(client, mika, operator):
    user = UserFactory(username="mika")
    mika.link(user, "slack")
    more = {"usable_password": "false", "unset-password": "1", "password1": "", "password2": ""}
    assert set_password(client, user, **more).status_code == 302
    user.refresh_from_db()
    assert not user.has_usable_password() and user.password_set_at is None and reads(user)
    assert AuditEvent.objects.get(action="password_given").details == {"usable": False}


@pytest.mark.slow
def test_the_person_is_informed_at_sign_in_and_chooses_a_password(client, mika, operator):
    user = UserFactory(username="mika")
    mika.link(user, "slack")
    set_password(client, user, reason="forgotten")
    browser = Client()
    response = browser.post("/login/", {"username": "mika", "password": NEW})
    assert response["Location"] == "/password/"
    for path in ("/password/", "/settings/", "/w/team/"):
        assert "An operator set your password on" in browser.get(path).content.decode()
    own = {"oldpassword": NEW, "password1": "my own word 8", "password2": "my own word 8"}
    browser.post("/password/", own)
    assert "An operator set" not in browser.get("/settings/").content.decode()
    assert AuditEvent.objects.filter(action="password_chosen", actor="mika").exists()
    let_an_hour_pass()
    assert not reads(user), "anybody who knew the first password could have chosen the new one"


def test_a_new_account_has_to_change_its_password(client, operator):
    data = {"username": "new", "password1": NEW, "password2": NEW, "usable_password": "true"}
    client.post(reverse("admin:memories_user_add"), data)
    response = Client().post("/login/", {"username": "new", "password": NEW})
    assert response["Location"] == "/password/"
