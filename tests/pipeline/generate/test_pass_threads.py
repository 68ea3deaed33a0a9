"""The memories of threads: edits, late replies, lost follow-ups and dead jobs."""

from datetime import timedelta

import pytest

from memories.models import Job, Memory, Message, Segment
from memories.pipeline.generate import followups
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.plan import plan_channel, threads_to_plan
from memories.rules.ingest.timestamps import to_micros
from memories.rules.summariser import SummariserError
from tests.factories import MONDAY, MessageFactory, make_reply
from tests.pipeline.conversations import (
    Scribe,
    delete,
    during,
    edit,
    hours,
    is_merge_of,
    of_thread,
    threaded,
)

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_new_replies_and_edits_rewrite_the_one_version_of_a_thread():
    channel, root, made = threaded(5)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    last = make_reply(root=root, at=MONDAY + hours(5), text="Tokyo it is.")
    run_pass(channel.workspace, MONDAY + hours(8), Scribe())
    version = of_thread(root).current
    assert (version.number, version.revision, version.source_message_count) == (1, 1, 7)
    replies = Message.objects.filter(thread_ts=root.ts)
    assert all(reply.thread_segment_id and reply.segment_id for reply in replies)
    edit(made[0])
    delete(made[1])
    run_pass(channel.workspace, MONDAY + hours(9), Scribe())
    version = of_thread(root).current
    assert "all different" in version.content and "Tokyo" in version.content
    assert "Reason 0" not in version.content and "Reason 1" not in version.content
    assert (version.number, version.revision) == (1, 2)
    assert (version.source_message_count, version.source_latest_message_ts) == (6, last.ts)


@pytest.mark.slow
def test_an_edit_in_a_thread_during_the_call_is_not_lost(monkeypatch):
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


@pytest.mark.slow
def test_a_late_reply_keeps_the_newest_ts_of_the_thread():
    channel, root, made = threaded(5)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    make_reply(root=root, at=MONDAY + timedelta(seconds=90), text="Late, and early.")
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    version = of_thread(root).current
    assert version.source_latest_message_ts == made[-1].ts
    assert version.source_message_count == 7


@pytest.mark.slow
def test_the_next_pass_schedules_a_thread_whose_follow_up_was_lost(monkeypatch):
    channel, root, _ = threaded(5)
    with monkeypatch.context() as lost:
        lost.setattr(followups, "schedule_thread", lambda memory, as_of_us: None)
        run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert of_thread(root).current is not None


@pytest.mark.slow
def test_the_job_after_a_dead_thread_job_includes_its_messages():
    channel, root, _ = threaded(5)

    def refuse(request):
        if request.scope == "thread":
            raise SummariserError("bad_request", "no")

    run_pass(channel.workspace, MONDAY + hours(3), Scribe(refuse))
    before = Job.objects.count()
    run_pass(channel.workspace, MONDAY + hours(4), Scribe(refuse))
    assert Job.objects.count() == before
    make_reply(root=root, at=MONDAY + hours(5), text="Tokyo it is.")
    run_pass(channel.workspace, MONDAY + hours(8), Scribe())
    version = of_thread(root).current
    assert version.source_message_count == 7
    assert "Reason 0" in version.content and "Tokyo" in version.content
    Job.objects.get(state="dead").retry()
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(8), scribe)
    assert scribe.requests == []


@pytest.mark.slow
def test_short_threads_are_not_planned():
    channel, remembered, _ = threaded(5)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    make_reply(root=remembered, at=MONDAY + hours(5), text="Tokyo it is.")
    for n in range(6, 20):
        root = MessageFactory(channel=channel, at=MONDAY + hours(n))
        make_reply(root=root, at=MONDAY + hours(n) + timedelta(minutes=1))
    now_us = to_micros(MONDAY + hours(30))
    assert threads_to_plan(channel.workspace, now_us) == {(channel.pk, remembered.ts)}
    assert threads_to_plan(channel.workspace, now_us, channel=channel) == {
        (channel.pk, remembered.ts)
    }
