"""Where rules 1 to 8 meet each other: edits while a job runs, settings that change, failures."""

import threading
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from memories.llm import OfflineSummariser
from memories.models import Generation, Memory, MemoryVersion, Message, Segment
from memories.pipeline import close as closing
from memories.pipeline import owe
from memories.pipeline.ask import Asker
from memories.pipeline.passes import run_pass
from memories.pipeline.plan import _threads_to_plan, plan_channel
from memories.rules.memory import MemoryType
from memories.rules.slacktime import to_micros
from memories.rules.summary import Reply, SummariserError, Way
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    WorkspaceFactory,
    make_reply,
)
from tests.pipeline.current import long, short, workspace_memory
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db


def hours(n):
    return timedelta(hours=n)


def remembering(workspace, **given):
    channel = ChannelFactory(workspace=workspace, **given)
    channel.remember_from(to_micros(MONDAY))
    return channel


@pytest.fixture
def channel():
    workspace = WorkspaceFactory(settings={"thread_memories": False})
    return remembering(workspace, name="launch")


def talk(channel, count, begin=MONDAY, words="Step"):
    author = PersonFactory(workspace=channel.workspace)
    return [
        MessageFactory(
            channel=channel,
            author=author,
            at=begin + timedelta(minutes=i),
            text=f"{words} {begin:%d.%H}.{i} is done.",
        )
        for i in range(count)
    ]


class Scribe(OfflineSummariser):
    """Repeats all that it is shown, a line each; ``before`` is called with each request."""

    name = "scribe"

    def __init__(self, before=lambda request: None):
        self.before = before
        self.asked = []

    def prompt_version(self, request):
        return "scribe-1"

    def summarise(self, request, way=Way.WHOLE):
        self.asked.append(request)
        self.before(request)
        added = [line for one in request.additions for line in one.lines]
        lines = [*request.existing, *added, *request.messages]
        return Reply(
            text="\n".join(f"- {line.text} [{line.ref}]" for line in lines),
            finish_reason="stop",
            model=self.name,
            prompt_version="scribe-1",
            calls=1,
        )


def edit(message, text="It was all different.", edited_at=MONDAY + timedelta(days=9)):
    """As the storing code does it."""
    message.refresh_from_db()
    message.text, message.edited_ts = text, f"{to_micros(edited_at) // 1_000_000}.000000"
    message.save()
    made_stale(message)


def delete(message):
    message.refresh_from_db()
    message.purge()
    message.save()
    made_stale(message)


def made_stale(message):
    pks = [pk for pk in (message.segment_id, message.thread_segment_id) if pk]
    Segment.objects.filter(pk__in=pks).update(stale=True)


def during(monkeypatch, happens, wanted=lambda generation: True):
    """Let something happen once, between the question of a wanted generation and its answer."""
    question = Asker.question
    done = []

    def ask(asker, generation):
        asked = question(asker, generation)
        if not done and wanted(generation):
            done.append(happens())
        return asked

    monkeypatch.setattr(Asker, "question", ask)
    return done


def is_merge_of(memory):
    return lambda generation: generation.memory_id == memory.pk


# -- edits and deletions


def test_the_older_of_two_answers_for_one_segment_never_has_the_last_word(channel):
    """A slow worker was asked before the edit; another one remade the text meanwhile."""
    first = talk(channel, 3)[0]
    run_pass(channel.workspace, MONDAY + timedelta(minutes=1))
    plan_channel(channel.pk, MONDAY + hours(3))
    slow = channel.segments.get().generations.get()
    assert slow.claim(timezone.now(), timedelta(minutes=3))
    question = Asker(channel.workspace).question(slow)
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    slow.save_reply(Scribe().summarise(question.request), question.cites)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert "all different" in short(channel).current.content
    assert "Step 05.09.0 " not in short(channel).current.content
    assert not Generation.objects.unfinished().exists()


def test_a_remade_segment_never_touches_a_persons_version_and_keeps_their_lines(channel):
    first = talk(channel, 3)[0]
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    short(channel).revise("- my own words", by=None, based_on=1)
    edit(first)
    for text in ("It was all different.", "It was different again."):
        edit(first, text, MONDAY + timedelta(days=len(text)))
        run_pass(channel.workspace, MONDAY + hours(4), Scribe())
        versions = list(short(channel).versions.order_by("number"))
        assert [(v.number, v.origin) for v in versions] == [
            (1, "model"),
            (2, "person"),
            (3, "model"),
        ]
        assert versions[1].content == "- my own words"
        assert short(channel).current == versions[2]
        assert text in versions[2].content and "- my own words" in versions[2].content
        assert text in long(channel).current.content


