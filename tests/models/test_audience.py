"""Who may read what (docs/rules.md), as one table of readers over rows of every kind.

``home`` is an imported workspace, ``live`` one connected to Slack. Each has a public channel and
a memory and a note of its own; "unknown" is a private channel whose members nobody told, "stale"
a private one of ``live`` whose list of members is more than a day old.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser

from memories.models import (
    Channel,
    Generation,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Person,
    Reader,
    Segment,
    SlackConnection,
    Workspace,
)
from memories.rules.memory import MemoryType
from tests.factories import MONDAY as NOW
from tests.factories import (
    ChannelFactory,
    ChannelMemberFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_segment,
    make_version,
)

pytestmark = pytest.mark.django_db

DAY = timedelta(hours=24)
PUBLIC = {"public", "live-public"}
TEAM = {"home-team", "live-team"}  # what is of the workspace itself
PRIVATE = {"private", "live-private"}  # with known and fresh members


@dataclass(frozen=True)
class Role:
    """A user's account, the person it is linked to in both workspaces, its row as a member."""

    account: dict = field(default_factory=dict)
    person: dict | None = None
    in_channels: bool = False
    row: str = ""
    reads: frozenset | set = frozenset()


ROLES = {
    "outsider": Role(),
    "member by a person": Role(person={}, reads=PUBLIC | TEAM),
    "member in the channels": Role(person={}, in_channels=True, reads=PUBLIC | TEAM | PRIVATE),
    "guest in the channels": Role(
        person={"is_guest": True}, in_channels=True, reads=PUBLIC | PRIVATE
    ),
    "guest elsewhere": Role(person={"is_guest": True}),
    "external in the channels": Role(
        person={"is_external": True}, in_channels=True, reads=PUBLIC | PRIVATE
    ),
    "external elsewhere": Role(person={"is_external": True}),
    "in no list of people": Role(
        person={"is_placeholder": True}, in_channels=True, reads=PUBLIC | PRIVATE
    ),
    "deactivated in Slack": Role(person={"is_deleted": True}, in_channels=True),
    "account switched off": Role(account={"is_active": False}, person={}, in_channels=True),
    "member by a row": Role(row="member", reads=PUBLIC | TEAM),
    "editor by a row": Role(row="editor", reads=PUBLIC | TEAM),
    "workspace admin by a row": Role(row="admin", reads=PUBLIC | TEAM),
    "guest by a row": Role(row="guest"),
    "member by a row, left Slack": Role(
        row="member", person={"is_deleted": True}, in_channels=True
    ),
    "editor by a row, was a guest and left": Role(
        row="editor", person={"is_guest": True, "is_deleted": True}, in_channels=True
    ),
    "admin by a row, guest in Slack": Role(
        row="admin", person={"is_guest": True}, in_channels=True, reads=PUBLIC | PRIVATE
    ),
    "member by a row, external in Slack": Role(row="member", person={"is_external": True}),
    "member by a row, in no list of people": Role(row="member", person={"is_placeholder": True}),
    "guest by a row, member in Slack": Role(
        row="guest", person={}, in_channels=True, reads=PUBLIC | PRIVATE
    ),
    "staff": Role(account={"is_staff": True}),
    "operator": Role(account={"is_superuser": True}, reads=PUBLIC | TEAM),
    "operator with a person": Role(account={"is_superuser": True}, person={}, reads=PUBLIC | TEAM),
    "operator in the channels": Role(
        account={"is_superuser": True},
        person={},
        in_channels=True,
        reads=PUBLIC | TEAM | PRIVATE,
    ),
    "operator switched off": Role(account={"is_superuser": True, "is_active": False}),
}


def fill(channel):
    """One row of every kind that a channel can hold."""
    messages = [MessageFactory(channel=channel, author=None)]
    memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    make_version(memory=memory, segment=make_segment(messages=messages), sources=messages)
    Generation.objects.create(memory=memory, as_of_us=0, input_key=channel.name)
    NoteFactory(workspace=channel.workspace, channel=channel)


@pytest.fixture(params=["private", "mpim", "im"])
def closed_kind(request):
    return request.param


