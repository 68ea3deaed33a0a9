"""A workspace with a public and a private channel, and readers of every role."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memories.models import Channel, Memory, Message, Person, User, Workspace
from memories.rules.memory.identity import MemoryType
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_segment,
    make_version,
)


@dataclass
class Cast:
    """``editor`` edits; ``member`` reads what is public; ``insider`` is in the private channel and
    edits; ``guest`` is in the public channel only; ``outsider`` has nothing to do with the team;
    ``operator`` runs everything and belongs to nothing."""

    workspace: Workspace
    public: Channel
    private: Channel
    messages: list[Message]
    memory: Memory
    private_memory: Memory
    author: Person
    users: dict[str, User]
    clients: dict[str, Client]

    def path(self, suffix: str = "") -> str:
        return f"/w/{self.workspace.slug}/{suffix}"


def assert_same_queries(
    grow: Callable[[int], object], look: Callable[[], object], sizes: tuple[int, int] = (10, 100)
) -> None:
    """Look after ``grow`` has added some rows, and after it has added more."""
    counts = []
    for size in sizes:
        grow(size)
        with CaptureQueriesContext(connection) as queries:
            look()
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.fixture(scope="module", autouse=True)
def cast_from_the_start(request: pytest.FixtureRequest) -> None:
    """Create the workspace before the first test of a module that uses it."""
    items = (
        item for item in request.session.items if item.getparent(pytest.Module) is request.node
    )
    if any("cast" in getattr(item, "fixturenames", ()) for item in items):
        request.getfixturevalue("shared_cast")


@pytest.fixture
def cast(shared_cast: Cast, db: None) -> Cast:
    """Return the workspace of the module, with objects and clients of the test."""
    return copy.deepcopy(shared_cast)


@pytest.fixture(scope="module")
def shared_cast(module_transaction: None) -> Cast:
    workspace = WorkspaceFactory(slug="team", name="The team", domain="team")
    people = {name: PersonFactory(workspace=workspace, name=name) for name in ("mika", "tom")}
    visitor = PersonFactory(workspace=workspace, name="visitor", is_guest=True)
    users = {
        name: UserFactory(username=name)
        for name in ("editor", "member", "insider", "guest", "outsider")
    }
    users["operator"] = UserFactory(username="operator", is_superuser=True, is_staff=True)
    MemberFactory(workspace=workspace, user=users["editor"], role="editor")
    MemberFactory(workspace=workspace, user=users["insider"], role="admin")
    for name, person in (("member", people["mika"]), ("insider", people["tom"])):
        person.link(users[name], "slack")
    visitor.link(users["guest"], "slack")
    public = ChannelFactory(
        workspace=workspace, slack_id="C0PUBLIC", name="launch", members=[visitor]
    )
    private = ChannelFactory(
        workspace=workspace,
        slack_id="C0PRIVATE",
        name="salaries",
        kind=Channel.Kind.PRIVATE,
        members=[people["tom"]],
    )
    messages = [
        MessageFactory(
            channel=public,
            author=people["mika"],
            at=MONDAY + timedelta(minutes=i),
            text=f"said number {i}",
        )
        for i in range(6)
    ]
    secret = MessageFactory(channel=private, author=people["tom"], text="tom earns a lot")
    memory = Memory.objects.of_channel(public, MemoryType.LONG_TERM)
    for text in ("- We launch on Friday\n- Aya owns iOS", "- We launch on Monday\n- Aya owns iOS"):
        make_version(
            memory=memory, text=text, sources=messages[:2], until=MONDAY + timedelta(hours=1)
        )
    short = Memory.objects.of_channel(public, MemoryType.SHORT_TERM)
    segment = make_segment(messages=messages[:4], outcome="remembered")
    trigger = {"reason": "idle", "new": 4, "quiet_s": 7200}
    make_version(
        memory=short, text="- Shorter", sources=messages[:4], segment=segment, trigger=trigger
    )
    private_memory = Memory.objects.of_channel(private, MemoryType.LONG_TERM)
    make_version(memory=private_memory, text="- Tom earns a lot", sources=[secret])
    for channel in (public, private):
        channel.remember_from(messages[0].micros)
    memory.refresh_from_db()
    private_memory.refresh_from_db()
    clients = {}
    for name, user in users.items():
        clients[name] = Client()
        clients[name].force_login(user)
    clients["nobody"] = Client()
    return Cast(
        workspace,
        public,
        private,
        messages,
        memory,
        private_memory,
        people["mika"],
        users,
        clients,
    )