def test_a_remade_segment_of_an_older_period_stays_below_what_a_person_decided(channel):
    first = talk(channel, 3)[0]
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    talk(channel, 3, MONDAY + hours(24))
    run_pass(channel.workspace, MONDAY + hours(27), Scribe())
    kept = short(channel).restore(short(channel).versions.get(number=1), by=None, based_on=2)
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(28), Scribe())
    assert short(channel).current == kept


def test_a_segment_whose_messages_are_all_deleted_before_the_call_costs_none(channel):
    messages = talk(channel, 3)
    run_pass(channel.workspace, MONDAY + timedelta(minutes=5), Scribe())
    plan_channel(channel.pk, MONDAY + hours(3))
    for message in messages:
        delete(message)
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert scribe.asked == []
    assert channel.segments.get().outcome == Segment.Outcome.SKIPPED


# -- threads


def threaded(replies, **settings):
    channel = remembering(WorkspaceFactory(settings=settings))
    root = MessageFactory(channel=channel, at=MONDAY, text="Which region should we use?")
    made = [
        make_reply(root=root, at=MONDAY + timedelta(minutes=i + 1), text=f"Reason {i} is good.")
        for i in range(replies)
    ]
    return channel, root, made


def of_thread(root):
    return Memory.objects.with_current().of_thread(root.channel, root.ts)


def test_an_edit_in_a_thread_leaves_nothing_of_the_old_text_and_keeps_its_counts():
    channel, root, made = threaded(5)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    last = make_reply(root=root, at=MONDAY + hours(5), text="Tokyo it is.")
    run_pass(channel.workspace, MONDAY + hours(8), Scribe())
    edit(made[0])
    delete(made[1])
    run_pass(channel.workspace, MONDAY + hours(9), Scribe())
    version = of_thread(root).current
    assert "all different" in version.content and "Tokyo" in version.content
    assert "Reason 0" not in version.content and "Reason 1" not in version.content
    assert (version.number, version.revision) == (1, 2)
    assert (version.source_message_count, version.source_latest_message_ts) == (6, last.ts)


def test_an_edit_in_a_thread_while_its_answer_is_awaited_is_not_lost(monkeypatch):
    channel, root, made = threaded(5)

    def edit_and_plan():
        edit(made[0])
        plan_channel(channel.pk, MONDAY + hours(3))

    memory = Memory.objects.of_thread(channel, root.ts)
    assert during(monkeypatch, edit_and_plan, is_merge_of(memory)) == []
    for _ in range(2):
        run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert "all different" in of_thread(root).current.content
    assert not Segment.objects.filter(stale=True).exists()


def test_a_late_reply_does_not_make_the_thread_look_older():
    channel, root, made = threaded(5)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    make_reply(root=root, at=MONDAY + timedelta(seconds=90), text="Late, and early.")
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    version = of_thread(root).current
    assert version.source_latest_message_ts == made[-1].ts
    assert version.source_message_count == 7


def test_a_thread_whose_follow_up_was_lost_is_found_again(monkeypatch):
    channel, root, _ = threaded(5)
    with monkeypatch.context() as lost:
        lost.setattr(owe, "thread", lambda memory, as_of_us: None)
        run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert of_thread(root).current is not None


def test_a_given_up_thread_is_taken_in_with_the_next_replies():
    channel, root, _ = threaded(5)

    def refuse(request):
        if request.scope == "thread":
            raise SummariserError("bad_request", "no")

    run_pass(channel.workspace, MONDAY + hours(3), Scribe(refuse))
    before = Generation.objects.count()
    run_pass(channel.workspace, MONDAY + hours(4), Scribe(refuse))
    assert Generation.objects.count() == before, "what is given up is not asked for again"
    make_reply(root=root, at=MONDAY + hours(5), text="Tokyo it is.")
    run_pass(channel.workspace, MONDAY + hours(8), Scribe())
    version = of_thread(root).current
    assert version.source_message_count == 7
    assert "Reason 0" in version.content and "Tokyo" in version.content
    Generation.objects.get(state="dead").retry()
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(8), scribe)
    assert scribe.asked == [], "all of it has been read since"