@pytest.fixture
def rows(closed_kind):
    """Channels by name, and two workspaces with something of their own."""
    home = WorkspaceFactory(slug="home")
    live = WorkspaceFactory(slug="live", connected_at=NOW)
    long_ago, lately, too_long_ago = NOW - 400 * DAY, NOW - DAY, NOW - DAY - timedelta(seconds=1)
    for workspace, name, kind, known in (
        (home, "public", "public", long_ago),
        (home, "private", closed_kind, long_ago),
        (home, "unknown", closed_kind, None),
        (live, "live-public", "public", lately),
        (live, "live-private", closed_kind, lately),
        (live, "stale", closed_kind, too_long_ago),
    ):
        fill(ChannelFactory(workspace=workspace, name=name, kind=kind, members_known_at=known))
    for workspace in (home, live):
        memory = Memory.objects.of_workspace(workspace, MemoryType.LONG_TERM)
        make_version(memory=memory)
        Generation.objects.create(memory=memory, as_of_us=0, input_key=workspace.slug)
        NoteFactory(workspace=workspace)
    return Channel.objects.all()


def reader_of(role):
    user = UserFactory(**role.account)
    for workspace in Workspace.objects.all():
        if role.person is not None:
            person = PersonFactory(workspace=workspace, user=user, **role.person)
            for channel in workspace.channels.all() if role.in_channels else ():
                known = channel.members_known_at
                ChannelMemberFactory(channel=channel, person=person)
                Channel.objects.filter(pk=channel.pk).update(members_known_at=known)
        if role.row:
            MemberFactory(workspace=workspace, user=user, role=role.row)
    return Reader.of(user, NOW)


KINDS = [
    (Channel, "name", None),
    (Message, "channel__name", None),
    (Segment, "channel__name", None),
    (Memory, "channel__name", "workspace__slug"),
    (MemoryVersion, "memory__channel__name", "memory__workspace__slug"),
    (Generation, "memory__channel__name", "memory__workspace__slug"),
    (Note, "channel__name", "workspace__slug"),
]


def check(reader, expected):
    """Rows are called by their channel, else by their workspace."""
    for model, channel, workspace in KINDS:
        values = model.objects.visible_to(reader).values_list(channel, workspace or "pk")
        seen = [name or f"{slug}-team" for name, slug in values]
        assert sorted(seen) == sorted(expected if workspace else expected - TEAM), model


@pytest.mark.parametrize("role", ROLES.values(), ids=list(ROLES))
def test_table(rows, role):
    check(reader_of(role), set(role.reads))


def test_the_public_reader_reads_what_is_public(rows):
    check(Reader.public(NOW), PUBLIC | TEAM)


@pytest.mark.parametrize("reader", [Reader.of(AnonymousUser(), NOW), Reader(now=NOW)])
def test_nobody_reads_nothing(rows, reader):
    check(reader, set())


def test_a_person_opens_the_own_workspace_only(rows):
    user = UserFactory()
    PersonFactory(workspace=Workspace.objects.get(slug="home"), user=user)
    check(Reader.of(user, NOW), {"public", "home-team"})


def test_of_two_persons_each_opens_what_it_may(rows):
    """One human may be two people: a guest here and somebody who left there."""
    user = UserFactory()
    for name, state in (("private", {"is_guest": True}), ("live-private", {"is_deleted": True})):
        channel = Channel.objects.get(name=name)
        person = PersonFactory(workspace=channel.workspace, user=user, **state)
        channel.memberships.create(person=person)
    check(Reader.of(user, NOW), {"private"})


def test_a_public_channel_of_unknown_members_is_closed_to_guests(rows):
    user = UserFactory()
    channel = Channel.objects.get(name="public")
    person = PersonFactory(workspace=channel.workspace, user=user, is_guest=True)
    channel.memberships.create(person=person)
    Channel.objects.filter(pk=channel.pk).update(members_known_at=None)
    check(Reader.of(user, NOW), set())


def test_memberships_of_a_connected_workspace_grow_old(rows):
    reader = reader_of(ROLES["member in the channels"])
    later = Reader(reader.user_id, now=NOW + timedelta(seconds=1))
    check(later, PUBLIC | TEAM | {"private"})


