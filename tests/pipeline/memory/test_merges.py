"""Merges: their start, their failures, and the channels that the workspace's memory reads."""

import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from memories.llm import OfflineSummariser
from memories.models import Job, Reader
from memories.pipeline.context.build import build_context
from memories.pipeline.generate import followups
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.plan import plan_channel
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import SummariserError
from tests.factories import MONDAY, UserFactory
from tests.pipeline.conversations import (
    Scribe,
    delete,
    during,
    hours,
    is_merge_of,
    remembering,
    talk,
)
from tests.pipeline.current import long, short, workspace_memory
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_a_segment_without_a_call_lets_the_merge_begin(channel):
    """The merge waits for a segment that is empty."""
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


@pytest.mark.slow
def test_a_dead_merge_waits_for_new_texts(channel):
    def no_merges(request):
        if request.additions:
            raise SummariserError("bad_request", "no")

    talk(channel, 3, words="Early")
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(4), scribe)
    assert scribe.requests == []
    talk(channel, 3, MONDAY + hours(24), words="Later")
    run_pass(channel.workspace, MONDAY + hours(27), scribe)
    assert "Early" in long(channel).current.content and "Later" in long(channel).current.content
    Job.objects.get(state="dead", memory__scope="channel").retry()
    again = Scribe()
    run_pass(channel.workspace, MONDAY + hours(27), again)
    assert again.requests == [], "its base is no longer the current text"
    assert Job.objects.filter(state="superseded").count() == 1


@pytest.mark.slow
def test_a_failed_channel_does_not_block_the_workspace_memory(channel, monkeypatch):
    """This is true even if it fails last, when no later job can schedule the merge."""
    second = remembering(channel.workspace, name="other")
    talk(channel, 3)
    talk(second, 3)
    merged = threading.Event()
    follow_ups = followups.schedule_followups

    def look(job):
        follow_ups(job)
        if job.memory_id == long(second).pk:
            merged.set()

    def fail_last(request):
        if request.scope_name == "#launch":
            merged.wait(PATIENCE)
            raise SummariserError("server_error", "no")

    monkeypatch.setattr(followups, "schedule_followups", look)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(fail_last))
    assert short(channel).jobs.get().state == "waiting"
    assert [v.memory.channel for v in workspace_memory(channel).jobs.get().inputs.all()] == [second]


@pytest.mark.slow
def test_a_job_over_its_budget_blocks_no_merges(workspace, channel):
    """The first segment waits for its budget. The second one has a reply and waits for the first."""
    talk(channel, 10, MONDAY)
    talk(channel, 10, MONDAY + timedelta(days=1))
    second = remembering(workspace)
    talk(second, 10, MONDAY)
    now = MONDAY + timedelta(days=30)
    plan_channel(channel.pk, now)
    until = timezone.now() + timedelta(days=20)
    first = short(channel).jobs.order_by("segment__number").first()
    Job.objects.filter(pk=first.pk).update(retry_at=until, fault="over_budget")
    for _ in range(3):
        run_pass(workspace, now, Scribe())
    assert workspace_memory(second).head == 1


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the call", "during the call"])
def test_a_channel_made_private_leaves_the_workspace_memory(channel, monkeypatch, when):
    hidden = remembering(channel.workspace, name="hidden")
    talk(channel, 3, words="Open")
    talk(hidden, 3, words="Secret")

    def hide():
        hidden.update_fields({"kind": "private"})

    merge = workspace_memory(channel)
    if when == "during the call":
        during(monkeypatch, hide, is_merge_of(merge))
    else:
        claim = Job.claim

        def hide_first(job, now, lease):
            if job.memory_id == merge.pk:
                hide()
            return claim(job, now, lease)

        monkeypatch.setattr(Job, "claim", hide_first)
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    current = workspace_memory(channel).current
    assert "Open" in current.content and "Secret" not in current.content
    assert current.source_message_count == 3
    monkeypatch.undo()
    hidden.update_fields({"kind": "public"})
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    assert "Secret" in workspace_memory(channel).current.content