# -- history switched off and on


def test_disabled_history_overwrites_nothing_that_is_not_merged_yet(channel):
    channel.workspace.change_settings({"history_enabled": False})

    def no_merges(request):
        if request.additions:
            raise SummariserError("server_error", "no")

    talk(channel, 3, words="Early")
    run_pass(channel.workspace, MONDAY + hours(1), Scribe(no_merges))
    talk(channel, 3, MONDAY + hours(72), words="Later")
    run_pass(channel.workspace, MONDAY + hours(73), Scribe(no_merges))
    Generation.objects.update(not_before=None)
    run_pass(channel.workspace, MONDAY + hours(73), Scribe())
    assert "Early" in long(channel).current.content
    assert "Later" in long(channel).current.content
    assert "Early" not in short(channel).current.content


def test_an_edit_in_an_overwritten_period_does_not_bring_it_back(channel):
    channel.workspace.change_settings({"history_enabled": False})
    first = talk(channel, 3, words="Early")[0]
    run_pass(channel.workspace, MONDAY + hours(1), Scribe())
    talk(channel, 3, MONDAY + hours(72), words="Later")
    run_pass(channel.workspace, MONDAY + hours(73), Scribe())
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(200), Scribe())
    assert "Later" in short(channel).current.content
    assert not Segment.objects.filter(stale=True).exists()


def test_history_switched_off_and_on_again_remembers_each_message_once(channel):
    talk(channel, 60)
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    channel.workspace.change_settings({"history_enabled": False})
    talk(channel, 5, MONDAY + hours(24))
    run_pass(channel.workspace, MONDAY + hours(25), Scribe())
    channel.workspace.change_settings({"history_enabled": True})
    talk(channel, 5, MONDAY + hours(48))
    run_pass(channel.workspace, MONDAY + hours(60), Scribe())
    assert [(s.message_count, s.reason) for s in channel.segments.order_by("number")] == [
        (50, "full"),
        (10, "idle"),
        (5, "history_off"),
        (5, "idle"),
    ]
    assert not Message.objects.waiting().exists()
    numbers = short(channel).versions.order_by("number")
    assert [(v.number, v.segment.number) for v in numbers] == [(1, 1), (2, 3), (3, 4)]


# -- settings changed in the middle


def test_a_lower_threshold_cuts_only_what_still_waits(channel):
    talk(channel, 30)
    run_pass(channel.workspace, MONDAY + timedelta(minutes=31), Scribe())
    channel.workspace.change_settings({"message_threshold": 10})
    run_pass(channel.workspace, MONDAY + timedelta(minutes=31), Scribe())
    assert [s.message_count for s in channel.segments.order_by("number")] == [10, 10, 10]


def test_a_person_edits_the_provisional_text_and_then_the_segment_closes(channel):
    talk(channel, 3)
    run_pass(channel.workspace, MONDAY + timedelta(minutes=5), Scribe())
    short(channel).revise("- my own words", by=None, based_on=1)
    talk(channel, 3, MONDAY + timedelta(minutes=10))
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    versions = short(channel).versions.order_by("number")
    assert [(v.number, v.origin, v.provisional) for v in versions] == [
        (1, "model", True),
        (2, "person", False),
        (3, "model", False),
    ]
    assert short(channel).current.number == 3
    assert "- my own words" in long(channel).current.content
    assert long(channel).current.source_message_count == 6


def test_what_stays_open_is_told_beside_what_was_closed(channel):
    talk(channel, 60)
    report = run_pass(channel.workspace, MONDAY + timedelta(minutes=61), Scribe())
    assert report.closed == {"full": 1}
    assert [(w["new"], w["quiet_s"]) for w in report.waiting] == [(10, 120)]


# -- merges


def test_an_edited_short_term_text_is_counted_once(channel):
    talk(channel, 10)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    short(channel).revise("- my own words", by=None, based_on=1)
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    assert "- my own words" in long(channel).current.content
    assert long(channel).current.source_message_count == 10
    assert workspace_memory(channel).current.source_message_count == 10


