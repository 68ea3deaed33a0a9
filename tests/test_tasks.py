"""The timetable and the tasks."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.utils import timezone
from django_q.models import OrmQ, Schedule

from memories import tasks
from memories.models import (
    ApiKey,
    Heartbeat,
    Job,
    MemoryVersion,
    Message,
    Revision,
    SlackConnection,
    SlackEvent,
    Upload,
    Webhook,
    Workspace,
)
from memories.models.context.revisions import MAX_ROWS
from memories.pipeline.ingest import events
from memories.pipeline.search import indexing
from memories.rules.generate.faults import MAX_ATTEMPTS
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_job,
)
from tests.slack.fake_slack import TOKEN, FakeSlack

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("tasks are rows of the broker")]


@pytest.fixture
def talk():
    begin = timezone.now() - timedelta(hours=5)
    channel = ChannelFactory()
    for minute in range(10):
        text = f"Decision: room {minute} is booked for the launch"
        MessageFactory(channel=channel, at=begin + timedelta(minutes=minute), text=text)
    return channel


def run_queued_pass(channel):
    """Run the task of a queued pass."""
    Workspace.objects.filter(pk=channel.workspace_id).update(pass_queued_at=timezone.now())
    tasks.remember(channel.workspace_id)


def test_the_schedules_equal_the_timetable():
    Schedule.objects.create(name="tick", func="memories.tasks.tick", schedule_type=Schedule.DAILY)
    Schedule.objects.create(name="tick", func="memories.tasks.tick", schedule_type=Schedule.DAILY)
    Schedule.objects.create(name="retired", func="memories.tasks.gone")
    Schedule.objects.create(name="theirs", func="somebody.else")
    for _ in range(2):
        call_command("sync_schedules")
        rows = Schedule.objects.order_by("name").values_list("name", "schedule_type", "minutes")
        assert list(rows) == [
            *(("digests", "I", 10), ("index", "I", 1), ("retention", "D", None)),
            *(("theirs", "O", None), ("tick", "I", 1)),
        ]


@pytest.mark.slow
def test_a_tick_records_a_heartbeat_and_queues_a_pass(
    talk, tasks_at_once, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        tasks.tick()
    assert timezone.now() - Heartbeat.objects.last_beat() < timedelta(minutes=1)
    assert MemoryVersion.objects.filter(memory__channel=talk).count() == 2


def test_a_tick_prunes_the_revision(talk):
    Revision.objects.bulk_create(Revision(number=0) for _ in range(MAX_ROWS))
    tasks.tick()
    assert Revision.objects.count() == 1


def test_a_tick_queues_what_waits_for_a_worker(django_capture_on_commit_callbacks):
    member = MemberFactory(role="editor")
    request = SlackEvent.objects.create(team_id="T0TEAM", event_id="Rq1", kind="slash_command")
    upload = Upload.objects.begin("f" * 32, slug="team", name="a.zip", size=7, by=member.user)
    key, _token = ApiKey.objects.issue(member.workspace, name="bot", by=None, user=member.user)
    Webhook.objects.register(key, "https://bot.example.com/")
    with django_capture_on_commit_callbacks(execute=True):
        tasks.tick()
    waiting = {("slack_request", (request.pk,)), ("import_upload", (upload.pk,)), ("webhooks", ())}
    assert waiting <= set(queued())


def test_tasks_do_not_index_at_the_same_time(talk):
    cache.set(tasks.INDEX_LOCK, 1)
    tasks.index()
    assert indexing.is_behind()
    cache.delete(tasks.INDEX_LOCK)
    tasks.index()
    assert not indexing.is_behind() and cache.get(tasks.INDEX_LOCK) is None


def test_tasks_carry_ids_only(talk, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        tasks.tick()
    (task,) = OrmQ.objects.all()
    assert (task.task["func"], task.task["args"]) == (
        "memories.tasks.remember",
        (talk.workspace_id,),
    )


def test_a_task_of_a_deleted_workspace_does_nothing():
    tasks.remember(4_711)
    tasks.sync(4_711)
    assert not Job.objects.exists()


def test_the_next_task_continues_a_pass(talk, monkeypatch, django_capture_on_commit_callbacks):
    monkeypatch.setattr(tasks, "WORK_SECONDS", 0)
    with django_capture_on_commit_callbacks(execute=True):
        run_queued_pass(talk)
    assert Job.objects.unfinished().count() == 1
    assert [task.task["args"] for task in OrmQ.objects.all()] == [(talk.workspace_id,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("connected", "synced_h_ago", "closed"),
    [
        pytest.param(False, None, 1, id="imported: up to now"),
        pytest.param(True, 1, 1, id="synced after the pause"),
        pytest.param(True, 4, 0, id="not synced since"),
        pytest.param(True, None, 0, id="never synced to the end"),
    ],
)
def test_a_pass_closes_segments_up_to_the_last_sync(talk, connected, synced_h_ago, closed):
    now = timezone.now()
    Workspace.objects.update(
        connected_at=now if connected else None,
        synced_at=now - timedelta(hours=synced_h_ago) if synced_h_ago else None,
    )
    run_queued_pass(talk)
    assert talk.segments.count() == closed


def queued() -> list[tuple[str, tuple[int, ...]]]:
    return [
        (task.task["func"].rpartition(".")[2], task.task["args"]) for task in OrmQ.objects.all()
    ]


@pytest.mark.slow
def test_a_pass_is_queued_once_until_it_begins(talk, django_capture_on_commit_callbacks):
    once = [("remember", (talk.workspace_id,))]
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(3):
            tasks.tick()
    assert queued() == once
    run_queued_pass(talk)
    with django_capture_on_commit_callbacks(execute=True):
        tasks.tick()
    assert queued() == 2 * once


def test_a_lost_pass_is_queued_again(talk, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        tasks.schedule_pass(talk.workspace_id)
    for waited, count in ((tasks.PASS_LOST_AFTER / 2, 0), (tasks.PASS_LOST_AFTER, 1)):
        OrmQ.objects.all().delete()
        Workspace.objects.update(pass_queued_at=timezone.now() - waited)
        with django_capture_on_commit_callbacks(execute=True):
            tasks.schedule_pass(talk.workspace_id)
        assert len(queued()) == count


@pytest.mark.slow
def test_a_pass_that_is_queued_twice_runs_once(talk):
    tasks.remember(talk.workspace_id)
    assert not Job.objects.exists()
    run_queued_pass(talk)
    assert Job.objects.exists()


def test_a_beat_updates_the_row_of_its_worker(settings):
    settings.MEMORYHUB_WORKER_NAME = "one"
    now = timezone.now()
    Heartbeat.objects.beat("other", now)
    tasks.beat()
    first, second = Heartbeat.objects.order_by("name")
    assert first.at > now
    assert second.at == now


def test_a_beat_deletes_the_rows_of_old_workers():
    now = timezone.now()
    Heartbeat.objects.beat("old", now - 2 * tasks.KEEP_HEARTBEATS)
    Heartbeat.objects.beat("new", now - tasks.KEEP_HEARTBEATS / 2)
    Heartbeat.objects.create(name="without a heartbeat")
    tasks.beat()
    assert set(Heartbeat.objects.values_list("name", flat=True)) == {"new", "worker"}


LATER, BEFORE = timedelta(minutes=1), -timedelta(minutes=1)
State = Job.State


@pytest.mark.parametrize(
    ("state", "lease", "pause", "is_queued"),
    [
        pytest.param(State.WAITING, None, None, True, id="waits"),
        pytest.param(State.WAITING, None, LATER, False, id="paused"),
        pytest.param(State.WAITING, None, BEFORE, True, id="due now"),
        pytest.param(State.CLAIMED, LATER, None, False, id="running"),
        pytest.param(State.CLAIMED, BEFORE, None, True, id="lease expired"),
        pytest.param(State.REPLIED, None, None, True, id="replied"),
        pytest.param(State.DONE, None, None, False, id="done"),
        pytest.param(State.DEAD, None, None, False, id="dead"),
    ],
)
def test_a_beat_queues_a_pass_for_jobs_that_wait(
    state, lease, pause, is_queued, django_capture_on_commit_callbacks
):
    now = timezone.now()
    memory = make_channel_memory(channel=ChannelFactory())
    make_job(
        memory=memory,
        state=state,
        lease_until=lease and now + lease,
        retry_at=pause and now + pause,
        attempts=MAX_ATTEMPTS,  # a pass also makes dead letters
    )
    WorkspaceFactory()
    with django_capture_on_commit_callbacks(execute=True):
        tasks.beat()
    assert queued() == ([("remember", (memory.workspace_id,))] if is_queued else [])


def test_a_sync_that_is_not_due_does_nothing(monkeypatch):
    """A sync without a token fails."""
    now = timezone.now()
    workspace = WorkspaceFactory(connected_at=now, next_sync_at=now + timedelta(minutes=4))
    tasks.sync(workspace.pk)
    Workspace.objects.update(next_sync_at=now - timedelta(minutes=1))
    with pytest.raises(tasks.TaskFailed, match="SlackError"):
        tasks.sync(workspace.pk)


@pytest.mark.parametrize(
    ("connected", "again_in_min", "due"),
    [(False, None, False), (True, None, True), (True, 1, False), (True, 0, True)],
)
def test_a_workspace_is_synced_when_it_is_connected_and_due(connected, again_in_min, due):
    now = timezone.now()
    again = now + timedelta(minutes=again_in_min) if again_in_min is not None else None
    WorkspaceFactory(connected_at=now if connected else None, next_sync_at=again)
    assert Workspace.objects.due_for_sync(now).exists() is due


def test_the_next_task_continues_a_sync(settings, monkeypatch, django_capture_on_commit_callbacks):
    monkeypatch.setattr(tasks, "WORK_SECONDS", 0)
    with FakeSlack() as slack:
        settings.SLACK_BOT_TOKEN, settings.SLACK_BASE_URL = TOKEN, slack.url
        slack.add_channel("C1", "general")
        slack.say("C1", "U1", "hello", "1700000000.000100")
        workspace = WorkspaceFactory(connected_at=timezone.now(), listed_at=None)
        ChannelFactory(workspace=workspace, slack_id="C1", is_followed=True)
        with django_capture_on_commit_callbacks(execute=True):
            tasks.sync(workspace.pk)
    assert ("sync", (workspace.pk,)) in queued()


def test_the_next_task_continues_the_retention(talk, monkeypatch):
    talk.workspace.change_settings({"retention_days": 1})
    old = MessageFactory(channel=talk, at=timezone.now() - timedelta(days=3))
    monkeypatch.setattr(tasks, "WORK_SECONDS", 0)
    tasks.retention()
    assert queued() == [("retention", ())]
    monkeypatch.undo()
    tasks.retention()
    old.refresh_from_db()
    assert (old.state, len(queued())) == (Message.State.EXPIRED, 1)


def test_a_rate_limited_sync_continues_after_the_limit(
    settings, tasks_at_once, django_capture_on_commit_callbacks
):
    """The first task reads one page. A tick before the limit ends does nothing."""
    with FakeSlack() as slack:
        settings.SLACK_BOT_TOKEN, settings.SLACK_BASE_URL = TOKEN, slack.url
        slack.add_channel("C1", "general")
        for n in range(40):
            slack.say("C1", "U1", f"line {n}", f"17000000{n:02}.000100")
        workspace = WorkspaceFactory(connected_at=timezone.now(), listed_at=None)
        channel = ChannelFactory(workspace=workspace, slack_id="C1", is_followed=True)
        slack.slow_plan = True
        slack.budgets.calls["conversations.history"] = 1
        with django_capture_on_commit_callbacks(execute=True):
            tasks.tick()
        workspace.refresh_from_db()
        wait = (workspace.next_sync_at - timezone.now()).total_seconds()
        assert 40 < wait <= 60
        assert channel.messages.count() == 15
        calls = len(slack.calls)
        with django_capture_on_commit_callbacks(execute=True):
            tasks.tick()
        assert len(slack.calls) == calls


def test_a_workspace_with_a_revoked_token_is_not_synced(
    settings, django_capture_on_commit_callbacks
):
    settings.SLACK_BOT_TOKEN = "xoxb-gone"
    workspace = WorkspaceFactory(connected_at=timezone.now())
    connection = SlackConnection.objects.of(workspace)
    connection.use_environment_token("xoxb-gone")
    connection.stop(SlackConnection.State.REVOKED, "gone", timezone.now())
    with django_capture_on_commit_callbacks(execute=True):
        tasks.tick()
    assert ("sync", (workspace.pk,)) not in queued()


def test_the_queue_gets_only_the_type_of_an_error(talk, monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise ValueError("Failing row contains (the secret plan)")

    monkeypatch.setattr(tasks, "run_pass", refuse)
    with pytest.raises(tasks.TaskFailed) as failed:
        run_queued_pass(talk)
    assert str(failed.value) == "ValueError"
    assert failed.value.__suppress_context__


class TestEvents:
    @pytest.fixture
    def room(self):
        return ChannelFactory(
            workspace=WorkspaceFactory(team_id="T0TEAM"), slack_id="C1", is_followed=True
        )

    def receive(self, number=1):
        message = {
            "type": "message",
            "channel": "C1",
            "ts": f"1767603600.{number:06d}",
            "text": "hi",
        }
        event = {"type": "event_callback", "team_id": "T0TEAM", "event_id": f"Ev{number}"}
        return events.store_payload({**event, "event": message})

    def test_a_task_processes_all_events(self, room):
        self.receive(1)
        self.receive(2)
        tasks.events(room.workspace_id)
        assert room.messages.count() == 2
        assert set(SlackEvent.objects.values_list("state", "body")) == {("done", "")}

    def test_a_tick_queues_events_of_a_lost_task(
        self, room, tasks_at_once, django_capture_on_commit_callbacks
    ):
        self.receive()
        with django_capture_on_commit_callbacks(execute=True):
            tasks.tick()
        assert room.messages.count() == 1

    def test_a_tick_without_events_queues_no_task_for_them(
        self, room, django_capture_on_commit_callbacks
    ):
        with django_capture_on_commit_callbacks(execute=True):
            tasks.tick()
        assert "events" not in {name for name, _ in queued()}

    def test_the_next_task_continues_with_events(
        self, room, monkeypatch, django_capture_on_commit_callbacks
    ):
        monkeypatch.setattr(tasks, "WORK_SECONDS", -1)
        self.receive()
        with django_capture_on_commit_callbacks(execute=True):
            tasks.events(room.workspace_id)
        assert queued() == [("events", (room.workspace_id,))]

    def test_a_deleted_workspace_has_no_events(self):
        tasks.events(4_711)

    def test_a_tick_deletes_old_events(self, room):
        self.receive()
        SlackEvent.objects.update(received_at=timezone.now() - timedelta(days=8))
        tasks.tick()
        assert not SlackEvent.objects.exists()
