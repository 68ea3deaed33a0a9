"""Tests of the audience rule in docs/rules.md: one table of readers over rows of every kind.

The rows belong to two workspaces: ``home`` is imported, ``live`` is connected to Slack. Each has a
memory and a note of its own, a public channel, and closed channels of every kind in two states.
``live-private-im`` is a direct message in ``live`` with a fresh list of members.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import EmptyResultSet

from memories.models import (
    Channel,
    Job,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Person,
    QuarantinedLine,
    Reader,
    Segment,
    SlackConnection,
    Workspace,
)
from memories.models.access import kept_sql
from memories.models.access.audience import (
    entered_workspaces,
    member_channels,
    read_once,
    readable_workspaces,
)
from memories.models.access.kept_sql import subquery
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY as NOW
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_job,
    make_segment,
    make_workspace_memory,
)

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("the rule of readers is SQL")]

DAY = timedelta(hours=24)
SECOND = timedelta(seconds=1)


def closed(state):
    """The names of the closed channels in this state, one of each kind."""
    return {f"{state}-{kind}" for kind in ("private", "mpim", "im")}


PUBLIC = {"public", "live-public"}
TEAM = {"home-team", "live-team"}  # rows of the workspaces themselves
PRIVATE = closed("private") | closed("live-private")  # the members are known
IMPORTED = {"public", "home-team"} | closed("private")


GUEST, EXTERNAL, UNLISTED = {"is_guest": True}, {"is_external": True}, {"is_placeholder": True}
LEFT, OFF, OPERATOR = {"is_deleted": True}, {"is_active": False}, {"is_superuser": True}


@dataclass(frozen=True)
class Role:
    """The fields of a user, of their person in both workspaces, and their role as a member."""

    reads: Set[str] = frozenset()
    account: dict = field(default_factory=dict)
    person: dict | None = None
    inside: bool = False  # a member of every channel
    row: str = ""


ROLES = {
    "outsider": Role(),
    "member by a person": Role(PUBLIC | TEAM, person={}),
    "member in the channels": Role(PUBLIC | TEAM | PRIVATE, person={}, inside=True),
    "guest in the channels": Role(PUBLIC | PRIVATE, person=GUEST, inside=True),
    "guest elsewhere": Role(person=GUEST),
    "external in the channels": Role(PUBLIC | PRIVATE, person=EXTERNAL, inside=True),
    "external elsewhere": Role(person=EXTERNAL),
    "in no list of people": Role(PUBLIC | PRIVATE, person=UNLISTED, inside=True),
    "deactivated in Slack": Role(person=LEFT, inside=True),
    "account switched off": Role(account=OFF, person={}, inside=True),
    "member by a row": Role(PUBLIC | TEAM, row="member"),
    "editor by a row": Role(PUBLIC | TEAM, row="editor"),
    "workspace admin by a row": Role(PUBLIC | TEAM, row="admin"),
    "guest by a row": Role(row="guest"),
    "member by a row, left Slack": Role(row="member", person=LEFT, inside=True),
    "editor by a row, was a guest and left": Role(row="editor", person=GUEST | LEFT, inside=True),
    "admin by a row, guest in Slack": Role(
        PUBLIC | PRIVATE, row="admin", person=GUEST, inside=True
    ),
    "member by a row, external in Slack": Role(row="member", person=EXTERNAL),
    "member by a row, in no list of people": Role(row="member", person=UNLISTED),
    "guest by a row, member in Slack": Role(PUBLIC | PRIVATE, row="guest", person={}, inside=True),
    "staff": Role(account={"is_staff": True}),
    "operator": Role(PUBLIC | TEAM, account=OPERATOR),
    "operator with a person": Role(PUBLIC | TEAM, account=OPERATOR, person={}),
    "operator in the channels": Role(
        PUBLIC | TEAM | PRIVATE, account=OPERATOR, person={}, inside=True
    ),
    "operator who left Slack": Role(PUBLIC | TEAM, account=OPERATOR, person=LEFT, inside=True),
    "operator switched off": Role(account=OPERATOR | OFF),
}
IN_THE_CHANNELS = ("member in the channels", "operator in the channels")


@pytest.fixture
def rows():
    """Two workspaces with one row of every kind in every channel, and in the workspace itself."""
    home = WorkspaceFactory(slug="home")
    live = WorkspaceFactory(slug="live", connected_at=NOW)
    states = {
        "private": (home, NOW - 400 * DAY),
        "unknown": (home, None),
        "live-private": (live, NOW - DAY),
        "stale": (live, NOW - DAY - SECOND),
    }
    places = [(name, state, name.rpartition("-")[2]) for state in states for name in closed(state)]
    places += [("public", "private", "public"), ("live-public", "live-private", "public")]
    for name, state, kind in places:
        workspace, known_at = states[state]
        channel = ChannelFactory(
            workspace=workspace, name=name, kind=kind, members_known_at=known_at
        )
        make_segment(messages=[MessageFactory(channel=channel, author=None)])
        make_job(memory=make_channel_memory(channel=channel))
        NoteFactory(workspace=workspace, channel=channel)
    for workspace in (home, live):
        make_job(memory=make_workspace_memory(workspace=workspace))
        NoteFactory(workspace=workspace)


def reader_of(role):
    user = UserFactory(**role.account)
    for workspace in Workspace.objects.all():
        if role.person is not None:
            person = PersonFactory(workspace=workspace, user=user, **role.person)
            for channel in workspace.channels.all() if role.inside else ():
                channel.memberships.create(person=person)
        if role.row:
            MemberFactory(workspace=workspace, user=user, role=role.row)
    return Reader.of(user, NOW)


KINDS = [
    (Channel, "name", None),
    (Message, "channel__name", None),
    (Segment, "channel__name", None),
    (Memory, "channel__name", "workspace__slug"),
    (MemoryVersion, "memory__channel__name", "memory__workspace__slug"),
    (Job, "memory__channel__name", "memory__workspace__slug"),
    (Note, "channel__name", "workspace__slug"),
]


def reads(reader):
    """For each model the channel's name, else the workspace's, of every row that the reader reads."""
    return {
        model.__name__: sorted(
            name or f"{slug}-team"
            for name, slug in model.objects.visible_to(reader).values_list(
                channel, workspace or "pk"
            )
        )
        for model, channel, workspace in KINDS
    }


def all_of(names):
    """Return what `reads` returns for a reader of these channels and workspaces."""
    return {
        model.__name__: sorted(names if workspace else names - TEAM)
        for model, _, workspace in KINDS
    }


@pytest.mark.slow
def test_table(rows):
    """All roles are read beside each other: no reader depends on who else there is."""
    readers = {name: reader_of(role) for name, role in ROLES.items()}
    readers["public only"] = Reader.public(NOW)
    readers["anonymous"] = Reader.of(AnonymousUser(), NOW)
    readers["nobody"] = Reader(now=NOW)
    expected = {name: role.reads for name, role in ROLES.items()}
    expected |= {"public only": PUBLIC | TEAM, "anonymous": set(), "nobody": set()}
    for read in (reads, lambda reader: reads(read_once(reader))):
        assert {name: read(reader) for name, reader in readers.items()} == {
            name: all_of(names) for name, names in expected.items()
        }


def test_a_person_opens_the_own_workspace_only(rows):
    user = UserFactory()
    PersonFactory(workspace=Workspace.objects.get(slug="home"), user=user)
    assert reads(Reader.of(user, NOW)) == all_of({"public", "home-team"})


def test_each_linked_person_opens_only_its_own_channels(rows):
    """A user may be linked to two people: a guest in one workspace and a deleted person in
    another.
    """
    user = UserFactory()
    for state, person in (("private", {"is_guest": True}), ("live-private", {"is_deleted": True})):
        for channel in Channel.objects.filter(name__in=closed(state)):
            known_as = PersonFactory(workspace=channel.workspace, user=user, **person)
            channel.memberships.create(person=known_as)
    assert reads(Reader.of(user, NOW)) == all_of(closed("private"))


def test_a_public_channel_of_unknown_members_is_closed_to_guests(rows):
    user = UserFactory()
    channel = Channel.objects.get(name="public")
    person = PersonFactory(workspace=channel.workspace, user=user, is_guest=True)
    channel.memberships.create(person=person)
    assert reads(Reader.of(user, NOW)) == all_of({"public"})
    Channel.objects.filter(pk=channel.pk).update(members_known_at=None)
    assert reads(Reader.of(user, NOW)) == all_of(set())


def test_memberships_of_a_connected_workspace_grow_old(rows):
    reader = reader_of(ROLES["member in the channels"])
    later = Reader(reader.user_id, now=NOW + SECOND)
    assert reads(later) == all_of(PUBLIC | TEAM | closed("private"))


@pytest.mark.slow
@pytest.mark.parametrize("state", ["revoked", "uninstalled"])
def test_channels_are_hidden_until_slack_is_connected_again(rows, state):
    readers = [reader_of(ROLES[role]) for role in IN_THE_CHANNELS]

    def check(expected):
        assert [reads(reader) for reader in readers] == [all_of(expected)] * 2
        assert reads(Reader.public(NOW)) == all_of(expected - PRIVATE)

    for workspace in Workspace.objects.all():  # of one that is not connected it means nothing
        connection = SlackConnection.objects.of(workspace)
        connection.set_token("xoxb-1-abcd", by=None)
        connection.stop(state, "Slack says so.", NOW)
    check(IMPORTED)
    for connection in SlackConnection.objects.all():
        connection.remove_token(by=None)
        check(IMPORTED)
        connection.set_token("xoxb-2-efgh", by=None)
        check(IMPORTED)
        connection.record_check(scopes=(), bot_id="", app_id="", now=NOW)
    check(IMPORTED)
    for workspace in Workspace.objects.exclude(connected_at=None):
        workspace.mark_listed(NOW)
    check(PUBLIC | TEAM | PRIVATE)


@pytest.mark.slow
@pytest.mark.parametrize("role", IN_THE_CHANNELS)
def test_lists_of_people_and_channels_grow_old_too(rows, role):
    """A person may have been deactivated since, or a channel made private."""
    reader = reader_of(ROLES[role])
    Channel.objects.exclude(members_known_at=None).update(members_known_at=NOW + 2 * DAY)
    in_time = Reader(reader.user_id, reader.is_operator, now=NOW + DAY)
    assert reads(in_time) == all_of(PUBLIC | TEAM | PRIVATE | closed("stale"))
    late = NOW + DAY + SECOND
    assert reads(Reader(reader.user_id, reader.is_operator, now=late)) == all_of(IMPORTED)
    assert reads(Reader.public(late)) == all_of({"public", "home-team"})
    Workspace.objects.filter(slug="live").update(listed_at=None)
    assert reads(reader) == all_of(IMPORTED)


def test_a_channel_of_unknown_kind_is_private():
    channel = Channel.objects.create(workspace=WorkspaceFactory(), slack_id="C1", name="new")
    assert not Channel.objects.visible_to(Reader.public(NOW)).exists()
    assert not Channel.objects.public().exists()
    assert not channel.is_public


@pytest.mark.parametrize(
    "rests_on", ["nothing", "segment", "thread", "input", "base", "version", "provisional"]
)
def test_a_job_that_rests_on_private_words_is_for_members(rests_on):
    person = PersonFactory(user=UserFactory())
    channel = ChannelFactory(workspace=person.workspace, kind="public", members=[person])
    message = MessageFactory(channel=channel, was_private=True, ts="1.000000", thread_ts="1.000000")
    for_members = make_channel_memory(channel=channel).current
    MemoryVersion.objects.update(audience="members")
    memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    if rests_on == "thread":
        memory = Memory.objects.of_thread(channel, message.ts)
    given = {
        "segment": {"segment": make_segment(messages=[message])},
        "input": {"inputs": [for_members]},
        "base": {"base": for_members},
        "provisional": {"provisional": True},
    }
    job = make_job(memory=memory, **given.get(rests_on, {}))
    if rests_on == "version":
        MemoryVersion.objects.update(job=job)
    assert Job.objects.visible_to(Reader.of(person.user, NOW)).exists()
    assert Job.objects.visible_to(Reader.public(NOW)).exists() is (rests_on == "nothing")


def test_a_quarantined_line_is_visible_to_readers_of_its_job():
    channel = ChannelFactory(kind="public")
    memory = make_channel_memory(channel=channel)
    private = make_segment(messages=[MessageFactory(channel=channel, was_private=True)])
    job = make_job(memory=memory, segment=private)
    for text, made_by in (("of a private job", job), ("of no job", None)):
        QuarantinedLine.objects.create(memory=memory, job=made_by, text=text, rule="link")
    lines = QuarantinedLine.objects.visible_to(Reader.public(NOW))
    assert [line.text for line in lines] == ["of no job"]


ENTERS = {"guest elsewhere", "guest by a row", "member by a person", "member by a row", "operator"}
STAYS_OUT = {"outsider", "deactivated in Slack", "account switched off", "operator switched off"}
STAYS_OUT |= {"member by a row, left Slack"}


@pytest.mark.slow
def test_workspaces_and_their_people():
    everywhere = {"home", "live"}
    for slug in everywhere:
        workspace = WorkspaceFactory(slug=slug, connected_at=NOW if slug == "live" else None)
        PersonFactory(workspace=workspace, name=f"somebody in {slug}")
    for name in ENTERS | STAYS_OUT:
        reader = reader_of(ROLES[name])
        expected = everywhere if name in ENTERS else set()
        entered = entered_workspaces(reader).values_list("slug", flat=True)
        assert sorted(entered) == sorted(expected), name
        visible = Workspace.objects.visible_to(reader).values_list("slug", flat=True)
        assert sorted(visible) == sorted(expected if ROLES[name].reads else ()), name
        people = Person.objects.visible_to(reader).filter(name__startswith="somebody")
        assert {person.workspace.slug for person in people} == expected, name


def test_a_workspace_without_members_is_closed():
    WorkspaceFactory()
    PersonFactory()
    assert not entered_workspaces(Reader(now=NOW)).exists()
    assert not Person.objects.visible_to(Reader(now=NOW)).exists()


def test_a_member_with_linked_people_sees_a_workspace_once():
    user = UserFactory()
    workspace = MemberFactory(user=user).workspace
    PersonFactory.create_batch(2, workspace=workspace, user=user)
    reader = Reader.of(user, NOW)
    assert [w.slug for w in Workspace.objects.visible_to(reader)] == [workspace.slug]
    assert [w.slug for w in entered_workspaces(reader)] == [workspace.slug]


def test_a_reader_that_has_read_its_rights_uses_no_others(django_assert_num_queries):
    user = UserFactory(is_superuser=True)
    channel = ChannelFactory(kind=Channel.Kind.PRIVATE, members_known_at=NOW)
    channel.access_grants.create(user=user, until=NOW + DAY)
    reader = read_once(Reader.of(user, NOW))
    assert dict(reader.prefetched_keys)[member_channels] == (channel.pk,)
    with django_assert_num_queries(0):
        assert subquery(member_channels, reader) == (channel.pk,)
    assert list(Channel.objects.visible_to(reader)) == [channel]
    assert not Channel.objects.visible_to(reader.without_operator_rights()).exists()


def test_many_keys_are_not_read(monkeypatch, rows):
    monkeypatch.setattr(kept_sql, "MAX_KEYS", 2)
    reader = Reader.public(NOW)
    assert len(readable_workspaces(reader)) >= 2
    once = read_once(reader)
    assert readable_workspaces not in dict(once.prefetched_keys)
    assert reads(once) == reads(reader)


@pytest.mark.parametrize(
    "rows",
    [
        member_channels,
        readable_workspaces,
        Channel.objects.visible_to,
        Workspace.objects.visible_to,
        Job.objects.visible_to,
    ],
    ids=lambda rows: rows.__qualname__,
)
def test_a_cached_subquery_has_its_own_reader_and_time(rows):
    readers = [
        Reader(7, now=NOW),
        Reader(8, now=NOW),
        Reader(7, now=NOW + 3 * DAY),
        Reader(7, is_operator=True, now=NOW),
        Reader(7, key_id=5, is_narrowed=True, now=NOW),
        Reader.public(NOW),
    ]
    for reader in readers:
        kept = subquery(rows, reader)
        try:
            query = rows(reader).order_by().values("pk").query.sql_with_params()
        except EmptyResultSet:
            assert kept == ()
        else:
            assert (kept.sql, tuple(kept.params)) == query
