"""S1's flow, over real rows and the offline summariser: triggers, versions, merges, coverage."""

import contextlib
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memories.models import Job, MemoryVersion, Message, Segment
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.requests import RequestBuilder
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin
from tests.factories import MONDAY, ChannelFactory, MessageFactory, PersonFactory, make_reply
from tests.pipeline.conversations import Scribe, hours, remembering
from tests.pipeline.current import long, short, workspace_memory

pytestmark = pytest.mark.django_db


WORDS = (
    "We decided to ship on Friday 9 January.",
    "Mika will write the release notes.",
    "Does anybody know why the build is red?",
    "The staging database moved to the new host.",
    "Lunch at noon in the small room.",
)


def talk(channel, count, begin=MONDAY, **given):
    """A burst of messages, a minute apart."""
    author = PersonFactory(workspace=channel.workspace)
    return [
        MessageFactory(
            channel=channel,
            author=author,
            at=begin + timedelta(minutes=i),
            text=f"{WORDS[i % len(WORDS)]} ({begin:%d %H}-{i})",
            **given,
        )
        for i in range(count)
    ]


@pytest.mark.slow
def test_update_condition_not_met(private_channel):
    """更新条件満たさず"""
    talk(private_channel, 10)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    talk(private_channel, 10, MONDAY + hours(4))
    report = run_pass(private_channel.workspace, MONDAY + hours(5))
    assert short(private_channel).head == 1
    assert report.made.total() == report.calls == 0
    assert [(w["new"], w["quiet_s"]) for w in report.waiting] == [(10, 51 * 60)]


@pytest.mark.slow
def test_idle_trigger(private_channel):
    """idle トリガー"""
    talk(private_channel, 10)
    report = run_pass(private_channel.workspace, MONDAY + hours(3))
    version = short(private_channel).current
    assert (version.number, version.provisional) == (1, False)
    assert version.trigger == {"reason": "idle", "new": 10, "quiet_s": 7200}
    assert report.closed == {"idle": 1}


@pytest.mark.slow
def test_message_trigger(private_channel):
    """メッセージトリガー"""
    talk(private_channel, 60)
    report = run_pass(private_channel.workspace, MONDAY + timedelta(minutes=61))
    assert short(private_channel).current.trigger["reason"] == "full"
    assert report.closed == {"full": 1}
    assert [(w["new"], w["quiet_s"]) for w in report.waiting] == [(10, 120)]


@pytest.mark.slow
def test_long_term_integration(private_channel):
    """長期記憶統合"""
    talk(private_channel, 10)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    merge = long(private_channel).jobs.get()
    assert list(merge.inputs.all()) == [short(private_channel).current]
    assert long(private_channel).current.source_message_count == 10


@pytest.mark.slow
def test_workspace_long_term_update(channel):
    """WS長期記憶更新"""
    messages = talk(channel, 10)
    run_pass(channel.workspace, MONDAY + hours(3))
    memory = workspace_memory(channel)
    assert list(memory.jobs.get().inputs.all()) == [long(channel).current]
    assert memory.current.source_message_count == 10
    assert memory.current.source_latest_message_ts == messages[-1].ts


@pytest.mark.slow
def test_overwrite_when_history_is_disabled(private_channel):
    """上書き保存: S1 overwrites; rule 4 adds that text of a person is never overwritten."""
    private_channel.workspace.change_settings({"history_enabled": False})
    talk(private_channel, 3)
    run_pass(private_channel.workspace, MONDAY + hours(1))
    first = short(private_channel).current
    talk(private_channel, 3, MONDAY + hours(4))
    run_pass(private_channel.workspace, MONDAY + hours(5))
    second = short(private_channel).current
    assert (second.pk, second.number, second.revision) == (first.pk, 1, 1)
    assert second.source_message_count == 6
    short(private_channel).revise("- corrected by hand", by=None, based_on=1)
    talk(private_channel, 3, MONDAY + hours(6))
    run_pass(private_channel.workspace, MONDAY + hours(7))
    numbers = short(private_channel).versions.order_by("number")
    assert [(v.number, v.origin) for v in numbers] == [(1, "model"), (2, "person"), (3, "model")]


@pytest.mark.slow
def test_a_second_pass_makes_nothing(private_channel):
    talk(private_channel, 60)
    run_pass(private_channel.workspace, MONDAY + hours(9))
    before = Job.objects.count()
    report = run_pass(private_channel.workspace, MONDAY + hours(10))
    assert (report.made.total(), report.calls, Job.objects.count()) == (0, 0, before)


