"""A connected workspace with many messages, channels, people, versions and jobs, for bench/sizes.py."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet
from django.utils import timezone

from bench.search_rows import APART, BASE, LAST, Speakers, repeat
from bench.talk import MessageGenerator
from memories.models import (
    AuditEvent,
    Channel,
    ChannelMember,
    ChannelSync,
    Job,
    Line,
    Member,
    Memory,
    MemoryVersion,
    Message,
    ModelCall,
    Note,
    Person,
    QuarantinedLine,
    Seen,
    Segment,
    User,
    Workspace,
)
from memories.models.ingest.people import BY_SLACK
from memories.pipeline.search import indexing
from memories.rules.generate.segments import Trigger
from memories.rules.ingest.timestamps import SECOND, from_micros
from memories.rules.memory.identity import WORKSPACE_SCOPE_ID, MemoryScope, MemoryType
from memories.rules.memory.lines import Origin

PRIVATE = 10  # each tenth channel
READ = 3  # private channels of the member
MEMBERS = 10  # of a private channel
SEGMENT = 50  # messages
REPLIES = 6  # messages of a thread
LINES = 8  # of a version
NOTES = 200
QUARANTINED = 20
VERSIONS = 3  # of a short-term memory
WORD = "release"  # a common one


@dataclass(frozen=True)
class Size:
    """How much a workspace of so many messages holds. ``channel_count`` 0: three a 1,000 messages."""

    messages: int
    channel_count: int = 0

    @property
    def channels(self) -> int:
        return self.channel_count or max(40, self.messages * 3 // 1000)

    @property
    def people(self) -> int:
        return max(40, self.messages // 100)

    @property
    def versions(self) -> int:
        """Of the memory with the longest history."""
        return self.messages // 200

    @property
    def dead_jobs(self) -> int:
        return self.messages // 200


@dataclass(frozen=True)
class Rows:
    """``history`` is the memory with the long history, of the channel with the most messages."""

    workspace: Workspace
    operator: User
    member: User
    channel: Channel
    history: Memory


def fill(size: Size) -> Rows:
    """Build the workspace in the current database."""
    talk = MessageGenerator(random.Random(1))
    now = timezone.now()
    workspace = Workspace.objects.create(
        slug="bench", name="bench", connected_at=now, listed_at=now, synced_at=now
    )
    User.objects.create_user("operator", is_staff=True, is_superuser=True)
    people = _people(workspace, size)
    member = people[0].user
    assert member is not None
    channels = _channels(workspace, people, size)
    _messages(talk, channels, people, size)
    _memories(talk, channels, member, size)
    _jobs(workspace, channels[0], size)
    _others(talk, workspace, size)
    indexing.index_pending()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # on SQLite no statistics are made
            cursor.execute("VACUUM ANALYZE")
    return find(workspace)


def find(workspace: Workspace) -> Rows:
    """The rows that pages are asked for, of a workspace that `fill` has built."""
    channel = workspace.channels.get(slack_id="C0000000")
    return Rows(
        workspace,
        User.objects.get(username="operator"),
        User.objects.get(username="user0"),
        channel,
        Memory.objects.of_channel(channel, MemoryType.LONG_TERM),
    )


def _people(workspace: Workspace, size: Size) -> list[Person]:
    """Each has an account; the first is an editor."""
    users = User.objects.bulk_create(
        User(username=f"user{n}", email=f"user{n}@example.com", password="!")
        for n in range(size.people)
    )
    Member.objects.create(workspace=workspace, user=users[0], role=Member.Role.EDITOR)
    return Person.objects.bulk_create(
        Person(
            workspace=workspace,
            slack_id=f"U{n:07d}",
            name=f"person{n}",
            user=user,
            linked_by=BY_SLACK,
        )
        for n, user in enumerate(users)
    )


def _channels(workspace: Workspace, people: Sequence[Person], size: Size) -> list[Channel]:
    now = timezone.now()
    channels = Channel.objects.bulk_create(
        Channel(
            workspace=workspace,
            slack_id=f"C{n:07d}",
            name=f"channel{n}",
            kind="private" if n % PRIVATE == PRIVATE - 1 else "public",
            is_followed=True,
            bot_is_in=True,
            members_known_at=now,
            start_us=0,
        )
        for n in range(size.channels)
    )
    ChannelSync.objects.bulk_create(
        ChannelSync(channel=channel, synced_at=now, synced_ts="1.000000") for channel in channels
    )
    chance = random.Random(2)
    private = [channel for channel in channels if not channel.is_public]
    ChannelMember.objects.bulk_create(
        ChannelMember(channel=channel, person=person)
        for n, channel in enumerate(private)
        for person in [*people[: n < READ], *chance.sample(people[1:], MEMBERS)]
    )
    return channels


def _messages(
    talk: MessageGenerator, channels: Sequence[Channel], people: Sequence[Person], size: Size
) -> None:
    """Each channel has threads; all messages but the newest are in segments."""
    begin = int(timezone.now().timestamp()) - (size.messages + LAST) * APART
    speakers = Speakers(talk, channels, people, (), begin)
    base = min(size.messages, BASE)
    rows = list(_threaded(speakers.say(0, base)))
    segments = Segment.objects.bulk_create(_segments(rows))
    for message in rows:
        message.segment_id = segments[message.segment_id].pk
    Message.objects.insert(rows)
    indexing.index_pending()
    repeat(base, size.messages // base)
    Message.objects.insert(list(_threaded(speakers.say(size.messages, LAST))))


def _threaded(messages: Iterator[Message]) -> Iterator[Message]:
    """Some of each channel's messages stand in threads of a few."""
    counts: dict[int, int] = {}
    roots: dict[int, str] = {}
    for message in messages:
        place = message.channel_id
        count = counts[place] = counts.get(place, -1) + 1
        if count % (3 * REPLIES) == 0:
            roots[place] = message.ts
            message.reply_count = REPLIES - 1
        if count % (3 * REPLIES) < REPLIES:
            message.thread_ts = roots[place]
        yield message


