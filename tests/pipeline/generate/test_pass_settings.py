"""Settings that change between two passes: history on and off, a lower threshold."""

from datetime import timedelta

import pytest

from memories.models import Job, Message, Segment
from memories.pipeline.generate.passes import run_pass
from tests.factories import MONDAY
from tests.pipeline.conversations import Scribe, edit, hours, no_merges, talk
from tests.pipeline.current import long, short

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_without_history_an_unmerged_version_is_not_overwritten(private_channel):
    private_channel.workspace.change_settings({"history_enabled": False})
    talk(private_channel, 3, words="Early")
    run_pass(private_channel.workspace, MONDAY + hours(1), Scribe(no_merges))
    talk(private_channel, 3, MONDAY + hours(72), words="Later")
    run_pass(private_channel.workspace, MONDAY + hours(73), Scribe(no_merges))
    Job.objects.update(retry_at=None)
    run_pass(private_channel.workspace, MONDAY + hours(73), Scribe())
    assert "Early" in long(private_channel).current.content
    assert "Later" in long(private_channel).current.content
    assert "Early" not in short(private_channel).current.content


@pytest.mark.slow
def test_an_edit_in_an_overwritten_period_makes_no_version(private_channel):
    private_channel.workspace.change_settings({"history_enabled": False})
    first = talk(private_channel, 3, words="Early")[0]
    run_pass(private_channel.workspace, MONDAY + hours(1), Scribe())
    talk(private_channel, 3, MONDAY + hours(72), words="Later")
    run_pass(private_channel.workspace, MONDAY + hours(73), Scribe())
    edit(first)
    run_pass(private_channel.workspace, MONDAY + hours(200), Scribe())
    assert "Later" in short(private_channel).current.content
    assert not Segment.objects.filter(stale=True).exists()


@pytest.mark.slow
def test_each_message_is_in_one_segment_after_history_was_off_and_on(private_channel):
    private_channel.workspace.change_settings({"message_threshold": 10})
    talk(private_channel, 12)
    run_pass(private_channel.workspace, MONDAY + hours(4), Scribe())
    private_channel.workspace.change_settings({"history_enabled": False})
    talk(private_channel, 5, MONDAY + hours(24))
    run_pass(private_channel.workspace, MONDAY + hours(25), Scribe())
    private_channel.workspace.change_settings({"history_enabled": True})
    talk(private_channel, 5, MONDAY + hours(48))
    run_pass(private_channel.workspace, MONDAY + hours(60), Scribe())
    assert [(s.message_count, s.reason) for s in private_channel.segments.order_by("number")] == [
        (10, "full"),
        (2, "idle"),
        (5, "history_off"),
        (5, "idle"),
    ]
    assert not Message.objects.waiting().exists()
    numbers = short(private_channel).versions.order_by("number")
    assert [(v.number, v.segment.number) for v in numbers] == [(1, 1), (2, 3), (3, 4)]


@pytest.mark.slow
def test_a_lower_threshold_applies_to_waiting_messages(private_channel):
    talk(private_channel, 30)
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=31), Scribe())
    private_channel.workspace.change_settings({"message_threshold": 10})
    run_pass(private_channel.workspace, MONDAY + timedelta(minutes=31), Scribe())
    assert [s.message_count for s in private_channel.segments.order_by("number")] == [10, 10, 10]
