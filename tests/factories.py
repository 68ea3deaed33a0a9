"""Rows for tests, every argument by keyword; what is not given is filled in so that rows fit.

Memories, versions and threads are made by functions over the product's own verbs.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory, Password

from memories.models import (
    Channel,
    ChannelMember,
    ChannelSync,
    Heartbeat,
    Job,
    Member,
    Memory,
    MemoryVersion,
    Message,
    ModelCall,
    NewVersion,
    Note,
    Person,
    Segment,
    SlackConnection,
    User,
    Workspace,
)
from memories.rules.generate.segments import Trigger
from memories.rules.ingest.timestamps import micros, to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line, Origin
from memories.rules.summariser import Reply
from tests.slack.fake_workspace import TOKEN

PASSWORD = "correct horse battery"
MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)  # the default time of the first message


def ts_at(moment: datetime) -> str:
    """The Slack ts of an aware datetime."""
    return ts_from_micros(to_micros(moment))


class UserFactory(DjangoModelFactory):
    class Meta:
        model = User

    username = factory.Sequence(lambda n: f"user{n}")
    password = Password(PASSWORD)


class WorkspaceFactory(DjangoModelFactory):
    """``settings={"history_enabled": False}`` holds what differs from the defaults. One that is
    ``connected_at`` some moment was listed then."""

    class Meta:
        model = Workspace

    connected_at: Any = None
    listed_at = factory.SelfAttribute("connected_at")
    slug = factory.Sequence(lambda n: f"team{n}")
    name = factory.Sequence(lambda n: f"Team {n}")


class MemberFactory(DjangoModelFactory):
    class Meta:
        model = Member

    workspace = factory.SubFactory(WorkspaceFactory)
    user = factory.SubFactory(UserFactory)


class PersonFactory(DjangoModelFactory):
    """Whose ``user`` is given is linked as by a login with Slack; `Person.link` makes other links."""

    class Meta:
        model = Person

    workspace = factory.SubFactory(WorkspaceFactory)
    slack_id = factory.Sequence(lambda n: f"U{n:07d}")
    name = factory.Sequence(lambda n: f"person{n}")
    user: Any = None
    linked_by = factory.LazyAttribute(lambda person: "slack" if person.user else "")


class ChannelFactory(DjangoModelFactory):
    """Public, and not remembered yet: ``start_us`` is null as before a channel's first pass.

    ``members=[person, …]`` puts people in and makes the list of members known.
    """

    class Meta:
        model = Channel
        skip_postgeneration_save = True

    workspace = factory.SubFactory(WorkspaceFactory)
    slack_id = factory.Sequence(lambda n: f"C{n:07d}")
    name = factory.Sequence(lambda n: f"channel{n:05d}")  # in order, however many there were
    kind = Channel.Kind.PUBLIC

    @factory.post_generation
    def members(self, create: bool, people: Iterable[Person] | None, **kwargs: Any) -> None:
        for person in people or ():
            ChannelMemberFactory(channel=self, person=person)


class ChannelMemberFactory(DjangoModelFactory):
    class Meta:
        model = ChannelMember
        skip_postgeneration_save = True

    channel = factory.SubFactory(ChannelFactory)
    person = factory.SubFactory(
        PersonFactory, workspace=factory.SelfAttribute("..channel.workspace")
    )

    @factory.post_generation
    def members_known(self, create: bool, at: datetime | None, **kwargs: Any) -> None:
        self.channel.members_known_at = at or self.channel.members_known_at or timezone.now()
        self.channel.save(update_fields=["members_known_at"])


class MessageFactory(DjangoModelFactory):
    """``at=`` an aware datetime, or ``ts=``; else one message a minute from MONDAY on."""

    class Meta:
        model = Message

    class Params:
        at = factory.Sequence(lambda n: MONDAY + timedelta(minutes=n))

    channel = factory.SubFactory(ChannelFactory)
    ts = factory.LazyAttribute(lambda o: ts_at(o.at))
    micros = factory.LazyAttribute(lambda o: micros(o.ts))
    author = factory.SubFactory(
        PersonFactory, workspace=factory.SelfAttribute("..channel.workspace")
    )
    text = factory.Sequence(lambda n: f"message number {n}")


def make_reply(*, root: Message, **given: Any) -> Message:
    """Create a reply in the root's thread, and update the root's reply count as Slack does."""
    reply = MessageFactory(channel=root.channel, thread_ts=root.ts, **given)
    root.thread_ts = root.ts
    root.reply_count += 1
    root.latest_reply = reply.ts
    root.save()
    return reply


def make_segment(*, messages: Sequence[Message], thread_ts: str = "", **given: Any) -> Segment:
    """A closed segment that holds these messages (of one channel, oldest first)."""
    channel = messages[0].channel
    last_us = messages[-1].micros
    segment = Segment.objects.create(
        **{
            "channel": channel,
            "thread_ts": thread_ts,
            "number": channel.segments.filter(thread_ts=thread_ts).count() + 1,
            "first_us": messages[0].micros,
            "last_us": last_us,
            "closed_us": last_us + 7200 * 1_000_000,
            "message_count": len(messages),
            "reason": Trigger.IDLE,
            **given,
        }
    )
    field = "thread_segment" if thread_ts else "segment"
    Message.objects.filter(pk__in=[message.pk for message in messages]).update(**{field: segment})
    for message in messages:
        message.refresh_from_db()
    return segment


def make_version(
    *,
    memory: Memory,
    text: str = "- something was decided",
    sources: Sequence[Message] = (),
    segment: Segment | None = None,
    until: datetime | None = None,
    **given: Any,
) -> MemoryVersion:
    """The next version of a memory; every line of ``text`` rests on ``sources``.

    ``until`` (else the segment's end) is the end of the period it covers.
    """
    memory.refresh_from_db()
    origin = given.pop("origin", Origin.MODEL)
    until_us = to_micros(until) if until else segment.last_us if segment else 0
    keys = tuple(message.pk for message in sources)
    draft = NewVersion(
        lines=[Line(line, origin, sources=keys) for line in text.splitlines() if line.strip()],
        content=text,
        origin=origin,
        segment=segment,
        until_us=until_us,
        source_message_count=given.pop("source_message_count", len(sources)),
        source_latest_message_ts=max((m.ts for m in sources), default=None),
        **given,
    )
    return memory.add_version(draft, expected_head=memory.head)


def make_job(*, memory: Memory, inputs: Sequence[MemoryVersion] = (), **given: Any) -> Job:
    """Create the next job of a memory. It waits by default, and reads ``inputs``."""
    number = memory.jobs.count()
    fields = {"as_of_us": 0, "input_key": f"{memory.pk} {number}", **given}
    job = Job.objects.create(memory=memory, **fields)
    job.add_inputs(inputs)
    return job


def make_call(*, job: Job | None, **given: Any) -> ModelCall:
    """Create a model call of today. It runs and reserves 100 tokens by default."""
    now = timezone.now()
    fields = {"fence": 1, "model": "tiny", "day": now.date(), "began_at": now, "tokens": 100}
    workspace = job.memory.workspace if job else None
    return ModelCall.objects.create(**{"job": job, "workspace": workspace, **fields, **given})


def make_proposed_merge(channel: Channel | None = None) -> Job:
    """Return a merge that may be approved."""
    channel = channel or ChannelFactory()
    message = MessageFactory(channel=channel)
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    segment = make_segment(messages=[message], outcome="remembered")
    added = make_version(memory=short, text="- new", sources=[message], segment=segment)
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    base = make_version(memory=memory, text="- one\n- two\n- three", sources=[message])
    reply = Reply("- L1, L2, L3 [4]\n+ Ben ships the beta [4]", "stop", "tiny", "p").as_json()
    return make_job(
        memory=memory,
        inputs=[added],
        state="proposed",
        base=base,
        reply=reply,
        reply_sources=[[message.pk]] * 4,
    )


def make_channel_memory(
    *,
    channel: Channel,
    memory_type: MemoryType = MemoryType.LONG_TERM,
    texts: Sequence[str] = ("- something was decided",),
) -> Memory:
    """A channel's memory with one version a text, each covering an hour more than the one before."""
    memory = Memory.objects.of_channel(channel, memory_type)
    return _with_versions(memory, texts)


def make_workspace_memory(
    *,
    workspace: Workspace,
    memory_type: MemoryType = MemoryType.LONG_TERM,
    texts: Sequence[str] = ("- something was decided",),
) -> Memory:
    return _with_versions(Memory.objects.of_workspace(workspace, memory_type), texts)


def make_thread_memory(
    *, channel: Channel, thread_ts: str, texts: Sequence[str] = ("- something was decided",)
) -> Memory:
    return _with_versions(Memory.objects.of_thread(channel, thread_ts), texts)


def _with_versions(memory: Memory, texts: Sequence[str]) -> Memory:
    for text in texts:
        make_version(memory=memory, text=text, until=MONDAY + timedelta(hours=memory.head + 1))
    memory.refresh_from_db()
    return memory


class NoteFactory(DjangoModelFactory):
    """``channel=None`` is a note of the whole workspace."""

    class Meta:
        model = Note

    workspace = factory.SubFactory(WorkspaceFactory)
    content = factory.Sequence(lambda n: f"Lasting statement {n}")
    title = factory.LazyAttribute(lambda o: o.content[:50])
    tags = factory.LazyAttribute(lambda o: [o.kind] if o.kind else [])
    kind = ""
    date = MONDAY.date()


def store_token(workspace: Workspace, token: str = TOKEN) -> SlackConnection:
    """Store a token of Slack by hand."""
    connection = SlackConnection.objects.of(workspace)
    connection.set_token(token, by=None)
    return connection


def all_is_well() -> None:
    """A worker that lives, and Slack read two minutes ago."""
    now = timezone.now()
    Heartbeat.objects.beat("worker", now)
    Workspace.objects.update(
        connected_at=now,
        listed_at=now,
        synced_at=now - timedelta(minutes=2),
        next_sync_at=now + timedelta(minutes=3),
    )
    mark_channels_synced(now)


def mark_channels_synced(now: datetime) -> None:
    """Mark every channel as followed and completely read at this time."""
    Channel.objects.update(is_followed=True, bot_is_in=True, members_known_at=now)
    for channel in Channel.objects.all():
        set_sync(channel, synced_at=now, synced_ts="1.000000")


def set_sync(channel: Channel, **values: object) -> None:
    """Set fields of the channel's sync state."""
    ChannelSync.objects.update_or_create(channel=channel, defaults=values)
