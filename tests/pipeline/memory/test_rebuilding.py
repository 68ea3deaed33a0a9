"""A long-term memory made anew waits for a person's word; what people hold and what came later stays."""

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
    """MergeResult from two short-term versions. A person has pinned a line, added one and dropped one."""
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
    """The proposal of a rebuild that was asked for and made."""
    job = rebuild(memory, None, MONDAY + hours(48))
    run_pass(memory.workspace, MONDAY + hours(48), summariser or Scribe())
    return Job.objects.with_memory().get(pk=job.pk)


@pytest.mark.parametrize("summariser", [Scribe(), OfflineSummariser()], ids=["model", "offline"])
def test_it_reads_every_short_term_version_and_waits(memory, summariser):
    before = memory.current.content
    job = rebuilt(memory, summariser=summariser)
    assert job.state == Job.State.PROPOSED
    assert long(memory.channel).current.content == before
    assert job.read.count() == 2 and proposals.find_proposal(memory) == job
    text = "\n".join(line.text for line in proposals.proposed_lines(job))
    assert FIRST in text and SECOND in text and "- Anna's own word." in text


def test_the_model_is_shown_what_people_hold_as_background(memory):
    scribe = Scribe()
    rebuilt(memory, summariser=scribe)
    [request] = [request for request in scribe.asked if len(request.additions) == 2]
    assert not request.existing
    assert "Anna's own word." in request.references[-1].text


@pytest.mark.slow
def test_accepted_it_keeps_pins_people_and_origins(memory):
    old = {line.text: line for line in memory.current.line_values()}
    job = rebuilt(memory)
    version = proposals.accept(job, by=UserFactory(username="anna"))
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
    assert {request.scope for request in scribe.asked} == {"workspace"}, "nothing else is owed"


def test_rejected_it_changes_nothing(memory):
    job = rebuilt(memory)
    before = list(MemoryVersion.objects.order_by("pk").values("pk", "content", "merged"))
    assert proposals.reject(job, by=None)
    assert (
        long(memory.channel).current == memory.current and proposals.find_proposal(memory) is None
    )
    assert list(MemoryVersion.objects.order_by("pk").values("pk", "content", "merged")) == before


@pytest.mark.slow
def test_what_is_merged_meanwhile_is_merged_again(memory):
    job = rebuilt(memory)
    remembered(memory.channel, MONDAY + hours(72), "The hiring of a designer")
    assert "hiring" in long(memory.channel).current.content
    job = Job.objects.with_memory().get(pk=job.pk)
    assert job.state == Job.State.PROPOSED, "a later merge does not take its place"
    version = proposals.accept(job, by=None)
    assert "hiring" not in version.content and long(memory.channel).current == version
    run_pass(memory.workspace, MONDAY + hours(75), Scribe())
    content = long(memory.channel).current.content
    assert all(words in content for words in (FIRST, SECOND, "hiring", "Anna's own word"))


@pytest.mark.slow
def test_a_merge_does_not_wait_for_it(memory):
    rebuild(memory, None, MONDAY + hours(48))
    Job.objects.rebuilds().update(not_before=MONDAY + timedelta(days=9_000))
    remembered(memory.channel, MONDAY + hours(72), "The hiring of a designer")
    assert "hiring" in long(memory.channel).current.content


@pytest.mark.slow
def test_one_at_a_time_and_the_newest_counts(memory):
    first = rebuild(memory, None, MONDAY + hours(48))
    assert rebuild(memory, None, MONDAY + hours(48)) == first
    run_pass(memory.workspace, MONDAY + hours(48), Scribe())
    second = rebuilt(memory)
    assert second != first and proposals.find_proposal(memory) == second
    first.refresh_from_db()
    assert first.state == Job.State.SUPERSEDED
    assert AuditEvent.objects.filter(action="memory_rebuild").count() == 3


@pytest.mark.slow
def test_a_text_that_is_reworded_before_the_call_is_read_anew(memory):
    job = rebuild(memory, None, MONDAY + hours(48))
    first = job.read.first().version
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
def test_a_text_that_is_reworded_afterwards_makes_it_stale(channel, memory):
    job = rebuilt(memory)
    edit(channel.messages.order_by("micros").first(), "The launch was cancelled for good.")
    run_pass(memory.workspace, MONDAY + hours(49), Scribe())
    with pytest.raises(StaleBase):
        proposals.accept(Job.objects.with_memory().get(pk=job.pk), by=None)


@pytest.mark.slow
def test_what_is_forgotten_leaves_the_proposal(channel, memory):
    job = rebuilt(memory)
    forget.message(channel, channel.messages.order_by("micros").first().ts, by=None)
    job.refresh_from_db()
    assert job.reply is None and job.state != Job.State.PROPOSED


def test_the_workspaces_is_made_from_the_channels(channel, memory):
    make_workspace_memory(workspace=channel.workspace, texts=["- Nothing is known yet."])
    job = rebuilt(workspace_memory(channel))
    assert [read.version.memory_id for read in job.read.all()] == [memory.pk]
    head = workspace_memory(channel).head
    assert proposals.accept(job, by=None).number == head + 1


@pytest.mark.slow
def test_a_text_that_comes_out_the_same_is_no_proposal(memory):
    proposals.accept(rebuilt(memory), by=None)
    again = rebuilt(long(memory.channel))
    assert again.state == Job.State.DONE and proposals.find_proposal(memory) is None


def test_without_a_text_there_is_nothing_to_rebuild(channel):
    assert rebuild(long(channel), None, MONDAY) is None


@pytest.mark.slow
def test_the_drift_is_held_against_the_text_as_it_is_now(memory):
    job = rebuilt(memory)
    remembered(memory.channel, MONDAY + hours(72), "The hiring by Zoe for 900 dollars")
    job = Job.objects.with_memory().get(pk=job.pk)
    found = {one.kind.value: one.lost for one in proposals.proposal_drift(job)}
    assert "900" in found["number"] and found["name"] == ("Zoe",)
