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
    talk,
)
from tests.pipeline.current import long, short, workspace_memory

pytestmark = pytest.mark.django_db


# Messages


@pytest.mark.slow
def test_a_reply_from_before_an_edit_does_not_replace_the_new_text(private_channel):
    """A slow worker built its request before the edit, and another one has made the new text."""
    first = talk(private_channel, 3)[0]
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=1))
    plan_channel(private_channel.pk, MONDAY + hours(3))
    slow = private_channel.segments.get().jobs.get()
    assert slow.claim(timezone.now(), timedelta(minutes=3))
    job_request = RequestBuilder(private_channel.workspace).build(slow)
    edit(first)
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    slow.save_reply(Scribe().summarise(job_request.request), job_request.sources)
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    assert "all different" in short(private_channel).current.content
    assert "Step 05.09.0 " not in short(private_channel).current.content
    assert not Job.objects.unfinished().exists()


@pytest.mark.slow
def test_a_new_text_of_a_segment_keeps_the_lines_of_a_person(private_channel):
    first = talk(private_channel, 3)[0]
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    short(private_channel).revise("- my own words", by=None, based_on=1)
    edit(first)
    for text in ("It was all different.", "It was different again."):
        edit(first, text, MONDAY + timedelta(days=len(text)))
        run_pass(private_channel.workspace, MONDAY + hours(4), Scribe())
        versions = list(short(private_channel).versions.order_by("number"))
        assert [(v.number, v.origin) for v in versions] == [
            (1, "model"),
            (2, "person"),
            (3, "model"),
        ]
        assert versions[1].content == "- my own words"
        assert short(private_channel).current == versions[2]
        assert text in versions[2].content and "- my own words" in versions[2].content
        assert text in long(private_channel).current.content


@pytest.mark.slow
def test_a_restored_version_stays_after_an_edit_of_an_older_segment(private_channel):
    first = talk(private_channel, 3)[0]
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    talk(private_channel, 3, MONDAY + hours(24))
    run_pass(private_channel.workspace, MONDAY + hours(27), Scribe())
    kept = short(private_channel).restore(
        short(private_channel).versions.get(number=1), by=None, based_on=2
    )
    edit(first)
    run_pass(private_channel.workspace, MONDAY + hours(28), Scribe())
    assert short(private_channel).current == kept


@pytest.mark.slow
def test_a_segment_with_only_deleted_messages_makes_no_call(private_channel):
    messages = talk(private_channel, 3)
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=5), Scribe())
    plan_channel(private_channel.pk, MONDAY + hours(3))
    for message in messages:
        delete(message)
    scribe = Scribe()
    run_pass(private_channel.workspace, MONDAY + hours(3), scribe)
    assert scribe.requests == []
    assert private_channel.segments.get().outcome == Segment.Outcome.SKIPPED


@pytest.mark.slow
def test_an_input_that_changes_before_the_call_is_merged_once(private_channel):
    first = talk(private_channel, 3)[0]
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    edit(first)
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe(no_merges))
    Job.objects.update(retry_at=None)
    scribe = Scribe()
    run_pass(private_channel.workspace, MONDAY + hours(3), scribe)
    assert sum(request.scope_name == "#launch" for request in scribe.requests) == 1
    assert "all different" in long(private_channel).current.content


@pytest.mark.slow
def test_an_input_that_changes_during_the_call_is_merged_again(private_channel, monkeypatch):
    first = talk(private_channel, 3)[0]

    def edit_and_remake():
        edit(first)
        run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())

    assert not during(monkeypatch, edit_and_remake, is_merge_of(long(private_channel)))
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    assert "all different" in long(private_channel).current.content
    assert not followups.channels_with_unmerged(private_channel.workspace).exists()


# Texts of memories


@pytest.mark.slow
def test_an_edited_provisional_text_stays_when_its_segment_closes(private_channel):
    talk(private_channel, 3)
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=5), Scribe())
    short(private_channel).revise("- my own words", by=None, based_on=1)
    talk(private_channel, 3, MONDAY + timedelta(minutes=10))
    run_pass(private_channel.workspace, MONDAY + hours(4), Scribe())
    versions = short(private_channel).versions.order_by("number")
    assert [(v.number, v.origin, v.provisional) for v in versions] == [
        (1, "model", True),
        (2, "person", False),
        (3, "model", False),
    ]
    assert short(private_channel).current.number == 3
    assert "- my own words" in long(private_channel).current.content
    assert long(private_channel).current.source_message_count == 6


@pytest.mark.slow
def test_messages_of_an_edited_version_are_counted_once(channel):
    talk(channel, 10)
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    short(channel).revise("- my own words", by=None, based_on=1)
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    assert "- my own words" in long(channel).current.content
    assert long(channel).current.source_message_count == 10
    assert workspace_memory(channel).current.source_message_count == 10


@pytest.mark.slow
def test_a_workspace_merge_is_made_again_after_an_edit_during_the_call(channel, monkeypatch):
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