def _segments(messages: Sequence[Message]) -> list[Segment]:
    """Windows over each channel's messages, whose ``segment_id`` is set to the place in this list."""
    segments: list[Segment] = []
    in_order = sorted(messages, key=attrgetter("channel_id", "micros"))
    for _channel, of_channel in groupby(in_order, attrgetter("channel_id")):
        rows = list(of_channel)
        for number, first in enumerate(range(0, len(rows), SEGMENT), 1):
            window = rows[first : first + SEGMENT]
            for message in window:
                message.segment_id = len(segments)
            segments.append(
                Segment(
                    channel=window[0].channel,
                    number=number,
                    first_us=window[0].micros,
                    last_us=window[-1].micros,
                    closed_us=window[-1].micros + 7200 * SECOND,
                    message_count=len(window),
                    reason=Trigger.FULL.value,
                    outcome=Segment.Outcome.REMEMBERED,
                )
            )
    return segments


def _memories(
    talk: MessageGenerator, channels: Sequence[Channel], member: User, size: Size
) -> None:
    """Both memories of each channel and of the workspace. The member has seen nine in ten."""
    [workspace] = {channel.workspace for channel in channels}
    places: list[dict[str, Any]] = [
        {"scope": MemoryScope.CHANNEL, "scope_id": channel.slack_id, "channel": channel}
        for channel in channels
    ]
    places.append({"scope": MemoryScope.WORKSPACE, "scope_id": WORKSPACE_SCOPE_ID})
    memories = Memory.objects.bulk_create(
        Memory(workspace=workspace, memory_type=memory_type, **place)
        for place in places
        for memory_type in (MemoryType.LONG_TERM, MemoryType.SHORT_TERM)
    )
    for memory in memories:
        is_long = memory.memory_type == MemoryType.LONG_TERM
        memory.head = 1 if is_long else VERSIONS
    memories[0].head = size.versions
    for begin in range(0, len(memories), 500):
        _versions(talk, memories[begin : begin + 500])
    current = MemoryVersion.objects.in_bulk([memory.current_id for memory in memories])
    Memory.objects.bulk_update(memories, ["head", "current"], batch_size=200)
    assert len(current) == len(memories)
    Seen.objects.bulk_create(
        Seen(user=member, memory=memory, number=memory.head, at=timezone.now())
        for n, memory in enumerate(memories)
        if n % 10
    )


