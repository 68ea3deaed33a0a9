"""Review before publishing: merges wait as proposals, and contexts contain only reviewed text."""

import pytest

from memories.models import Job, Memory, Reader
from memories.pipeline.context.build import build_context
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.memory import review
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY, UserFactory
from tests.pipeline.conversations import Scribe, hours, talk

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def passes(channel, setting):
    channel.workspace.change_settings({"review_merges": setting})
    talk(channel, 6)
    return run_pass(channel.workspace, MONDAY + hours(3), Scribe())


def texts_in_context(workspace):
    built = build_context(workspace, Reader.public(), budget=0, now=MONDAY + hours(4))
    [channel] = built.channel_memories.values() or [None]
    return (
        bool(channel and channel.long_term_memory),
        bool(channel and channel.short_term_memory),
        bool(built.workspace_long_term_memory),
        bool(built.workspace_short_term_memory),
    )


@pytest.mark.parametrize(
    ("setting", "published"),
    [
        ("none", (True, True, True, True)),
        ("workspace", (True, True, False, False)),
        ("channels", (False, False, False, False)),
        ("all", (False, False, False, False)),
    ],
)
def test_nothing_unreviewed_is_in_contexts(channel, setting, published):
    channel.workspace.change_settings({"workspace_short_term": True})
    passes(channel, setting)
    assert texts_in_context(channel.workspace) == published


def test_approved_merges_are_published_and_merged_on(channel):
    channel.workspace.change_settings({"workspace_short_term": True})
    passes(channel, "all")
    anna, reader = UserFactory(is_superuser=True), Reader.public()
    [job] = [
        job
        for job in review.find_proposed_jobs(channel.workspace, reader)
        if job.base is None and job.memory.channel
    ]
    assert review.approve(job, by=anna)
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    assert memory.head == 1 and texts_in_context(channel.workspace)[0]
    run_pass(channel.workspace, MONDAY + hours(4), Scribe())
    for job in review.find_proposed_jobs(channel.workspace, reader):
        assert review.approve(job, by=anna)
    assert texts_in_context(channel.workspace) == (True, False, True, True)
    assert not Job.objects.proposed().exists()


def test_a_newer_merge_replaces_a_waiting_merge(channel):
    passes(channel, "channels")
    [first] = Job.objects.proposed()
    talk(channel, 6, MONDAY + hours(10), words="Later")
    run_pass(channel.workspace, MONDAY + hours(14), Scribe())
    [second] = Job.objects.proposed()
    assert first != second
    first.refresh_from_db()
    assert first.state == Job.State.SUPERSEDED
    assert review.reject(second, by=UserFactory()) and not review.reject(second, by=None)
    run_pass(channel.workspace, MONDAY + hours(15), Scribe())
    assert not Memory.objects.of_channel(channel, MemoryType.LONG_TERM).head
