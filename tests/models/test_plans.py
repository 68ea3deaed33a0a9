"""Query plans of rules that pages apply to each job or line: their work must not grow with a channel."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from memories.models import (
    Channel,
    Generation,
    Member,
    Memory,
    Message,
    QuarantinedLine,
    Reader,
    Segment,
)
from memories.rules.memory import MemoryType
from memories.rules.segments import Trigger
from memories.views.jobs import RECENT_SHOWN
from tests.factories import ChannelFactory, MemberFactory, MessageFactory
from tests.work import steps_of

pytestmark = pytest.mark.django_db

DEAD_JOBS = 20


@pytest.fixture
def member() -> Member:
    return MemberFactory(role=Member.Role.EDITOR)


@pytest.fixture
def reader(member: Member) -> Reader:
    return Reader.of(member.user, timezone.now())


@pytest.fixture
def channel(member: Member) -> Channel:
    """A channel with dead jobs, and a quarantined line of one of them."""
    channel = ChannelFactory(workspace=member.workspace)
    [generation, *_others] = add_jobs(channel, DEAD_JOBS, Generation.State.DEAD)
    add_jobs(channel, RECENT_SHOWN + 1, Generation.State.DONE)
    message = MessageFactory(channel=channel)
    line = QuarantinedLine.objects.create(
        memory=generation.memory, generation=generation, text="line", rule="prompt_injection"
    )
    line.sources.add(message)
    return channel


def add_jobs(channel: Channel, count: int, state: str) -> list[Generation]:
    """Add jobs, each with a segment of its own."""
    memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    first = Segment.objects.filter(channel=channel).count()
    segments = Segment.objects.bulk_create(
        Segment(
            channel=channel,
            number=number,
            first_us=number,
            last_us=number,
            closed_us=number,
            message_count=1,
            reason=Trigger.IDLE.value,
        )
        for number in range(first, first + count)
    )
    return Generation.objects.bulk_create(
        Generation(
            memory=memory, segment=segment, as_of_us=1, input_key=str(segment.pk), state=state
        )
        for segment in segments
    )


def add_messages(channel: Channel, *, private: bool) -> None:
    Message.objects.bulk_create(
        Message(channel=channel, ts=f"{n}.000000", micros=n, text="text", was_private=private)
        for n in range(1, 3_001)
    )


def indexes_used(rows: QuerySet[Any], table: str) -> set[str]:
    """The indexes of a table that the plan names. On PostgreSQL sequential scans are off."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
        names = connection.introspection.get_constraints(cursor, table)
    plan = rows.explain()
    return {name for name in names if re.search(rf"\b{name}\b", plan)}


def dead_jobs(reader: Reader) -> QuerySet[Generation]:
    return Generation.objects.visible_to(reader).filter(state=Generation.State.DEAD)


def quarantined_lines(reader: Reader) -> QuerySet[QuarantinedLine]:
    return QuarantinedLine.objects.waiting().visible_to(reader)


def over_cap(reader: Reader) -> QuerySet[Generation]:
    return Generation.objects.over_cap().filter(not_before__gt=timezone.now())


PRIVATE = {"message_private", "message_private_in_segment", "message_private_in_thread"}
# Which of these PostgreSQL takes depends on what it last counted.
JOBS = {
    "generation_over_cap",
    "generation_state",
    "generation_unfinished",
    "memories_generation_memory_id_7fc599bf",
}


@pytest.mark.postgres("plans differ")
@pytest.mark.parametrize(
    ("rows", "table", "indexes"),
    [
        (dead_jobs, "memories_message", PRIVATE),
        (dead_jobs, "memories_generation", JOBS),
        (over_cap, "memories_generation", JOBS),
    ],
)
def test_a_count_of_each_page_uses_its_indexes(
    rows: Callable[[Reader], QuerySet[Any]],
    table: str,
    indexes: set[str],
    reader: Reader,
    channel: Channel,
) -> None:
    used = indexes_used(rows(reader), table)
    assert used and used <= indexes


@pytest.mark.postgres("plans differ")
def test_quarantined_lines_look_up_their_messages_and_jobs(
    reader: Reader, channel: Channel
) -> None:
    used = indexes_used(quarantined_lines(reader), "memories_message")
    assert used and used <= {*PRIVATE, "memories_message_pkey"}


@pytest.mark.slow
@pytest.mark.sqlite("counts the steps of SQLite")
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("rows", [dead_jobs, quarantined_lines])
def test_steps_do_not_grow_with_messages_and_finished_jobs(
    rows: Callable[[Reader], QuerySet[Any]], private: bool, reader: Reader, channel: Channel
) -> None:
    before = steps_of(rows(reader).count)
    add_messages(channel, private=private)
    add_jobs(channel, 300, Generation.State.DONE)
    assert steps_of(rows(reader).count) <= before * 1.1


@pytest.mark.slow
@pytest.mark.sqlite("counts the steps of SQLite")
@pytest.mark.parametrize(
    ("view", "finished"),
    [("notes-index", 300), ("jobs-index", 300)],
)
def test_steps_of_a_page_do_not_grow_with_messages(
    view: str, finished: int, client: Any, member: Member, channel: Channel
) -> None:
    client.force_login(member.user)
    path = reverse(view, args=[member.workspace.slug])
    client.get(path)
    before = steps_of(lambda: client.get(path))
    add_messages(channel, private=False)
    add_jobs(channel, finished, Generation.State.DONE)
    assert steps_of(lambda: client.get(path)) <= before * 1.1