@pytest.mark.slow
def test_first_version_is_provisional_and_replaced_in_place(private_channel):
    talk(private_channel, 5)
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=10))
    first = short(private_channel).current
    assert first.provisional and long(private_channel).head == 0
    talk(private_channel, 5, MONDAY + timedelta(minutes=20))
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=30))
    assert short(private_channel).current.revision == 0
    run_pass(private_channel.workspace, MONDAY + hours(3))
    replaced = short(private_channel).current
    assert (replaced.pk, replaced.number, replaced.provisional) == (first.pk, 1, False)
    assert replaced.source_message_count == 10
    assert long(private_channel).head == 1


@pytest.mark.slow
def test_start_mark_is_a_window_before_the_first_pass():
    channel = ChannelFactory()
    talk(channel, 3, MONDAY - hours(25))
    kept = talk(channel, 3, MONDAY - hours(23))
    run_pass(channel.workspace, MONDAY)
    segment = Segment.objects.get()
    assert (segment.message_count, segment.first_us) == (3, kept[0].micros)


@pytest.mark.slow
def test_an_earlier_start_adds_segments_and_keeps_existing_ones(private_channel):
    earlier = talk(private_channel, 4, MONDAY - hours(10))
    later = talk(private_channel, 4, MONDAY + timedelta(minutes=30))
    run_pass(private_channel.workspace, MONDAY + hours(4))
    private_channel.remember_from(earlier[0].micros)
    run_pass(private_channel.workspace, MONDAY + hours(5))
    first, second = private_channel.segments.order_by("number")
    assert first.last_us == later[-1].micros
    assert (second.first_us, second.last_us) == (earlier[0].micros, earlier[-1].micros)
    assert short(private_channel).current.segment == first


@pytest.mark.slow
def test_late_messages_wait_for_the_next_segment(private_channel):
    talk(private_channel, 10)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    late = MessageFactory(channel=private_channel, at=MONDAY + timedelta(minutes=3, seconds=30))
    fresh = talk(private_channel, 2, MONDAY + hours(4))
    run_pass(private_channel.workspace, MONDAY + hours(5))
    assert Segment.objects.count() == 1
    run_pass(private_channel.workspace, MONDAY + hours(7))
    segment = private_channel.segments.get(number=2)
    assert set(segment.messages.all()) == {late, *fresh}


@pytest.mark.slow
def test_a_late_message_is_read_alone_after_the_idle_time(private_channel):
    talk(private_channel, 10)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    late = MessageFactory(channel=private_channel, at=MONDAY + timedelta(minutes=3, seconds=30))
    run_pass(private_channel.workspace, MONDAY + hours(4))
    assert list(private_channel.segments.get(number=2).messages.all()) == [late]


def test_a_pass_sees_nothing_after_its_now(private_channel):
    talk(private_channel, 60)
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=20))
    assert short(private_channel).current.source_message_count == 21
    assert not Segment.objects.exists()


@pytest.mark.slow
def test_notices_and_ignored_bots_are_left_out(private_channel):
    private_channel.remember_bots = False
    private_channel.save()
    talk(private_channel, 3, is_notice=True, subtype="channel_join")
    talk(private_channel, 3, MONDAY + hours(1), is_bot=True)
    kept = talk(private_channel, 3, MONDAY + timedelta(minutes=90))
    run_pass(private_channel.workspace, MONDAY + hours(5))
    assert set(Message.objects.filter(segment__isnull=False)) == set(kept)


def test_a_segment_without_text_costs_no_call(private_channel):
    for i in range(3):
        MessageFactory(channel=private_channel, at=MONDAY + timedelta(minutes=i), text="")
    report = run_pass(private_channel.workspace, MONDAY + hours(3))
    assert private_channel.segments.get().outcome == Segment.Outcome.SKIPPED
    assert report.calls == Job.objects.count() == 0


@pytest.mark.slow
def test_a_backlog_is_numbered_in_order_and_merged_once(private_channel):
    private_channel.workspace.change_settings({"message_threshold": 10})
    talk(private_channel, 34)
    run_pass(private_channel.workspace, MONDAY + hours(9))
    versions = short(private_channel).versions.order_by("number").select_related("segment")
    assert [(v.number, v.segment.number) for v in versions] == [(n, n) for n in (1, 2, 3, 4)]
    assert long(private_channel).jobs.get().inputs.count() == 4
    assert long(private_channel).current.source_message_count == 34


