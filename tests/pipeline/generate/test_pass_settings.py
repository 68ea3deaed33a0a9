"""Settings that change between two passes: history on and off, a lower threshold."""

from datetime import timedelta

import pytest

from memories.models import Job, Message, Segment
from memories.pipeline.generate.passes import run_pass
from tests.factories import MONDAY
from tests.pipeline.conversations import Scribe, edit, hours, no_merges, remembering, talk
from tests.pipeline.current import long, short

pytestmark = pytest.mark.django_db


@pytest.fixture
def channel(workspace):
    """A private channel: no job merges its memories into those of the workspace."""
    return remembering(workspace, name="launch", kind="private")


@pytest.mark.slow
def test_without_history_an_unmerged_version_is_not_overwritten(channel):
    channel.workspace.change_settings({"history_enabled": False})
    talk(channel, 3, words="Early")
    run_pass(channel.workspace, MONDAY + hours(1), Scribe(no_merges))
    talk(channel, 3, MONDAY + hours(72), words="Later")
    run_pass(channel.workspace, MONDAY + hours(73), Scribe(no_merges))
    Job.objects.update(retry_at=None)
    run_pass(channel.workspace, MONDAY + hours(73), Scribe())
    assert "Early" in long(channel).current.content
    assert "Later" in long(channel).current.content
    assert "Early" not in short(channel).current.content


@pytest.mark.slow
def test_an_edit_in_an_overwritten_period_makes_no_version(channel):
    channel.workspace.change_settings({"history_enabled": False})
    first = talk(channel, 3, words="Early")[0]
    run_pass(channel.workspace, MONDAY + hours(1), Scribe())
    talk(channel, 3, MONDAY + hours(72), words="Later")
    run_pass(channel.workspace, MONDAY + hours(73), Scribe())
    edit(first)
    run_pass(channel.workspace, MONDAY + hours(200), Scribe())
    assert "Later" in short(channel).current.content
    assert not Segment.objects.filter(stale=True).exists()


@pytest.mark.slow
def test_each_message_is_in_one_segment_after_history_was_off_and_on(channel):
    channel.workspace.change_settings({"message_threshold": 10})
    talk(channel, 12)
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    channel.workspace.change_settings({"history_enabled": False})
    talk(channel, 5, MONDAY + hours(24))
    run_pass(channel.workspace, MONDAY + hours(25), Scribe())
    channel.workspace.change_settings({"history_enabled": True})
    talk(channel, 5, MONDAY + hours(48))
    run_pass(channel.workspace, MONDAY + hours(60), Scribe())
    assert [(s.message_count, s.reason) for s in channel.segments.order_by("number")] == [
        (10, "full"),
        (2, "idle"),
        (5, "history_off"),
        (5, "idle"),
    ]
    assert not Message.objects.waiting().exists()
    numbers = short(channel).versions.order_by("number")
    assert [(v.number, v.segment.number) for v in numbers] == [(1, 1), (2, 3), (3, 4)]


@pytest.mark.slow
def test_a_lower_threshold_applies_to_waiting_messages(channel):
    talk(channel, 30)
    run_pass(channel.workspace, MONDAY + timedelta(minutes=31), Scribe())
    channel.workspace.change_settings({"message_threshold": 10})
    run_pass(channel.workspace, MONDAY + timedelta(minutes=31), Scribe())
    assert [s.message_count for s in channel.segments.order_by("number")] == [10, 10, 10]