IMPORTED = {"public", "private", "home-team"}


@pytest.mark.parametrize("role", ["member in the channels", "operator in the channels"])
@pytest.mark.parametrize("state", ["revoked", "uninstalled"])
def test_when_slack_ends_the_connection_all_is_hidden_until_there_is_a_new_one(rows, role, state):
    reader = reader_of(ROLES[role])
    for workspace in Workspace.objects.all():  # of one that is not connected it means nothing
        connection = SlackConnection.objects.of(workspace)
        connection.keep_token("xoxb-1-abcd", by=None)
        connection.stops(state, "Slack says so.", NOW)
    check(reader, IMPORTED)
    check(Reader.public(NOW), {"public", "home-team"})
    for connection in SlackConnection.objects.all():
        connection.drop_token(by=None)
        check(reader, IMPORTED)
        connection.keep_token("xoxb-2-efgh", by=None)
        check(reader, IMPORTED)
        connection.was_checked(scopes=(), bot_id="", app_id="", now=NOW)
    check(reader, IMPORTED)
    for workspace in Workspace.objects.exclude(connected_at=None):
        workspace.has_been_listed(NOW)
    check(reader, PUBLIC | TEAM | PRIVATE)


@pytest.mark.parametrize("role", ["member in the channels", "operator in the channels"])
def test_lists_of_people_and_channels_grow_old_too(rows, role):
    """Somebody may have been deactivated since, or a channel closed."""
    reader = reader_of(ROLES[role])
    Channel.objects.exclude(members_known_at=None).update(members_known_at=NOW + 2 * DAY)
    check(
        Reader(reader.user_id, reader.is_operator, now=NOW + DAY),
        PUBLIC | TEAM | PRIVATE | {"stale"},
    )
    late = NOW + DAY + timedelta(seconds=1)
    check(Reader(reader.user_id, reader.is_operator, now=late), IMPORTED)
    check(Reader.public(late), {"public", "home-team"})
    Workspace.objects.filter(slug="live").update(listed_at=None)
    check(reader, IMPORTED)


def test_a_channel_of_unknown_kind_is_private():
    channel = Channel.objects.create(workspace=WorkspaceFactory(), slack_id="C1", name="new")
    assert not Channel.objects.visible_to(Reader.public(NOW)).exists()
    assert not Channel.objects.public().exists()
    assert not channel.is_public


ENTERED = {
    "outsider": set(),
    "guest elsewhere": {"home", "live"},
    "guest by a row": {"home", "live"},
    "member by a person": {"home", "live"},
    "member by a row": {"home", "live"},
    "deactivated in Slack": set(),
    "account switched off": set(),
    "operator": {"home", "live"},
    "operator switched off": set(),
}


@pytest.mark.parametrize("closed_kind", ["private"], indirect=True)
@pytest.mark.parametrize(("name", "expected"), ENTERED.items(), ids=list(ENTERED))
def test_workspaces_and_their_people(rows, name, expected):
    for slug in ("home", "live"):
        PersonFactory(workspace=Workspace.objects.get(slug=slug), name=f"somebody in {slug}")
    role = ROLES[name]
    reader = reader_of(role)
    assert {w.slug for w in Workspace.objects.entered_by(reader)} == expected
    assert {w.slug for w in Workspace.objects.visible_to(reader)} == (
        expected if role.reads else set()
    )
    people = Person.objects.visible_to(reader).filter(name__startswith="somebody")
    assert {person.name for person in people} == {f"somebody in {slug}" for slug in expected}


def test_nobody_enters_a_workspace_without_members():
    WorkspaceFactory()
    PersonFactory()
    assert not Workspace.objects.entered_by(Reader(now=NOW)).exists()
    assert not Person.objects.visible_to(Reader(now=NOW)).exists()


def test_two_ways_in_are_one_workspace():
    user = UserFactory()
    workspace = MemberFactory(user=user).workspace
    PersonFactory.create_batch(2, workspace=workspace, user=user)
    reader = Reader.of(user, NOW)
    assert [w.slug for w in Workspace.objects.visible_to(reader)] == [workspace.slug]
    assert [w.slug for w in Workspace.objects.entered_by(reader)] == [workspace.slug]
