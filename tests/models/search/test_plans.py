"""Query plans of rules that pages apply to each job or line: their work must not grow with a channel."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Cast, Concat
from django.urls import reverse
from django.utils import timezone

from memories.admin import audience
from memories.models import (
    Channel,
    Job,
    Member,
    Memory,
    MemoryVersion,
    Message,
    QuarantinedLine,
    Reader,
    Segment,
    Workspace,
)
from memories.pipeline.search import finding, indexing
from memories.pipeline.search.finding import audience_keys
from memories.rules.generate.segments import Trigger
from memories.rules.memory.identity import MemoryType
from memories.rules.search.query import Kind, parse
from memories.views.generate.jobs import RECENT_SHOWN
from memories.views.memory.threads import PAGE_SIZE
from tests.factories import ChannelFactory, MemberFactory, MessageFactory, UserFactory
from tests.work import steps_of, work_of

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

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
    [job, *_others] = add_jobs(channel, DEAD_JOBS, Job.State.DEAD)
    add_jobs(channel, RECENT_SHOWN + 1, Job.State.DONE)
    message = MessageFactory(channel=channel)
    line = QuarantinedLine.objects.create(
        memory=job.memory, job=job, text="line", rule="prompt_injection"
    )
    line.sources.add(message)
    return channel


def add_jobs(channel: Channel, count: int, state: str) -> list[Job]:
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
    return Job.objects.bulk_create(
        Job(memory=memory, segment=segment, as_of_us=1, input_key=str(segment.pk), state=state)
        for segment in segments
    )


def add_messages(channel: Channel, *, private: bool) -> None:
    Message.objects.bulk_create(
        Message(channel=channel, ts=f"{n}.000000", micros=n, text="text", was_private=private)
        for n in range(1, 3_001)
    )


def indexes_used(rows: QuerySet[Any], table: str) -> set[str]:
    """The indexes of a table that the plan names.

    On PostgreSQL sequential scans are off, and the statistics are those of the rows.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"ANALYZE {table}")
        names = connection.introspection.get_constraints(cursor, table)
    plan = rows.explain()
    return {name for name in names if re.search(rf"\b{name}\b", plan)}


def dead_jobs(reader: Reader) -> QuerySet[Job]:
    return Job.objects.visible_to(reader).filter(state=Job.State.DEAD)


def quarantined_lines(reader: Reader) -> QuerySet[QuarantinedLine]:
    return QuarantinedLine.objects.waiting().visible_to(reader)


COUNTED = (dead_jobs, quarantined_lines)
VIEWS = ("notes-index", "jobs-index", "catch_up-index", "context-index", "costs-index")


def over_budget(reader: Reader) -> QuerySet[Job]:
    return Job.objects.over_budget().filter(retry_at__gt=timezone.now())


PRIVATE = {"message_private", "message_private_in_segment", "message_private_in_thread"}
# PostgreSQL chooses one of these by its latest statistics.
JOBS = {
    "job_over_budget",
    "job_state",
    "job_unfinished",
    "memories_job_memory_id_49198924",
}


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.postgres("plans differ")
@pytest.mark.parametrize(
    ("rows", "table", "indexes"),
    [
        (dead_jobs, "memories_message", PRIVATE),
        (dead_jobs, "memories_job", JOBS),
        (over_budget, "memories_job", JOBS),
    ],
)
def test_a_count_of_each_page_uses_its_indexes(
    rows: Callable[[Reader], QuerySet[Any]],
    table: str,
    indexes: set[str],
    reader: Reader,
    channel: Channel,
) -> None:
    add_messages(channel, private=False)
    used = indexes_used(rows(reader), table)
    assert used and used <= indexes


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.postgres("plans differ")
def test_quarantined_lines_look_up_their_messages_and_jobs(
    reader: Reader, channel: Channel
) -> None:
    add_messages(channel, private=False)
    used = indexes_used(quarantined_lines(reader), "memories_message")
    assert used and used <= {*PRIVATE, "memories_message_pkey"}


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.sqlite("counts the steps of SQLite")
@pytest.mark.parametrize("private", [False, True])
def test_steps_do_not_grow_with_messages_and_finished_jobs(
    private: bool, reader: Reader, channel: Channel
) -> None:
    def steps() -> dict[str, int]:
        return {rows.__name__: steps_of(rows(reader).count) for rows in COUNTED}

    before = steps()
    add_messages(channel, private=private)
    add_jobs(channel, 300, Job.State.DONE)
    assert_no_more(before, steps())


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.sqlite("counts the steps of SQLite")
def test_steps_of_a_page_do_not_grow_with_messages(
    client: Any, member: Member, channel: Channel
) -> None:
    client.force_login(member.user)
    paths = [reverse(view, args=[member.workspace.slug]) for view in VIEWS]
    before = steps_of_pages(client, paths)
    add_messages(channel, private=False)
    add_jobs(channel, 300, Job.State.DONE)
    assert_no_more(before, steps_of_pages(client, paths))


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.postgres("plans differ")
def test_newest_hits_cost_the_same_with_many_versions(reader: Reader, channel: Channel) -> None:
    def newest() -> list[MemoryVersion]:
        rows = MemoryVersion.objects.visible_to(reader).current()
        rows = rows.filter(memory__workspace=channel.workspace).select_related("memory__channel")
        terms, keys = parse("text").terms, audience_keys(channel.workspace, reader, None)
        return list(rows.matching(terms, keys)[:6])

    def add(numbers: range) -> None:
        add_rows(channel, numbers)
        # Of fewer than 100 different words PostgreSQL does not know how often each stands.
        number = Cast(F("pk") % 200, TextField())
        MemoryVersion.objects.update(content=Concat(Value("text word"), number))
        versions = MemoryVersion.objects.filter(memory=OuterRef("pk")).values("pk")
        Memory.objects.filter(versions__isnull=False).update(current=Subquery(versions))
        indexing.index_pending()
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("ANALYZE")

    add(range(300))
    before = work_of(newest)
    add(range(300, 1_500))
    after = work_of(newest)
    assert len(newest()) == 6 and after <= before * 1.5