@pytest.mark.slow
def test_the_source_of_a_line_has_its_words(private_channel):
    talk(private_channel, 30)
    run_pass(private_channel.workspace, MONDAY + hours(4))
    lines = short(private_channel).current.lines.prefetch_related("sources")
    assert lines
    for line in lines:
        (source,) = line.sources.all()
        assert source.text.split(" (")[0].split()[0] in line.text


@pytest.mark.slow
def test_a_persons_line_stays_in_each_merge(private_channel):
    talk(private_channel, 10)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    person = "- Never deploy on a Friday, says Oda."
    long(private_channel).revise(person, by=None, based_on=1)
    for day in (1, 2):
        talk(private_channel, 10, MONDAY + hours(24 * day))
        run_pass(private_channel.workspace, MONDAY + hours(24 * day + 5))
        current = long(private_channel).current
        assert current.number == day + 2
        assert person in current.content
        assert current.lines.get(text=person).origin == Origin.PERSON


@pytest.mark.slow
def test_an_edit_during_the_call_becomes_the_base_of_the_merge(private_channel, monkeypatch):
    talk(private_channel, 10)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    talk(private_channel, 10, MONDAY + hours(24))
    written = []
    claim = Job.claim

    def edit_meanwhile(job, now, lease):
        memory = job.memory
        if memory.memory_type == MemoryType.LONG_TERM and memory.channel_id and not written:
            written.append(memory.revise("- my own words", by=None, based_on=1))
        return claim(job, now, lease)

    monkeypatch.setattr(Job, "claim", edit_meanwhile)
    run_pass(private_channel.workspace, MONDAY + hours(30))
    states = long(private_channel).jobs.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["done", "superseded", "done"]
    numbers = long(private_channel).versions.order_by("number")
    assert [(v.number, v.origin) for v in numbers] == [(1, "model"), (2, "person"), (3, "model")]
    assert "- my own words" in long(private_channel).current.content


@pytest.mark.slow
def test_an_edited_message_rewrites_the_version_of_its_segment(private_channel):
    messages = talk(private_channel, 10)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    talk(private_channel, 10, MONDAY + hours(24))
    run_pass(private_channel.workspace, MONDAY + hours(27))
    Message.objects.filter(pk=messages[0].pk).update(
        text="We decided to hire a tester on Monday 12 January.", edited_ts=messages[-1].ts
    )
    Segment.objects.filter(number=1).update(stale=True)
    run_pass(private_channel.workspace, MONDAY + hours(28))
    assert short(private_channel).head == 2
    first = short(private_channel).versions.get(number=1)
    assert first.revision == 1 and "12 January" in first.content
    merge = long(private_channel).jobs.order_by("pk").last()
    assert list(merge.inputs.all()) == [first]


def thread(channel, replies, begin=MONDAY):
    root = MessageFactory(channel=channel, at=begin, text="Which region should we use?")
    for i in range(replies):
        make_reply(root=root, at=begin + timedelta(minutes=i + 1), text=WORDS[i % len(WORDS)])
    return root


@pytest.mark.slow
@pytest.mark.parametrize(("replies", "made"), [(3, 0), (4, 1)])
def test_threads_are_remembered_from_five_messages_on(private_channel, replies, made):
    private_channel.workspace.change_settings({"thread_memories": True})
    thread(private_channel, replies)
    run_pass(private_channel.workspace, MONDAY + hours(3))
    assert MemoryVersion.objects.filter(memory__scope="thread").count() == made


@pytest.mark.slow
def test_workspace_memory_is_built_from_public_channels_only(channel):
    private = ChannelFactory(workspace=channel.workspace, kind="private")
    private.remember_from(to_micros(MONDAY))
    talk(channel, 10)
    secret = MessageFactory(
        channel=private, at=MONDAY, text="Decided: the secret merger is on Friday."
    )
    run_pass(channel.workspace, MONDAY + hours(3))
    assert long(private).current is not None
    memory = workspace_memory(channel)
    assert [v.memory.channel for v in memory.jobs.get().inputs.all()] == [channel]
    assert "merger" not in memory.current.content
    assert not memory.current.lines.filter(sources=secret).exists()