@pytest.mark.slow
def test_a_channel_made_public_again_is_in_the_workspace_memory(channel, monkeypatch):
    talk(channel, 3)
    merge = workspace_memory(channel)
    during(monkeypatch, lambda: channel.update_fields({"kind": "private"}), is_merge_of(merge))
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert workspace_memory(channel).current is None
    channel.update_fields({"kind": "public"})
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    assert workspace_memory(channel).current is not None


@pytest.mark.slow
def test_the_workspaces_short_term_memory_needs_a_change(channel):
    channel.workspace.change_settings({"workspace_short_term": True})
    second = remembering(channel.workspace, name="other")
    talk(second, 3)
    talk(channel, 3, MONDAY + hours(10))
    run_pass(channel.workspace, MONDAY + hours(13), Scribe())
    memory = workspace_memory(channel, MemoryType.SHORT_TERM)
    assert memory.current.source_message_count == 6
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(30), scribe)  # of one channel nothing is recent
    assert scribe.requests == []
    talk(channel, 4, MONDAY + hours(48))
    run_pass(channel.workspace, MONDAY + hours(52), scribe)
    memory.refresh_from_db()
    assert (memory.current.number, memory.current.source_message_count) == (2, 4)


@pytest.mark.slow
def test_a_persons_line_keeps_its_author_in_the_workspace_memory(channel):
    """In the channel it is protected. In the workspace's memory, newer news may replace it."""
    anna = UserFactory()
    talk(channel, 3, words="Decision: step")
    run_pass(channel.workspace, MONDAY + hours(3), OfflineSummariser())
    base = long(channel).current
    long(channel).revise(
        f"{base.content}\n- Anna decided: the launch is on 26 Nov", by=anna, based_on=base.number
    )
    run_pass(channel.workspace, MONDAY + hours(4), OfflineSummariser())
    lines = workspace_memory(channel).current.lines
    [line] = lines.filter(text__contains="26 Nov")
    assert (line.author, line.origin) == (anna, "model")
    assert not lines.exclude(pk=line.pk).filter(author__isnull=False).exists()
    text = build_context(channel.workspace, Reader.public(), now=MONDAY + hours(5)).text
    of_workspace = text.partition("## Workspace")[2].partition("## #launch")[0]
    assert f"26 Nov (written by {anna.username})" in of_workspace


@pytest.mark.slow
def test_a_pinned_line_is_pinned_in_the_workspaces_long_term_memory(channel):
    talk(channel, 3, words="Decision: step")
    run_pass(channel.workspace, MONDAY + hours(3), OfflineSummariser())
    base = long(channel).current
    new_line = "- Decided: the launch is on 26 Nov"
    long(channel).revise(f"{base.content}\n{new_line}", by=None, based_on=base.number)
    pinned = long(channel).current.lines.get(text=new_line)
    long(channel).pin(pinned.position, by=None, based_on=2)
    run_pass(channel.workspace, MONDAY + hours(4), OfflineSummariser())
    lines = workspace_memory(channel).current.lines.filter(pinned=True)
    assert [line.text for line in lines] == [new_line]


@pytest.mark.slow
def test_a_pinned_line_is_not_pinned_in_the_workspaces_short_term_memory(channel):
    channel.workspace.change_settings({"workspace_short_term": True})
    talk(channel, 3, words="Decision: step")
    run_pass(channel.workspace, MONDAY + hours(3), OfflineSummariser())
    version = short(channel).current
    pinned = version.lines.order_by("position").last()
    short(channel).pin(pinned.position, by=None, based_on=version.number)
    another = remembering(channel.workspace)
    talk(another, 3, MONDAY + hours(4), words="Decision: move")
    run_pass(channel.workspace, MONDAY + hours(7), OfflineSummariser())
    lines = workspace_memory(channel, MemoryType.SHORT_TERM).current.lines
    assert [line.pinned for line in lines.filter(text=pinned.text)] == [False]
