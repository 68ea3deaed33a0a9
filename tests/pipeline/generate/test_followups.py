"""When the memories of a workspace are merged."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from memories.models import Job, Memory, MemoryVersion, Workspace
from memories.pipeline.generate.followups import schedule_workspace_merges
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from tests.factories import ChannelFactory, make_channel_memory, make_version

pytestmark = pytest.mark.django_db


def scheduled(workspace: Workspace, at: datetime) -> set[str]:
    """Return the types of the workspace memories that get a job."""
    Job.objects.filter(memory__scope="workspace", state=Job.State.WAITING).delete()
    schedule_workspace_merges(workspace, to_micros(at))
    jobs = Job.objects.filter(memory__scope="workspace", state=Job.State.WAITING)
    return set(jobs.values_list("memory__memory_type", flat=True))


def add_job(memory: Memory, at: datetime, state: str) -> Job:
    key = f"{memory.pk} {at}"
    return Job.objects.create(memory=memory, as_of_us=to_micros(at), input_key=key, state=state)


def test_workspace_merges_wait_for_busy_channels_a_limited_time(workspace: Workspace) -> None:
    workspace.change_settings({"workspace_short_term": True})
    both, now = {"long_term", "short_term"}, timezone.now()
    for memory_type in (MemoryType.LONG_TERM, MemoryType.SHORT_TERM):
        ready = ChannelFactory(workspace=workspace)
        make_channel_memory(channel=ready, memory_type=memory_type)
    assert scheduled(workspace, now) == both

    busy = Memory.objects.of_channel(ChannelFactory(workspace=workspace), MemoryType.SHORT_TERM)
    add_job(busy, now, Job.State.WAITING)
    assert scheduled(workspace, now) == set()

    MemoryVersion.objects.update(created_at=now - timedelta(minutes=61))
    assert scheduled(workspace, now) == {"long_term"}, "the first short-term merge waits"
    memory = Memory.objects.of_workspace(workspace, MemoryType.SHORT_TERM)
    last = add_job(memory, now - timedelta(minutes=119), Job.State.DONE)
    make_version(memory=memory)
    assert scheduled(workspace, now) == {"long_term"}
    Job.objects.filter(pk=last.pk).update(as_of_us=to_micros(now - timedelta(minutes=121)))
    assert scheduled(workspace, now) == both
    Job.objects.filter(memory=busy).delete()
    Job.objects.filter(pk=last.pk).update(as_of_us=to_micros(now - timedelta(minutes=61)))
    assert scheduled(workspace, now) == both, "without a busy channel it waits for an hour"
