"""Rebuilds: a proposal of a whole long-term memory, with protected lines and later changes."""

from datetime import timedelta

import pytest

from memories.llm import OfflineSummariser
from memories.models import AuditEvent, Job, Memory, MemoryVersion, NewVersion, StaleBase
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.update_now import rebuild
from memories.pipeline.memory import proposals
from memories.pipeline.redaction import forget
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line, Origin
from tests.factories import (
    MONDAY,
    UserFactory,
    make_segment,
    make_version,
    make_workspace_memory,
)
from tests.pipeline.conversations import Scribe, edit, hours, talk
from tests.pipeline.current import long, workspace_memory

pytestmark = pytest.mark.django_db

FIRST, SECOND = "The launch of the big plan", "The budget of the next plan"


@pytest.fixture
def memory(channel):
    """A merge of two short-term versions. A person has pinned, added and removed a line."""
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    texts = []
    for number, words in enumerate((FIRST, SECOND)):
        messages = talk(channel, 3, MONDAY + hours(24 * number), words=words)
        segment = make_segment(messages=messages, outcome="remembered")
        texts += [f"- {message.text}" for message in messages]
        sources = {"sources": messages, "segment": segment}
        make_version(memory=short, text="\n".join(texts[-3:]), **sources)
    short.versions.update(merged=True)
    memory = long(channel)
    make_version(memory=memory, text="\n".join(texts), until=MONDAY + hours(25))
    memory.pin(0, by=None, based_on=1, pinned=True)
    theirs = "\n".join([*texts[:5], "- Anna's own word."])
    memory.revise(theirs, by=None, based_on=1)
    return long(channel)


def remembered(channel, at, words):
    talk(channel, 3, at, words=words)
    run_pass(channel.workspace, at + hours(3), Scribe())


def rebuilt(memory, summariser=None):
    """The proposal of a rebuild."""
    job = rebuild(memory, None, MONDAY + hours(48))
    run_pass(memory.workspace, MONDAY + hours(48), summariser or Scribe())
    return Job.objects.with_memory().get(pk=job.pk)


@pytest.mark.slow
@pytest.mark.parametrize("summariser", [Scribe(), OfflineSummariser()], ids=["model", "offline"])
def test_a_rebuild_reads_all_short_term_versions(memory, summariser):
    before = memory.current.content
    job = rebuilt(memory, summariser=summariser)
    assert job.state == Job.State.PROPOSED
    assert long(memory.channel).current.content == before
    assert job.input_rows.count() == 2 and proposals.find_proposal(memory) == job
    text = "\n".join(line.text for line in proposals.proposed_lines(job))
    assert FIRST in text and SECOND in text and "- Anna's own word." in text


def test_protected_lines_are_shown_as_background(memory):
    scribe = Scribe()
    rebuilt(memory, summariser=scribe)
    [request] = [request for request in scribe.requests if len(request.additions) == 2]
    assert not request.existing
    assert "Anna's own word." in request.references[-1].text


@pytest.mark.slow
def test_an_approved_rebuild_keeps_pins_people_and_origins(memory):
    old = {line.text: line for line in memory.current.line_values()}
    job = rebuilt(memory)
    version = proposals.approve(job, by=UserFactory(username="anna"))
    assert version.number == memory.head + 1 and long(memory.channel).current == version
    new = {line.text: line for line in version.line_values()}
    assert len(new) == len(old) + 1, "what a person had dropped is there again"
    for text, line in old.items():
        assert (new[text].origin, new[text].pinned, new[text].since) == (
            line.origin,
            line.pinned,
            line.since,
        )
    assert version.put_back == [] and len(version.kept) == 2
    assert version.trigger["reason"] == "rebuild"
    assert AuditEvent.objects.get(action="proposal_accept").actor == "anna"
    scribe = Scribe()
    run_pass(memory.workspace, MONDAY + hours(48), scribe)
    assert {request.scope for request in scribe.requests} == {"workspace"}, "nothing else is owed"


def test_a_rejected_rebuild_changes_nothing(memory):
    job = rebuilt(memory)
    before = list(MemoryVersion.objects.order_by("pk").values("pk", "content", "merged"))
    assert proposals.reject(job, by=None)
    assert (
        long(memory.channel).current == memory.current and proposals.find_proposal(memory) is None
    )
    assert list(MemoryVersion.objects.order_by("pk").values("pk", "content", "merged")) == before


