"""The timetable and its tasks, run where they are queued."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_q.models import OrmQ, Schedule

from memories import jobs
from memories.models import Generation, Heartbeat, MemoryVersion, Workspace
from tests.factories import ChannelFactory, MessageFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk():
    begin = timezone.now() - timedelta(hours=5)
    channel = ChannelFactory()
    for minute in range(10):
        MessageFactory(channel=channel, at=begin + timedelta(minutes=minute))
    return channel


def test_the_timetable_is_written_once():
    Schedule.objects.create(name="tick", func="memories.jobs.tick", schedule_type=Schedule.DAILY)
    Schedule.objects.create(name="tick", func="memories.jobs.tick", schedule_type=Schedule.DAILY)
    Schedule.objects.create(name="retired", func="memories.jobs.gone")
    Schedule.objects.create(name="theirs", func="somebody.else")
    for _ in range(2):
        call_command("sync_schedules")
        rows = Schedule.objects.order_by("name").values_list("name", "schedule_type", "minutes")
        assert list(rows) == [("theirs", "O", None), ("tick", "I", 1)]


def test_a_tick_beats_and_remembers(talk, tasks_at_once, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        jobs.tick()
    assert timezone.now() - Heartbeat.objects.last_beat() < timedelta(minutes=1)
    assert MemoryVersion.objects.filter(memory__channel=talk).count() == 2


def test_tasks_carry_ids_only(talk, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        jobs.tick()
    (task,) = OrmQ.objects.all()
    assert (task.task["func"], task.task["args"]) == (
        "memories.jobs.remember",
        (talk.workspace_id,),
    )


def test_a_task_of_a_workspace_that_is_gone_does_nothing():
    jobs.remember(4_711)
    jobs.sync(4_711)
    assert not Generation.objects.exists()


def test_what_does_not_fit_goes_on_in_the_next_task(
    talk, monkeypatch, django_capture_on_commit_callbacks
):
    monkeypatch.setattr(jobs, "WORK_SECONDS", 0)
    with django_capture_on_commit_callbacks(execute=True):
        jobs.remember(talk.workspace_id)
    assert Generation.objects.unfinished().count() == 1
    assert [task.task["args"] for task in OrmQ.objects.all()] == [(talk.workspace_id,)]


@pytest.mark.parametrize(
    ("connected", "synced_h_ago", "closed"),
    [
        pytest.param(False, None, 1, id="imported: up to now"),
        pytest.param(True, 1, 1, id="synced after the pause"),
        pytest.param(True, 4, 0, id="who knows what was said since"),
        pytest.param(True, None, 0, id="never synced to the end"),
    ],
)
def test_a_pass_goes_no_further_than_the_last_sync(talk, connected, synced_h_ago, closed):
    now = timezone.now()
    Workspace.objects.update(
        connected_at=now if connected else None,
        synced_at=now - timedelta(hours=synced_h_ago) if synced_h_ago else None,
    )
    jobs.remember(talk.workspace_id)
    assert talk.segments.count() == closed


@pytest.mark.parametrize(
    ("connected", "synced_min_ago", "due"),
    [(False, None, False), (True, None, True), (True, 4, False), (True, 6, True)],
)
def test_which_workspaces_are_synced(connected, synced_min_ago, due):
    now = timezone.now()
    WorkspaceFactory(
        connected_at=now if connected else None,
        synced_at=now - timedelta(minutes=synced_min_ago) if synced_min_ago else None,
    )
    assert Workspace.objects.to_sync(now - jobs.SYNC_EVERY).exists() is due


def test_the_queue_learns_only_the_kind_of_an_error(talk, monkeypatch, caplog):
    """django-q2 keeps and shows what a task raised; a database's words may quote a row."""

    def refuse(*args, **kwargs):
        raise ValueError("Failing row contains (the secret plan)")

    monkeypatch.setattr(jobs, "run_pass", refuse)
    with pytest.raises(jobs.TaskFailed) as failed:
        jobs.remember(talk.workspace_id)
    assert str(failed.value) == "ValueError"
    assert failed.value.__suppress_context__
