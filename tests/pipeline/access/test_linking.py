"""Accounts become people by addresses that were verified, and stop being them with the address."""

import pytest
from allauth.account.models import EmailAddress
from django.utils import timezone

from memories.models import AuditEvent, Channel, Person, Reader
from memories.pipeline.ingest.roster import store_people
from tests.factories import ChannelFactory, PersonFactory, UserFactory, WorkspaceFactory

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


@pytest.mark.parametrize("what", [{"profile": {"email": "o@example.com"}}, {"deleted": True}])
def test_the_link_ends_with_the_address_in_slack(team, what):
    raw = {"id": "U1", "name": "mika", "team_id": "T1", "profile": {"email": MIKA}}
    store_people(team, [raw])
    person = Person.objects.get()
    user = verified()
    assert owner(person) == user
    store_people(team, [raw | what])
    assert owner(person) is None


@pytest.mark.parametrize("listed", [True, False])
def test_only_slacks_own_list_links_by_an_address(team, listed):
    """This applies after a connection. The address in an export may belong to another person by
    now.
    """
    team.connect("T1", name="", domain="", now=timezone.now())
    team.change_settings({"read_emails": True})
    user = verified()
    raws = [{"id": "U1", "name": "mika", "team_id": "T1", "profile": {"email": MIKA}}]
    if listed:
        PersonFactory(workspace=team, slack_id="U1", email="mine@example.com")
    store_people(team, raws)
    person = Person.objects.get()
    assert (owner(person), person.email) == (None, "")
    store_people(team, raws, live=True)
    assert owner(person) == user
    store_people(team, raws)
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
    raws = [{"id": "U1", "name": "mika", "team_id": "T1", "profile": {"email": MIKA}}]
    store_people(team, raws, live=listed)
    assert owner(person) == user
    assert Channel.objects.visible_to(Reader.of(user)).filter(pk=closed.pk).exists() is listed