@pytest.mark.sqlite("counts the steps of SQLite")
def test_steps_for_a_row_do_not_grow_with_channels(reader: Reader, channel: Channel) -> None:
    message = channel.messages.all()[0]
    job = Job.objects.order_by("pk")[0]

    def steps() -> dict[str, int]:
        visible = (
            Message.objects.visible_to(reader).filter(pk=message.pk),
            MemoryVersion.objects.visible_to(reader).filter(memory=job.memory_id),
            Job.objects.visible_to(reader).filter(pk=job.pk),
        )
        return {rows.model.__name__: steps_of(rows.exists) for rows in visible}

    before = steps()
    add_channels(channel.workspace, 600)
    assert_no_more(before, steps())


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.sqlite("counts the steps of SQLite")
def test_steps_of_the_best_hits_do_not_grow_with_matches_and_channels(
    monkeypatch: pytest.MonkeyPatch, reader: Reader, channel: Channel
) -> None:
    monkeypatch.setattr(finding, "COUNTED", 100)

    def search() -> int:
        query = replace(parse("text"), kind=Kind.MESSAGES)
        [group] = finding.find(query, channel.workspace, reader, ()).groups
        return len(group.rows)

    add_threads(channel, range(1_000, 1_100))
    indexing.index_pending()
    assert search() == finding.PAGE_SIZE
    before = steps_of(search)
    add_threads(channel, range(500))
    add_channels(channel.workspace, 300)
    indexing.index_pending()
    assert steps_of(search) <= before * 1.1


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.sqlite("counts the steps of SQLite")
def test_steps_of_the_threads_of_a_channel_do_not_grow_with_them(
    client: Any, member: Member, channel: Channel
) -> None:
    client.force_login(member.user)
    paths = [reverse("threads-index", args=[member.workspace.slug, channel.slack_id])]
    add_threads(channel, range(1_000, 1_000 + PAGE_SIZE + 10))
    before = steps_of_pages(client, paths)
    add_threads(channel, range(500))
    assert_no_more(before, steps_of_pages(client, paths))


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.sqlite("counts the steps of SQLite")
def test_steps_of_an_admin_list_do_not_grow_with_its_rows(
    client: Any, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience, "MAX_COUNT", 200)
    monkeypatch.setattr(audience, "SAMPLED_ROWS", 200)
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    models = ("message", "job", "segment", "memoryversion", "memory")
    paths = [reverse(f"admin:memories_{model}_changelist") for model in models]
    add_rows(channel, range(300))
    before = steps_of_pages(client, paths)
    add_rows(channel, range(300, 1_500))
    assert_no_more(before, steps_of_pages(client, paths))


@pytest.mark.sqlite("counts the steps of SQLite")
def test_a_filter_of_an_admin_list_offers_no_long_list(client: Any, channel: Channel) -> None:
    add_channels(channel.workspace, audience.MAX_CHOICES)
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    path = reverse("admin:memories_message_changelist")
    assert b"channel__id__exact=" not in client.get(path).content
    chosen = client.get(f"{path}?channel__id__exact={channel.pk}").content.decode()
    assert f"channel__id__exact={channel.pk}" in chosen and str(channel) in chosen
    its_page = client.get(reverse("admin:memories_channel_change", args=[channel.pk]))
    assert f"{path}?channel__id__exact={channel.pk}" in its_page.content.decode()


def steps_of_pages(client: Any, paths: list[str]) -> dict[str, int]:
    def get(path: str) -> None:
        assert client.get(path).status_code == 200

    for path in paths:
        get(path)  # warm up caches
    return {path: steps_of(partial(get, path)) for path in paths}


def assert_no_more(before: dict[str, int], after: dict[str, int]) -> None:
    grown = {name: (before[name], steps) for name, steps in after.items()}
    assert {name: pair for name, pair in grown.items() if pair[1] > pair[0] * 1.1} == {}


def add_channels(workspace: Workspace, count: int) -> None:
    Channel.objects.bulk_create(
        Channel(workspace=workspace, slack_id=f"C{n}", name=f"c{n}", kind="public")
        for n in range(count)
    )


def add_threads(channel: Channel, numbers: range) -> None:
    """Threads of a root and a reply, a minute of 1970 for each."""
    Message.objects.bulk_create(
        Message(
            channel=channel,
            ts=f"{60 * n + second}.000000",
            thread_ts=f"{60 * n}.000000",
            micros=(60 * n + second) * 1_000_000,
            text="text",
        )
        for n in numbers
        for second in (0, 1)
    )


def add_rows(channel: Channel, numbers: range) -> None:
    """Messages and jobs, and memories of threads with a version each."""
    add_threads(channel, numbers)
    add_jobs(channel, len(numbers), Job.State.DONE)
    memories = Memory.objects.bulk_create(
        Memory(
            workspace=channel.workspace,
            channel=channel,
            scope="thread",
            scope_id=f"{channel.slack_id}:{60 * n}.000000",
            thread_ts=f"{60 * n}.000000",
            memory_type=MemoryType.SHORT_TERM,
        )
        for n in numbers
    )
    MemoryVersion.objects.bulk_create(
        MemoryVersion(memory=memory, number=1, content="text", origin="model")
        for memory in memories
    )