@pytest.mark.slow
def test_the_workspace_has_a_short_term_memory_unless_the_setting_is_off(channel):
    channel.workspace.change_settings({"workspace_short_term": True})
    talk(channel, 10)
    run_pass(channel.workspace, MONDAY + hours(3))
    memory = workspace_memory(channel, MemoryType.SHORT_TERM)
    assert list(memory.jobs.get().inputs.all()) == [short(channel).current]
    assert 1 <= len(memory.current.content.splitlines()) <= 8
    channel.workspace.change_settings({"workspace_short_term": False})
    talk(channel, 10, MONDAY + hours(24))
    run_pass(channel.workspace, MONDAY + hours(27))
    assert workspace_memory(channel, MemoryType.SHORT_TERM).head == 1


@pytest.mark.slow
def test_workspace_short_term_is_made_hourly_after_changes(channel):
    """Every message closes a segment of its own; the minutes count from the first pass."""
    channel.workspace.change_settings({"message_threshold": 1, "workspace_short_term": True})
    heads = []
    for minutes in (0, 30, 61, 150, 300):
        if minutes != 300:
            talk(channel, 1, MONDAY + hours(3) + timedelta(minutes=minutes))
        run_pass(channel.workspace, MONDAY + hours(3) + timedelta(minutes=minutes + 1))
        heads.append(workspace_memory(channel, MemoryType.SHORT_TERM).head)
    assert heads == [1, 1, 2, 3, 3]


@pytest.mark.slow
def test_an_error_in_one_channel_does_not_stop_other_channels(private_channel, monkeypatch):
    second = ChannelFactory(workspace=private_channel.workspace)
    second.remember_from(to_micros(MONDAY))
    talk(private_channel, 10)
    talk(second, 10)
    build = RequestBuilder.build

    def fail_for_one(builder, job):
        if job.memory.channel == private_channel:
            raise RuntimeError
        return build(builder, job)

    monkeypatch.setattr(RequestBuilder, "build", fail_for_one)
    report = run_pass(private_channel.workspace, MONDAY + hours(3))
    assert [error.split(": ")[1] for error in report.errors] == ["unexpected"]
    assert (long(private_channel).head, long(second).head) == (0, 1)
    waiting = Job.objects.get(state="waiting")
    assert (waiting.fault, waiting.fault_text) == ("unexpected", "RuntimeError")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "memories.rules.generate.segments.should_update_short_term_memory",
        "memories.models.memory.new_version.create_memory",
        "memories.rules.memory.identity.is_valid_memory_combination",
        "memories.models.memory.memories.make_thread_scope_id",
        "memories.llm.summarise",
    ],
)
def test_happy_path_fails_without(name, private_channel, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError(name)

    private_channel.workspace.change_settings({"thread_memories": True})
    thread(private_channel, 6)
    monkeypatch.setattr(name, broken)
    with contextlib.suppress(RuntimeError):
        assert run_pass(private_channel.workspace, MONDAY + hours(3)).errors
    assert not MemoryVersion.objects.exists()


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_quiet_channels_cost_no_query_each(workspace):
    def queries():
        talk(remembering(workspace), 1)
        run_pass(workspace, MONDAY + hours(3), Scribe())
        with CaptureQueriesContext(connection) as captured:
            assert run_pass(workspace, MONDAY + hours(4), Scribe()).calls == 0
        return len(captured)

    workspace.change_settings({"thread_memories": True})
    first = queries()
    queries()
    assert queries() == first < 25


def test_channels_with_open_messages_cost_no_query_each(workspace):
    """They are planned once some messages are older than the idle time."""

    def queries():
        channel = remembering(workspace)
        talk(channel, 1)
        run_pass(workspace, MONDAY + hours(3), Scribe())
        talk(channel, 2, MONDAY + hours(4))
        with CaptureQueriesContext(connection) as captured:
            report = run_pass(workspace, MONDAY + hours(5), Scribe())
        assert report.closed == {}
        waits = {(w["new"], w["quiet_s"], w["look_again"]) for w in report.waiting}
        assert waits == {(2, 59 * 60, (MONDAY + timedelta(hours=6, minutes=1)).isoformat())}
        return len(captured)

    workspace.change_settings({"thread_memories": True})
    first = queries()
    assert queries() == first < 25
    report = run_pass(workspace, MONDAY + hours(7), Scribe())
    assert report.closed == {"idle": 2}
