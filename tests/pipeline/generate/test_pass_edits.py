"""Edits and deletions before, during and after a pass."""

from datetime import timedelta

import pytest
from django.utils import timezone

from memories.models import Job, Segment
from memories.pipeline.generate import followups
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.plan import plan_channel
from memories.pipeline.generate.requests import RequestBuilder
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY
from tests.pipeline.conversations import (
    Scribe,
    delete,
    during,
    edit,
    hours,
    is_merge_of,
    no_merges,
    remembering,
    talk,
)
from tests.pipeline.current import long, short, workspace_memory

pytestmark = pytest.mark.django_db


@pytest.fixture
def channel(workspace):
    """A private channel: no job merges its memories into those of the workspace."""
    return remembering(workspace, name="launch", kind="private")


@pytest.fixture
def public_channel(workspace):
    return remembering(workspace, name="launch")


# Messages


@pytest.mark.slow
def test_a_reply_from_before_an_edit_does_not_replace_the_new_text(channel):
    """A slow worker built its request before the edit, and another one has made the new text."""
    first = talk(channel, 3)[0]
    run_pass(channel.workspace, MONDAY + timedelta(minutes=1))
    plan_channel(channel.pk, MONDAY + hours(3))
    slow = channel.segments.get().jobs.get()
    assert slow.claim(timezone.now(), timedelta(minutes=3))
    job_request = RequestBuilder(channel.workspace).build(slow)
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    slow.save_reply(Scribe().summarise(job_request.request), job_request.sources)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert "all different" in short(channel).current.content
    assert "Step 05.09.0 " not in short(channel).current.content
    assert not Job.objects.unfinished().exists()


@pytest.mark.slow
def test_a_new_text_of_a_segment_keeps_the_lines_of_a_person(channel):
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


@pytest.mark.slow
def test_a_restored_version_stays_after_an_edit_of_an_older_segment(channel):
    first = talk(channel, 3)[0]
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    talk(channel, 3, MONDAY + hours(24))
    run_pass(channel.workspace, MONDAY + hours(27), Scribe())
    kept = short(channel).restore(short(channel).versions.get(number=1), by=None, based_on=2)
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(28), Scribe())
    assert short(channel).current == kept


@pytest.mark.slow
def test_a_segment_with_only_deleted_messages_makes_no_call(channel):
    messages = talk(channel, 3)
    run_pass(channel.workspace, MONDAY + timedelta(minutes=5), Scribe())
    plan_channel(channel.pk, MONDAY + hours(3))
    for message in messages:
        delete(message)
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert scribe.requests == []
    assert channel.segments.get().outcome == Segment.Outcome.SKIPPED


@pytest.mark.slow
def test_an_input_that_changes_before_the_call_is_merged_once(channel):
    first = talk(channel, 3)[0]
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    Job.objects.update(retry_at=None)
    scribe = Scribe()
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert sum(request.place == "#launch" for request in scribe.requests) == 1
    assert "all different" in long(channel).current.content


@pytest.mark.slow
def test_an_input_that_changes_during_the_call_is_merged_again(channel, monkeypatch):
    first = talk(channel, 3)[0]

    def edit_and_remake():
        edit(first)
        run_pass(channel.workspace, MONDAY + hours(3), Scribe())

    assert not during(monkeypatch, edit_and_remake, is_merge_of(long(channel)))
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert "all different" in long(channel).current.content
    assert not followups.channels_with_unmerged(channel.workspace).exists()


# Texts of memories


@pytest.mark.slow
def test_an_edited_provisional_text_stays_when_its_segment_closes(channel):
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


@pytest.mark.slow
def test_messages_of_an_edited_version_are_counted_once(public_channel):
    talk(public_channel, 10)
    run_pass(public_channel.workspace, MONDAY + hours(3), Scribe())
    short(public_channel).revise("- my own words", by=None, based_on=1)
    run_pass(public_channel.workspace, MONDAY + hours(4), Scribe())
    assert "- my own words" in long(public_channel).current.content
    assert long(public_channel).current.source_message_count == 10
    assert workspace_memory(public_channel).current.source_message_count == 10


@pytest.mark.slow
def test_a_workspace_merge_is_made_again_after_an_edit_during_the_call(public_channel, monkeypatch):
    public_channel.workspace.change_settings({"workspace_short_term": True})
    talk(public_channel, 3)
    memory = workspace_memory(public_channel, MemoryType.SHORT_TERM)
    during(
        monkeypatch,
        lambda: memory.revise("- my own words", by=None, based_on=0),
        is_merge_of(memory),
    )
    run_pass(public_channel.workspace, MONDAY + hours(3), Scribe())
    versions = memory.versions.order_by("number")
    assert [(v.number, v.origin) for v in versions] == [(1, "person"), (2, "model")]