@pytest.mark.slow
def test_texts_merged_during_a_rebuild_are_merged_again(memory):
    job = rebuilt(memory)
    remembered(memory.channel, MONDAY + hours(72), "The hiring of a designer")
    assert "hiring" in long(memory.channel).current.content
    job = Job.objects.with_memory().get(pk=job.pk)
    assert job.state == Job.State.PROPOSED, "a later merge does not take its place"
    version = proposals.approve(job, by=None)
    assert "hiring" not in version.content and long(memory.channel).current == version
    run_pass(memory.workspace, MONDAY + hours(75), Scribe())
    content = long(memory.channel).current.content
    assert all(words in content for words in (FIRST, SECOND, "hiring", "Anna's own word"))


@pytest.mark.slow
def test_a_merge_does_not_wait_for_a_rebuild(memory):
    rebuild(memory, None, MONDAY + hours(48))
    Job.objects.rebuilds().update(retry_at=MONDAY + timedelta(days=9_000))
    remembered(memory.channel, MONDAY + hours(72), "The hiring of a designer")
    assert "hiring" in long(memory.channel).current.content


@pytest.mark.slow
def test_a_new_rebuild_replaces_an_older_one(memory):
    first = rebuild(memory, None, MONDAY + hours(48))
    assert rebuild(memory, None, MONDAY + hours(48)) == first
    run_pass(memory.workspace, MONDAY + hours(48), Scribe())
    second = rebuilt(memory)
    assert second != first and proposals.find_proposal(memory) == second
    first.refresh_from_db()
    assert first.state == Job.State.SUPERSEDED
    assert AuditEvent.objects.filter(action="memory_rebuild").count() == 3


@pytest.mark.slow
def test_an_input_rewritten_before_the_call_is_read_again(memory):
    job = rebuild(memory, None, MONDAY + hours(48))
    first = job.input_rows.first().version
    line = Line("- The launch was cancelled for good.", Origin.MODEL)
    first.rewrite(NewVersion(lines=[line], origin=Origin.MODEL, segment=first.segment))
    run_pass(memory.workspace, MONDAY + hours(48), Scribe())
    job.refresh_from_db()
    assert job.state == Job.State.SUPERSEDED
    text = "\n".join(
        line.text for line in proposals.proposed_lines(proposals.find_proposal(memory))
    )
    assert "cancelled for good" in text


@pytest.mark.slow
def test_an_input_rewritten_after_the_call_makes_it_stale(channel, memory):
    job = rebuilt(memory)
    edit(channel.messages.order_by("micros").first(), "The launch was cancelled for good.")
    run_pass(memory.workspace, MONDAY + hours(49), Scribe())
    with pytest.raises(StaleBase):
        proposals.approve(Job.objects.with_memory().get(pk=job.pk), by=None)


@pytest.mark.slow
def test_redacted_words_leave_the_proposal(channel, memory):
    job = rebuilt(memory)
    forget.forget_message(channel, channel.messages.order_by("micros").first().ts, by=None)
    job.refresh_from_db()
    assert job.reply is None and job.state != Job.State.PROPOSED


@pytest.mark.slow
def test_a_workspace_rebuild_reads_the_channels(channel, memory):
    make_workspace_memory(workspace=channel.workspace, texts=["- Nothing is known yet."])
    job = rebuilt(workspace_memory(channel))
    assert [read.version.memory_id for read in job.input_rows.all()] == [memory.pk]
    head = workspace_memory(channel).head
    assert proposals.approve(job, by=None).number == head + 1


@pytest.mark.slow
def test_an_equal_text_is_no_proposal(memory):
    proposals.approve(rebuilt(memory), by=None)
    again = rebuilt(long(memory.channel))
    assert again.state == Job.State.DONE and proposals.find_proposal(memory) is None


def test_a_memory_without_a_text_is_not_rebuilt(channel):
    assert rebuild(long(channel), None, MONDAY) is None


@pytest.mark.slow
def test_the_drift_is_that_from_the_current_text(memory):
    job = rebuilt(memory)
    remembered(memory.channel, MONDAY + hours(72), "The hiring by Zoe for 900 dollars")
    job = Job.objects.with_memory().get(pk=job.pk)
    lost_by_kind = {drift.kind.value: drift.lost for drift in proposals.proposal_drift(job)}
    assert "900" in lost_by_kind["number"] and lost_by_kind["name"] == ("Zoe",)
