"""Changes of a team's data, and the context that each of them changes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from memories.models import (
    ApiKey,
    Channel,
    ChannelMember,
    EarlierWording,
    Heartbeat,
    Line,
    Member,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Person,
    Proposal,
    SlackConnection,
    User,
    Workspace,
)
from memories.pipeline.redaction import forget
from memories.pipeline.search import indexing
from tests.factories import (
    MONDAY,
    ChannelMemberFactory,
    MessageFactory,
    NoteFactory,
    make_thread_memory,
    make_version,
)
from tests.views.conftest import Cast

DAY = timedelta(days=1)
WHOLE, LAUNCH, SALARIES = "context?", "context?channel=launch", "context?channel=salaries"
QUESTION = f"{LAUNCH}&query=launch+zebra"


@dataclass
class Scene:
    """The team, the key that reads a context, and a moment at which the clock stands."""

    team: Cast
    key: ApiKey
    now: datetime

    @property
    def mika(self) -> Person:
        return self.team.author

    @property
    def tom(self) -> Person:
        return Person.objects.get(name="tom")

    @property
    def secret(self) -> ChannelMember:
        return ChannelMember.objects.get(channel=self.team.private)

    @property
    def note(self) -> Note:
        return Note.objects.get()

    @property
    def thread(self) -> str:
        return Message.objects.exclude(thread_ts="").values_list("thread_ts", flat=True)[0]

    def connect(self, **lists: datetime | None) -> None:
        """Connect the workspace, with lists of now or of another time."""
        fresh = {"connected_at": self.now, "listed_at": self.now} | lists
        Workspace.objects.update(**fresh)

    def say(self, **fields: object) -> None:
        self.team.messages[-1].refresh_from_db()
        Message.objects.filter(pk=self.team.messages[-1].pk).update(**fields)

    def store(self) -> None:
        MessageFactory(channel=self.team.public, author=self.mika, at=self.now - DAY)

    def store_and_roll_back(self) -> None:
        with transaction.atomic():
            self.store()
            transaction.set_rollback(True)

    def approve(self) -> None:
        version = self.team.memory.current
        assert version is not None
        line, member = version.lines.all()[0], self.team.users["member"]
        proposal = Proposal.objects.propose(version, line, "We launch on Sunday", author=member)
        proposal.approve(by=self.team.users["editor"], based_on=2)

    def rename_channel(self) -> None:
        Channel.objects.filter(pk=self.team.public.pk).update(name="start")

    def make_private(self) -> None:
        self.team.public.kind = Channel.Kind.PRIVATE
        self.team.public.save()

    def narrow(self) -> None:
        ApiKey.objects.filter(pk=self.key.pk).update(is_narrowed=True)

    def demote(self) -> None:
        role = {"user": self.team.users["editor"], "role": Member.Role.GUEST}
        Member.objects.filter(user=role["user"]).update(role=role["role"])


ARCHIVED = {"outcome": "superseded"}
PEOPLE = Person.objects.filter(name="mika")

# Changes that another text or an error has to follow: who reads what, and the change.
CHANGES: dict[str, tuple[str, str, Callable[[Scene], object]]] = {
    "a new message": ("member", LAUNCH, Scene.store),
    "an edited message": ("member", LAUNCH, lambda x: x.say(text="edited")),
    "a deleted message": ("member", LAUNCH, lambda x: x.say(state="deleted", text="")),
    "a message of a bot's name": ("member", LAUNCH, lambda x: x.say(username="robot")),
    "a source excluded": ("member", LAUNCH, lambda x: x.say(is_revoked=True)),
    "a message in private": ("member", LAUNCH, lambda x: x.say(was_private=True)),
    "a forgotten message": (
        "member",
        LAUNCH,
        lambda x: forget.forget_message(x.team.public, x.team.messages[-1].ts, by=None),
    ),
    "an indexed message": (
        "member",
        f"{QUESTION}&budget=300",
        lambda x: (x.say(text="a zebra " * 20), indexing.index_pending()),
    ),
    "a new version": (
        "member",
        WHOLE,
        lambda x: make_version(memory=x.team.memory, text="- In May", until=MONDAY + DAY),
    ),
    "an edit": (
        "member",
        WHOLE,
        lambda x: x.team.memory.revise("- We launch never", by=None, based_on=2),
    ),
    "a withdrawn version": ("member", WHOLE, lambda x: x.team.memory.current.withdraw()),
    "a hidden version": (
        "member",
        WHOLE,
        lambda x: MemoryVersion.objects.update(audience=MemoryVersion.Audience.NOBODY),
    ),
    "an approved proposal": ("member", WHOLE, Scene.approve),
    "a replaced line": ("member", WHOLE, lambda x: Line.objects.update(**ARCHIVED)),
    "a pin": (
        "member",
        "context?budget=90",
        lambda x: Memory.objects.get(scope="workspace").pin(0, by=None, based_on=1),
    ),
    "a memory of a thread": (
        "member",
        f"{LAUNCH}&thread={{thread}}",
        lambda x: make_thread_memory(
            channel=x.team.public, thread_ts=x.thread, texts=["- All agree"]
        ),
    ),
    "a new note": (
        "member",
        WHOLE,
        lambda x: NoteFactory(workspace=x.team.workspace, content="Eat lunch"),
    ),
    "a changed note": ("member", WHOLE, lambda x: x.note.rewrite("Ship on Mondays", by=None)),
    "a note left out": ("member", WHOLE, lambda x: x.note.set_flags(in_context=False)),
    "a deleted note": ("member", WHOLE, lambda x: x.note.remove()),
    "a purged note": ("member", WHOLE, lambda x: x.note.delete()),
    "a renamed channel": ("member", WHOLE, Scene.rename_channel),
    "a renamed person": ("member", LAUNCH, lambda x: PEOPLE.update(name="Mika S.")),
    "a renamed account": (
        "member",
        WHOLE,
        lambda x: User.objects.filter(username="editor").update(first_name="Edith"),
    ),
    "a channel that turns private": ("member", WHOLE, Scene.make_private),
    "a new member of a channel": (
        "member",
        WHOLE,
        lambda x: ChannelMemberFactory(channel=x.team.private, person=x.mika),
    ),
    "a person who left a channel": ("insider", WHOLE, lambda x: x.secret.delete()),
    "a person who left a named channel": ("insider", SALARIES, lambda x: x.secret.delete()),
    "an unknown list of members": (
        "insider",
        WHOLE,
        lambda x: Channel.objects.update(members_known_at=None),
    ),
    "a list of members that got too old": (
        "insider",
        WHOLE,
        lambda x: (x.connect(), Channel.objects.update(members_known_at=x.now - 2 * DAY)),
    ),
    "a list of people that got too old": (
        "member",
        WHOLE,
        lambda x: x.connect(listed_at=x.now - 2 * DAY),
    ),
    "a connection that ended": (
        "member",
        WHOLE,
        lambda x: (
            x.connect(),
            SlackConnection.objects.create(workspace=x.team.workspace, state="revoked"),
        ),
    ),
    "a person who turned a guest": ("member", WHOLE, lambda x: PEOPLE.update(is_guest=True)),
    "a person deactivated in Slack": ("member", WHOLE, lambda x: PEOPLE.update(is_deleted=True)),
    "a link that ended": (
        "insider",
        WHOLE,
        lambda x: Person.objects.update(link_valid_until=x.now - DAY),
    ),
    "a person without the account": ("member", WHOLE, lambda x: PEOPLE.update(user=None)),
    "a lower role": ("editor", WHOLE, Scene.demote),
    "no role": ("editor", WHOLE, lambda x: Member.objects.all().delete()),
    "a new operator": (
        "outsider",
        WHOLE,
        lambda x: User.objects.filter(username="outsider").update(is_superuser=True),
    ),
    "a deactivated account": (
        "member",
        WHOLE,
        lambda x: User.objects.filter(username="member").update(is_active=False),
    ),
    "a revoked key": ("member", WHOLE, lambda x: x.key.revoke(by=None, now=x.now)),
    "an expired key": ("member", WHOLE, lambda x: ApiKey.objects.update(expires_at=x.now)),
    "a key limited to no channel": ("member", WHOLE, Scene.narrow),
    "a key limited to another channel": (
        "narrowed",
        WHOLE,
        lambda x: x.key.channels.set([x.team.private]),
    ),
    "settings without notes": (
        "member",
        WHOLE,
        lambda x: x.team.workspace.change_settings({"notes_inject": "none"}),
    ),
    "a past wording withdrawn": (
        "member",
        "context?at={at}",
        lambda x: EarlierWording.objects.remove_texts(),
    ),
    "a past note purged": ("member", "context?at={at}", lambda x: x.note.versions.all().delete()),
}

# Changes after which the text is the same.
NO_CHANGES: dict[str, Callable[[Scene], object]] = {
    "the last use of a key": lambda x: ApiKey.objects.update(last_used_at=x.now),
    "a heartbeat": lambda x: Heartbeat.objects.beat("worker", x.now),
    "a sync": lambda x: (
        Channel.objects.update(members_known_at=x.now),
        Workspace.objects.update(synced_at=x.now, next_sync_at=x.now + DAY),
        Workspace.objects.mark_pass_queued(x.now, DAY),
    ),
    "a sign-in": lambda x: User.objects.update(last_login=x.now),
    "a thread that was read": lambda x: x.say(replies_read_at=x.now, has_unread_replies=False),
    "the same text": lambda x: x.say(text="said number 5"),
    "a rollback": Scene.store_and_roll_back,
}