def _versions(talk: MessageGenerator, memories: Sequence[Memory]) -> None:
    """As many versions as each memory's head says, a minute apart, and the lines of each."""
    now = timezone.now()
    until_us = int(now.timestamp()) * SECOND
    sources = {
        channel: list(
            Message.objects.filter(channel=channel)
            .order_by("-micros")
            .values_list("pk", flat=True)[:LINES]
        )
        for channel in {memory.channel_id for memory in memories}
    }
    texts = [[f"- {talk.message()}" for _ in range(LINES)] for _ in range(100)]
    versions = [
        MemoryVersion(
            memory=memory,
            number=number,
            content="\n".join(texts[(memory.pk + number) % len(texts)]),
            origin=Origin.MODEL,
            merged=True,
            until_us=until_us - (memory.head - number) * 60 * SECOND,
            created_at=now - timedelta(minutes=memory.head - number),
        )
        for memory in memories
        for number in range(1, memory.head + 1)
    ]
    MemoryVersion.objects.bulk_create(versions, batch_size=500)
    newest = {version.memory_id: version for version in versions}
    for memory in memories:
        memory.current = newest[memory.pk]
    lines = Line.objects.bulk_create(
        [
            Line(version=version, position=n, text=text, origin=Origin.MODEL, since=version.number)
            for version in versions
            for n, text in enumerate(version.content.split("\n"))
        ],
        batch_size=500,
    )
    through = Line.sources.through
    through.objects.bulk_create(
        [
            through(line_id=line.pk, message_id=sources[line.version.memory.channel_id][at])
            for line in lines
            for at in {line.position, LINES - 1 - line.position}
            if len(sources[line.version.memory.channel_id]) > at
        ],
        batch_size=500,
    )


def _jobs(workspace: Workspace, busiest: Channel, size: Size) -> None:
    """A finished job with a call for each segment, on the day when that closed, and failed ones of
    every channel."""
    memories = {
        memory.channel_id: memory
        for memory in Memory.objects.filter(memory_type=MemoryType.SHORT_TERM)
    }
    now = timezone.now()
    segments = list(Segment.objects.order_by("pk"))
    jobs = [
        Job(
            memory=memories[segment.channel_id],
            segment=segment,
            as_of_us=segment.closed_us,
            input_key=str(segment.pk),
            state=Job.State.DONE,
            model="model",
            finished_at=now,
        )
        for segment in segments
    ]
    jobs += [
        Job(
            memory=memories[segment.channel_id],
            segment=segment,
            as_of_us=segment.closed_us,
            input_key=f"dead {n}",
            state=Job.State.DEAD,
            fault="server_error",
            attempts=5,
            finished_at=now,
        )
        for n in range(size.dead_jobs)
        for segment in [segments[n % len(segments)]]
    ]
    Job.objects.bulk_create(jobs, batch_size=500)
    ModelCall.objects.bulk_create(
        [
            ModelCall(
                job=job,
                fence=1,
                workspace=workspace,
                model="model",
                day=ended_at.date(),
                began_at=ended_at,
                ended_at=ended_at,
                tokens=1000,
                prompt_tokens=900,
                completion_tokens=100,
                requests=1,
            )
            for job in jobs
            for ended_at in [from_micros(job.as_of_us)]
        ],
        batch_size=500,
    )
    held = QuarantinedLine.objects.bulk_create(
        QuarantinedLine(
            memory=memories[busiest.pk], job=job, text=job.input_key, rule="prompt_injection"
        )
        for job in jobs[:QUARANTINED]
    )
    for line in held:
        line.sources.add(busiest.messages.order_by("-micros")[0])


def _others(talk: MessageGenerator, workspace: Workspace, size: Size) -> None:
    """Notes and audited events."""
    Note.objects.bulk_create(
        Note(workspace=workspace, title=f"{n}", content=talk.message(), date=timezone.localdate())
        for n in range(NOTES)
    )
    # The manager of events adds one at a time.
    events: QuerySet[Model] = QuerySet(AuditEvent)
    events.bulk_create(
        [
            AuditEvent(action="login", actor=f"user{n}", workspace=workspace.slug)
            for n in range(size.people)
        ],
        batch_size=500,
    )