def test_an_input_rewritten_before_the_call_is_merged_once(channel):
    first = talk(channel, 3)[0]

    def no_merges(request):
        if request.additions:
            raise SummariserError("server_error", "no")

    run_pass(channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    Generation.objects.update(not_before=None)
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert sum(request.place == "#launch" for request in scribe.asked) == 1
    assert "all different" in long(channel).current.content


def test_an_input_rewritten_during_the_call_is_merged_again(channel, monkeypatch):
    first = talk(channel, 3)[0]

    def edit_and_remake():
        edit(first)
        run_pass(channel.workspace, MONDAY + hours(3), Scribe())

    assert not during(monkeypatch, edit_and_remake, is_merge_of(long(channel)))
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert "all different" in long(channel).current.content
    assert not owe._channels_with_unmerged(channel.workspace).exists()


def test_a_given_up_merge_is_not_asked_again_until_there_is_more(channel):
    def no_merges(request):
        if request.additions:
            raise SummariserError("bad_request", "no")

    talk(channel, 3, words="Early")
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(4), scribe)
    assert scribe.asked == []
    talk(channel, 3, MONDAY + hours(24), words="Later")
    run_pass(channel.workspace, MONDAY + hours(27), scribe)
    assert "Early" in long(channel).current.content and "Later" in long(channel).current.content
    Generation.objects.get(state="dead").retry()
    again = Scribe()
    run_pass(channel.workspace, MONDAY + hours(27), again)
    assert again.asked == [], "its base is no longer the current text"
    assert Generation.objects.filter(state="superseded").count() == 1


def test_a_failure_does_not_keep_the_others_from_the_workspace_memory(channel, monkeypatch):
    """Also when it comes last: nothing else ends after it that could look what is owed."""
    other = remembering(channel.workspace, name="other")
    talk(channel, 3)
    talk(other, 3)
    merged = threading.Event()
    follow_ups = owe.follow_ups

    def look(generation):
        follow_ups(generation)
        if generation.memory_id == long(other).pk:
            merged.set()

    def fail_last(request):
        if request.place == "#launch":
            merged.wait(PATIENCE)
            raise SummariserError("server_error", "no")

    monkeypatch.setattr(owe, "follow_ups", look)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(fail_last))
    assert short(channel).generations.get().state == "waiting"
    assert [v.memory.channel for v in workspace_memory(channel).generations.get().inputs.all()] == [
        other
    ]


@pytest.mark.parametrize("when", ["before the call", "during the call"])
def test_a_channel_made_private_flows_into_the_workspace_no_more(channel, monkeypatch, when):
    hidden = remembering(channel.workspace, name="hidden")
    talk(channel, 3, words="Open")
    talk(hidden, 3, words="Secret")

    def hide():
        hidden.describe({"kind": "private"})

    merge = workspace_memory(channel)
    if when == "during the call":
        during(monkeypatch, hide, is_merge_of(merge))
    else:
        claim = Generation.claim

        def hide_first(generation, now, lease):
            if generation.memory_id == merge.pk:
                hide()
            return claim(generation, now, lease)

        monkeypatch.setattr(Generation, "claim", hide_first)
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    current = workspace_memory(channel).current
    assert "Open" in current.content and "Secret" not in current.content
    assert current.source_message_count == 3
    monkeypatch.undo()
    hidden.describe({"kind": "public"})
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    assert "Secret" in workspace_memory(channel).current.content


def test_a_lone_channel_private_for_a_while_flows_when_it_is_public_again(channel, monkeypatch):
    talk(channel, 3)
    merge = workspace_memory(channel)
    during(monkeypatch, lambda: channel.describe({"kind": "private"}), is_merge_of(merge))
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert workspace_memory(channel).current is None
    channel.describe({"kind": "public"})
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    assert workspace_memory(channel).current is not None


# -- the workspace's short-term memory


def test_the_workspaces_short_term_memory_is_made_only_when_something_changed(channel):
    channel.workspace.change_settings({"workspace_short_term": True})
    other = remembering(channel.workspace, name="other")
    talk(other, 3)
    talk(channel, 3, MONDAY + hours(10))
    run_pass(channel.workspace, MONDAY + hours(13), Scribe())
    memory = workspace_memory(channel, MemoryType.SHORT_TERM)
    assert memory.current.source_message_count == 6
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(30), scribe)  # of one channel nothing is recent
    assert scribe.asked == []
    talk(channel, 4, MONDAY + hours(48))
    run_pass(channel.workspace, MONDAY + hours(52), scribe)
    memory.refresh_from_db()
    assert (memory.current.number, memory.current.source_message_count) == (2, 4)


