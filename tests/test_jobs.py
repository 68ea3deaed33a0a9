"""The timetable and its tasks, run where they are queued."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_q.models import OrmQ, Schedule

from memories import jobs
from memories.models import Generation, Heartbeat, MemoryVersion, Workspace
from memories.rules.faults import MOST_ATTEMPTS
from tests.factories import ChannelFactory, MessageFactory, WorkspaceFactory, make_channel_memory

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk():
    begin = timezone.now() - timedelta(hours=5)
    channel = ChannelFactory()
    for minute in range(10):
        MessageFactory(channel=channel, at=begin + timedelta(minutes=minute))
    return channel


def pass_over(channel):
    """The task that an offer queues, begun at once."""
    Workspace.objects.filter(pk=channel.workspace_id).update(offered_at=timezone.now())
    jobs.remember(channel.workspace_id)


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
        pass_over(talk)
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
    pass_over(talk)
    assert talk.segments.count() == closed


def queued() -> list[tuple[str, tuple[int, ...]]]:
    return [
        (task.task["func"].rpartition(".")[2], task.task["args"]) for task in OrmQ.objects.all()
    ]


def test_a_pass_is_offered_once_until_it_begins(talk, django_capture_on_commit_callbacks):
    once = [("remember", (talk.workspace_id,))]
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(3):
            jobs.tick()
    assert queued() == once
    pass_over(talk)
    with django_capture_on_commit_callbacks(execute=True):
        jobs.tick()
    assert queued() == 2 * once


def test_a_lost_task_is_offered_again(talk, django_capture_on_commit_callbacks):
    """A broker that loses tasks, a worker that died with them: nobody says so."""
    with django_capture_on_commit_callbacks(execute=True):
        jobs.remember_later(talk.workspace_id)
    for waited, tasks in ((jobs.OFFER_AGAIN / 2, 0), (jobs.OFFER_AGAIN, 1)):
        OrmQ.objects.all().delete()
        Workspace.objects.update(offered_at=timezone.now() - waited)
        with django_capture_on_commit_callbacks(execute=True):
            jobs.remember_later(talk.workspace_id)
        assert len(queued()) == tasks


def test_a_doubled_pass_finds_nothing_to_do(talk):
    jobs.remember(talk.workspace_id)
    assert not Generation.objects.exists()
    pass_over(talk)
    assert Generation.objects.exists()


def test_a_beat_answers_its_asker_and_leaves_the_mark_of_who_ran_it(settings):
    settings.MEMORYHUB_WORKER_NAME = "one"
    now = timezone.now()
    for name in ("one", "other"):
        Heartbeat.objects.ask(name, now)
    jobs.beat("other")
    one, other = Heartbeat.objects.order_by("name")
    assert (one.at >= now, one.asked_at) == (True, now)
    assert (other.at, other.asked_at, other.seen_at) == (None, None, now)


def test_a_beat_forgets_workers_that_are_gone():
    now = timezone.now()
    for name, ago in (("gone", 2 * jobs.GONE_AFTER), ("here", jobs.GONE_AFTER / 2)):
        Heartbeat.objects.ask(name, now - ago)
        OrmQ.objects.create(key=name, payload="its question", lock=now)
    Heartbeat.objects.create(name="of an older release", at=now - 2 * jobs.GONE_AFTER)
    jobs.beat("here")
    assert set(Heartbeat.objects.values_list("name", flat=True)) == {"here", "worker"}
    assert set(OrmQ.objects.values_list("key", flat=True)) == {"here"}


LATER, BEFORE = timedelta(minutes=1), -timedelta(minutes=1)
State = Generation.State


@pytest.mark.parametrize(
    ("state", "lease", "held", "offered"),
    [
        pytest.param(State.WAITING, None, None, True, id="waits"),
        pytest.param(State.WAITING, None, LATER, False, id="held back"),
        pytest.param(State.WAITING, None, BEFORE, True, id="held back until now"),
        pytest.param(State.CLAIMED, LATER, None, False, id="at work"),
        pytest.param(State.CLAIMED, BEFORE, None, True, id="its worker went away"),
        pytest.param(State.REPLIED, None, None, True, id="answered, and nobody saved it"),
        pytest.param(State.DONE, None, None, False, id="done"),
        pytest.param(State.DEAD, None, None, False, id="given up"),
    ],
)
def test_a_beat_offers_what_waits(state, lease, held, offered, django_capture_on_commit_callbacks):
    now = timezone.now()
    memory = make_channel_memory(channel=ChannelFactory())
    Generation.objects.create(
        memory=memory,
        as_of_us=0,
        state=state,
        lease_until=lease and now + lease,
        not_before=held and now + held,
        attempts=MOST_ATTEMPTS,  # also one that may not be claimed again has to be buried
    )
    WorkspaceFactory()
    with django_capture_on_commit_callbacks(execute=True):
        jobs.beat("anybody")
    assert queued() == ([("remember", (memory.workspace_id,))] if offered else [])


def test_a_doubled_sync_finds_nothing_due(monkeypatch):
    """Without a token it would fail."""
    now = timezone.now()
    workspace = WorkspaceFactory(connected_at=now, synced_at=now - timedelta(minutes=1))
    jobs.sync(workspace.pk)
    Workspace.objects.update(synced_at=now - timedelta(minutes=6))
    with pytest.raises(jobs.TaskFailed, match="SlackError"):
        jobs.sync(workspace.pk)


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
        pass_over(talk)
    assert str(failed.value) == "ValueError"
    assert failed.value.__suppress_context__
