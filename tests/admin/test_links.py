"""Who an account is in Slack: an operator's word opens private channels for an hour, with a reason and
on the record; a login with Slack opens them for good. Nothing in the admin is a way round."""

from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import Permission
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


@pytest.fixture
def operator(client):
    user = UserFactory(is_superuser=True, is_staff=True, username="op")
    client.force_login(user)
    return user


@pytest.fixture
def clerk():
    """Staff with every right of Django's, and an editor in the workspace."""
    user = UserFactory(is_staff=True, username="clerk")
    user.user_permissions.set(Permission.objects.all())
    return user


def reads(user):
    return Message.objects.visible_to(Reader.of(user)).filter(text__contains=WORD).exists()


def an_hour_passes():
    end = timezone.now() - timedelta(seconds=1)
    Person.objects.filter(opens_until__isnull=False).update(opens_until=end)


def page(row, name="change"):
    return reverse(f"admin:memories_{row._meta.model_name}_{name}", args=[row.pk])


def link(client, person, user, reason=""):
    """The admin's form, as a browser sends it."""
    data = {"user": user.pk if user else "", "reason": reason}
    return client.post(page(person), data)


def give(client, user, **more):
    data = {"password1": NEW, "password2": NEW, "usable_password": "true", **more}
    return client.post(reverse("admin:auth_user_password_change", args=[user.pk]), data)


# -- addresses


@pytest.mark.parametrize("who", ["clerk", "operator"])
def test_nobody_says_that_an_address_is_verified(client, channel, mika, request, who):
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


def test_a_link_by_hand_opens_for_an_hour_with_a_reason_on_the_record(client, mika, operator):
    other = UserFactory(username="other")
    answer = link(client, mika, other)
    assert answer.status_code == 200 and "Say why" in answer.content.decode()
    mika.refresh_from_db()
    assert mika.user is None
    assert link(client, mika, other, "a complaint").status_code == 302
    mika.refresh_from_db()
    assert reads(other) and mika.linked_by == ""
    assert timedelta() < mika.opens_until - timezone.now() <= timedelta(hours=1)
    event = AuditEvent.objects.get(action="person_link")
    assert (event.actor, event.workspace, event.subject) == ("op", "team", "U1")
    until = mika.opens_until.isoformat()
    assert event.details == {
        "account": "other",
        "how": "operator",
        "reason": "a complaint",
        "until": until,
    }
    an_hour_passes()
    assert not reads(other)


def test_linked_to_oneself_and_back_leaves_nothing_open(client, mika, operator):
    """Nor does the person read on by a proof that the operator has overwritten."""
    own = UserFactory()
    mika.link(own, "slack")
    assert reads(own)
    link(client, mika, operator, "to look")
    assert reads(operator) and not reads(own)
    link(client, mika, own, "back")
    assert not reads(operator)
    an_hour_passes()
    assert not reads(own) and not reads(operator)
    assert AuditEvent.objects.filter(action="person_link", actor="op").count() == 2


def test_a_person_in_no_private_channel_needs_no_reason_and_opens_none_later(
    client, channel, operator
):
    ben = PersonFactory(workspace=channel.workspace, slack_id="U2")
    other = UserFactory()
    public = ChannelFactory(workspace=channel.workspace)
    assert link(client, ben, other).status_code == 302
    assert Channel.objects.visible_to(Reader.of(other)).get() == public
    channel.memberships.create(person=ben)
    assert not reads(other)


def test_another_reason_opens_for_another_hour(client, mika, operator):
    other = UserFactory()
    link(client, mika, other, "a complaint")
    an_hour_passes()
    link(client, mika, other, "it goes on")
    assert reads(other)
    assert AuditEvent.objects.filter(action="person_link").count() == 2


def test_staff_link_nobody(client, mika, clerk):
    MemberFactory(workspace=mika.workspace, user=clerk, role="admin")
    client.force_login(clerk)
    link(client, mika, clerk, "because")
    mika.refresh_from_db()
    assert mika.user is None and not reads(clerk)
    with pytest.raises(ValueError, match="operator"):
        mika.link(clerk, "", by=clerk, reason="because")