def test_the_workspaces_short_term_memory_follows_an_edit_made_during_the_call(
    channel, monkeypatch
):
    channel.workspace.change_settings({"workspace_short_term": True})
    talk(channel, 3)
    memory = workspace_memory(channel, MemoryType.SHORT_TERM)
    during(
        monkeypatch,
        lambda: memory.revise("- my own words", by=None, based_on=0),
        is_merge_of(memory),
    )
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    versions = memory.versions.order_by("number")
    assert [(v.number, v.origin) for v in versions] == [(1, "person"), (2, "model")]


# -- what is paid for is kept


def test_a_database_that_refuses_the_closing_costs_no_second_call(channel, monkeypatch):
    talk(channel, 3)
    scribe = Scribe()

    def refused(*args, **options):
        raise OperationalError("deadlock detected")

    with monkeypatch.context() as broken:
        broken.setattr(closing, "write", refused)
        report = run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert report.errors
    assert Generation.objects.get().state == "replied"
    Generation.objects.update(not_before=None)
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert sum(not request.additions for request in scribe.asked) == 1
    assert short(channel).head == 1


def test_a_saved_reply_is_read_by_what_was_asked(channel, monkeypatch):
    """A reference that the request did not have then is unknown, though by now it would be one."""
    channel.workspace.change_settings({"history_enabled": False})
    messages = talk(channel, 3)
    plan_channel(channel.pk, MONDAY + hours(1))
    generation = Generation.objects.get()
    generation.claim(timezone.now(), timedelta(minutes=3))
    question = Asker(channel.workspace).question(generation)
    reply = Reply("- Something. [1, 4]", "stop", "scribe", "scribe-1", calls=1)
    generation.save_reply(reply, question.cites)
    talk(channel, 3, MONDAY + timedelta(minutes=30))  # stored late
    report = run_pass(channel.workspace, MONDAY + hours(1), Scribe())
    assert report.errors == []
    version = MemoryVersion.objects.filter(memory=short(channel)).order_by("number").first()
    assert [list(line.sources.all()) for line in version.lines.all()][0][:1] == [messages[0]]


def test_a_long_call_keeps_its_lease(channel, monkeypatch, settings):
    """A long input takes several calls, one after the other: whoever waits for them says so."""
    settings.MEMORYHUB_LEASE = 0.3
    talk(channel, 3)
    renewed = threading.Event()
    renew = Generation.renew

    def look(generation, now, lease):
        assert renew(generation, now, lease)
        generation.refresh_from_db()
        assert generation.lease_until == now + lease
        renewed.set()

    monkeypatch.setattr(Generation, "renew", look)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(lambda request: renewed.wait(PATIENCE)))
    assert renewed.is_set()
    assert not Generation.objects.exclude(state="done", attempts=1).exists()


def test_what_ends_without_a_call_lets_its_followers_begin(channel):
    """A merge waits for the segment that turns out to be empty."""
    talk(channel, 3)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    short(channel).revise("- my own words", by=None, based_on=1)
    emptied = talk(channel, 3, MONDAY + hours(24))
    plan_channel(channel.pk, MONDAY + hours(27))
    for message in emptied:
        delete(message)
    report = run_pass(channel.workspace, MONDAY + hours(27), Scribe())
    assert "- my own words" in long(channel).current.content
    assert report.left == 0


# -- what a pass costs


def test_quiet_channels_cost_no_query_each(channel, django_assert_max_num_queries):
    for _ in range(30):
        talk(remembering(channel.workspace), 1)
    channel.workspace.change_settings({"thread_memories": True})
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    with django_assert_max_num_queries(20):
        report = run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    assert report.calls == 0


def test_small_threads_wait_unread():
    channel, known, _ = threaded(5)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    make_reply(root=known, at=MONDAY + hours(5), text="Tokyo it is.")
    for n in range(6, 20):
        root = MessageFactory(channel=channel, at=MONDAY + hours(n))
        make_reply(root=root, at=MONDAY + hours(n) + timedelta(minutes=1))
    now_us = to_micros(MONDAY + hours(30))
    assert _threads_to_plan(channel.workspace, now_us) == {(channel.pk, known.ts)}
    assert _threads_to_plan(channel.workspace, now_us, channel=channel) == {(channel.pk, known.ts)}
