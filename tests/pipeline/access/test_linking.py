"""Accounts become people by addresses that were verified, and stop being them with the address."""

import pytest
from allauth.account.models import EmailAddress
from django.utils import timezone

from memories.models import AuditEvent, Channel, Person, Reader
from memories.models.access.audience import entered_workspaces
from memories.pipeline.ingest.roster import demote_unlisted_people, store_people
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)

pytestmark = pytest.mark.django_db

MIKA = "mika@example.com"


@pytest.fixture
def team():
    return WorkspaceFactory(team_id="T1")


def verified(user=None, email=MIKA, **given):
    user = user or UserFactory()
    EmailAddress.objects.create(user=user, email=email, **{"verified": True} | given)
    return user


def owner(person):
    person.refresh_from_db()
    return person.user


@pytest.mark.parametrize("order", ["person first", "account first"])
def test_a_verified_address_links(team, order):
    """Whatever its case, and whichever came first."""
    if order == "person first":
        person = PersonFactory(workspace=team, email="Mika@Example.com")
        user = verified()
    else:
        user = verified()
        profile = {"email": "Mika@Example.com"}
        store_people(team, [{"id": "U1", "name": "mika", "team_id": "T1", "profile": profile}])
        person = Person.objects.get()
    assert owner(person) == user and person.linked_by == "email"
    event = AuditEvent.objects.get(action="person_link")
    assert event.details == {"account": user.username, "how": "email"}


@pytest.mark.parametrize(
    "who",
    [{"is_external": True}, {"is_bot": True}, {"is_deleted": True}, {"is_placeholder": True}],
    ids=str,
)
def test_guests_bots_and_deleted_people_are_not_linked(team, who):
    person = PersonFactory(workspace=team, email=MIKA, **who)
    verified()
    assert owner(person) is None


def test_an_unverified_address_links_no_person(team):
    person = PersonFactory(workspace=team, email=MIKA)
    user = verified(verified=False)
    user.email = MIKA
    user.save()
    assert owner(person) is None
    EmailAddress.objects.get().set_verified()
    assert owner(person) == user


def test_an_inactive_account_is_not_linked(team):
    person = PersonFactory(workspace=team, email=MIKA)
    verified(UserFactory(is_active=False))
    assert owner(person) is None


def test_a_blank_address_links_no_person(team):
    person = PersonFactory(workspace=team, email="")
    verified(email="other@example.com")
    assert owner(person) is None


@pytest.mark.parametrize("what", ["deleted", "changed", "unverified"])
def test_the_link_ends_with_the_address_of_the_account(team, what):
    person = PersonFactory(workspace=team, email=MIKA)
    user = verified()
    address = EmailAddress.objects.get()
    if what == "deleted":
        address.delete()
    else:
        address.email = "other@example.com" if what == "changed" else address.email
        address.verified = what != "unverified"
        address.save()
    assert owner(person) is None and person.linked_by == ""
    assert AuditEvent.objects.filter(action="person_link").count() == 2
    assert user.people.count() == 0


RAW = {"id": "U1", "name": "mika", "team_id": "T1", "profile": {"email": MIKA}}


def test_the_link_ends_with_the_address_in_slack(team):
    store_people(team, [RAW])
    person = Person.objects.get()
    user = verified()
    assert owner(person) == user
    store_people(team, [RAW | {"profile": {"email": "o@example.com"}}])
    assert owner(person) is None


@pytest.mark.parametrize("email", [MIKA, ""])
@pytest.mark.parametrize(
    ("what", "role"),
    [
        ({"deleted": True}, ""),
        ({"team_id": "T2"}, "guest"),
        ({"is_restricted": True}, "guest"),
        ({"left out": True}, "guest"),
    ],
    ids=str,
)
def test_a_restriction_in_slack_outlasts_a_given_role(team, what, role, email):
    """The link is kept, because the hub learns of the restriction through it."""
    team.connect("T1", name="", domain="", now=timezone.now())
    team.mark_listed(timezone.now())
    team.change_settings({"read_emails": True})
    user = verified()
    store_people(team, [RAW], live=True)
    person = Person.objects.get()
    public = ChannelFactory(workspace=team)
    private = ChannelFactory(workspace=team, kind="private", members=[person])
    private.set_members_known(timezone.now())
    MemberFactory(workspace=team, user=user, role="admin")

    def access():
        reader = Reader.of(user)
        return team.role_of(reader), set(Channel.objects.visible_to(reader))

    assert access() == ("admin", {public, private})
    if what == {"left out": True}:
        demote_unlisted_people(team, [])
        Person.objects.update(email=email)
        store_people(team, [], live=True)
    else:
        store_people(team, [RAW | what | {"profile": {"email": email}}], live=True)
    assert owner(person) == user
    reads_private = email and role
    assert access() == (role, {private} if reads_private else set())
    assert entered_workspaces(Reader.of(user)).exists() is bool(role)


@pytest.mark.parametrize("email", [MIKA, ""])
def test_a_person_who_is_active_again_has_the_role_again(team, email):
    team.connect("T1", name="", domain="", now=timezone.now())
    team.mark_listed(timezone.now())
    team.change_settings({"read_emails": True})
    user = verified()
    MemberFactory(workspace=team, user=user, role="admin")
    store_people(team, [RAW], live=True)
    store_people(team, [RAW | {"deleted": True, "profile": {"email": email}}], live=True)
    assert team.role_of(Reader.of(user)) == ""
    store_people(team, [RAW], live=True)
    person = Person.objects.get()
    assert (person.user, person.link_valid_until) == (user, None)
    assert team.role_of(Reader.of(user)) == "admin"


@pytest.mark.parametrize("listed", [True, False])
def test_only_slacks_own_list_links_by_an_address(team, listed):
    """This applies after a connection. The address in an export may belong to another person by
    now.
    """
    team.connect("T1", name="", domain="", now=timezone.now())
    team.change_settings({"read_emails": True})
    user = verified()
    if listed:
        PersonFactory(workspace=team, slack_id="U1", email="mine@example.com")
    store_people(team, [RAW])
    person = Person.objects.get()
    assert (owner(person), person.email) == (None, "")
    store_people(team, [RAW], live=True)
    assert owner(person) == user
    store_people(team, [RAW])
    assert owner(person) == user


def test_an_operators_word_stays(team):
    user = verified()
    person = PersonFactory(workspace=team, email="other@example.com", user=user)
    store_people(team, [{"id": person.slack_id, "name": "x", "profile": {"email": "third@x.org"}}])
    assert owner(person) == user
    second = PersonFactory(workspace=team, email=MIKA, user=UserFactory())
    EmailAddress.objects.get().save()
    assert owner(second) != user


@pytest.mark.parametrize("listed", [True, False])
def test_an_address_opens_private_channels_only_where_slack_lists_it(team, listed):
    """The importer of an export may have written their own address beside another name."""
    if listed:
        team.connect("T1", name="", domain="", now=timezone.now())
        team.mark_listed(timezone.now())
        team.change_settings({"read_emails": True})
    user = verified()
    person = PersonFactory(workspace=team, slack_id="U1", email="other@example.com")
    closed = ChannelFactory(workspace=team, kind="private", members=[person])
    closed.set_members_known(timezone.now())
    store_people(team, [RAW], live=listed)
    assert owner(person) == user
    assert Channel.objects.visible_to(Reader.of(user)).filter(pk=closed.pk).exists() is listed