def test_no_row_is_linked_past_the_rule(mika):
    """By whatever code: the database refuses a link that is neither proven nor ends."""
    with pytest.raises(IntegrityError), transaction.atomic():
        Person.objects.filter(pk=mika.pk).update(user=UserFactory())


# -- passwords


def test_staff_set_nobodys_password(client, mika, clerk):
    user = UserFactory(username="mika")
    mika.link(user, "slack")
    client.force_login(clerk)
    for target in (user, clerk):
        assert give(client, target).status_code == 403
    add = {"username": "new", "password1": NEW, "password2": NEW, "usable_password": "true"}
    assert client.post(reverse("admin:memories_user_add"), add).status_code == 403
    for name, value in (("username", "renamed"), ("email", MIKA), ("password", "md5$a$b")):
        client.post(page(clerk), {"username": "clerk", name: value})
    clerk.refresh_from_db()
    assert (clerk.username, clerk.email) == ("clerk", "") and clerk.check_password(PASSWORD)
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_a_password_by_an_operator_opens_for_an_hour_with_a_reason(client, mika, operator):
    user = UserFactory(username="mika")
    EmailAddress.objects.create(user=user, email="other@example.com", verified=True)
    mika.link(user, "slack")
    answer = give(client, user)
    assert answer.status_code == 200 and "Say why" in answer.content.decode()
    assert give(client, user, reason="a complaint").status_code == 302
    user.refresh_from_db()
    assert user.check_password(NEW) and reads(user)
    event = AuditEvent.objects.get(action="password_given")
    assert (event.actor, event.subject) == ("op", "mika")
    assert event.details == {"usable": True, "reason": "a complaint"}
    an_hour_passes()
    assert not reads(user)
    # Unlinked by hand, the account is not the person again by an address that it once proved.
    link(client, mika, None)
    Person.objects.filter(pk=mika.pk).update(email="other@example.com")
    EmailAddress.objects.get().save()
    assert not reads(user)


def test_without_private_channels_no_reason_is_asked(client, channel, operator):
    user = UserFactory()
    PersonFactory(workspace=channel.workspace, user=user)
    assert give(client, user).status_code == 302
    assert AuditEvent.objects.get(action="password_given").details == {"usable": True}


def test_ones_own_password_closes_nothing(client, mika, operator):
    mika.link(operator, "slack")
    assert give(client, operator).status_code == 302
    operator.refresh_from_db()
    assert operator.password_given_at is None and reads(operator)


def test_taking_a_password_away_lets_nobody_in(client, mika, operator):
    user = UserFactory(username="mika")
    mika.link(user, "slack")
    more = {"usable_password": "false", "unset-password": "1", "password1": "", "password2": ""}
    assert give(client, user, **more).status_code == 302
    user.refresh_from_db()
    assert not user.has_usable_password() and user.password_given_at is None and reads(user)
    assert AuditEvent.objects.get(action="password_given").details == {"usable": False}


@pytest.mark.slow
def test_the_person_is_told_at_the_next_sign_in_and_chooses_their_own(client, mika, operator):
    user = UserFactory(username="mika")
    mika.link(user, "slack")
    give(client, user, reason="forgotten")
    browser = Client()
    answer = browser.post("/login/", {"username": "mika", "password": NEW})
    assert answer["Location"] == "/password/"
    for path in ("/password/", "/settings/", "/w/team/"):
        assert "An operator set your password on" in browser.get(path).content.decode()
    own = {"oldpassword": NEW, "password1": "my own word 8", "password2": "my own word 8"}
    browser.post("/password/", own)
    assert "An operator set" not in browser.get("/settings/").content.decode()
    assert AuditEvent.objects.filter(action="password_chosen", actor="mika").exists()
    an_hour_passes()
    assert not reads(user), "whoever knew the given password could have chosen one"


def test_an_account_made_with_a_password_is_asked_too(client, operator):
    data = {"username": "new", "password1": NEW, "password2": NEW, "usable_password": "true"}
    client.post(reverse("admin:memories_user_add"), data)
    answer = Client().post("/login/", {"username": "new", "password": NEW})
    assert answer["Location"] == "/password/"
