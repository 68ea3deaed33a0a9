"""`manage.py worker` with a real cluster: killed, hung, busy and stopped."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.models import Heartbeat, Job
from memories.tasks import schedule_pass
from tests.factories import ChannelFactory, MessageFactory
from tests.llm.endpoint import PATH
from tests.processes import PATIENCE, alive_in_sessions, wait_until
from tests.workers import RunningWorker

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres("workers take tasks under row locks"),
]

HEARTBEAT = 2.0

Start = Callable[..., RunningWorker]


@pytest.fixture
def start(process_environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start a worker, which the test ends."""
    running: list[RunningWorker] = []

    def start(**variables: str) -> RunningWorker:
        environment = process_environment | {"MEMORYHUB_HEARTBEAT": str(HEARTBEAT)} | variables
        running.append(RunningWorker(environment, tmp_path / f"worker-{len(running)}.log"))
        return running[-1]

    yield start
    for worker in running:
        worker.end()


def beats_after(moment: datetime) -> int:
    """Return the number of workers with a heartbeat since then."""
    return Heartbeat.objects.filter(at__gt=moment).count()


@pytest.mark.slow
def test_a_hung_cluster_is_replaced(start: Start) -> None:
    """Idle processes that are killed keep the lock of the queue. Another worker's heartbeats do not count.

    tests/hard/bar_redis.py measures the time."""
    hung, well = start(), start()
    for worker in (hung, well):
        worker.wait_until_it_is_up()
    wait_until(lambda: beats_after(timezone.now() - timedelta(seconds=2 * HEARTBEAT)) == 2, "beats")
    old, others = hung.leader(), well.leader()
    wait_until(lambda: len(hung.idle()) == 2, "both idle")
    for process in hung.idle():
        process.kill()
    wait_until(lambda: not psutil.pid_exists(old), "killed")
    wait_until(lambda: not alive_in_sessions({old}), "its old group gone")
    hung.wait_until_it_is_up()
    restarted = timezone.now()
    wait_until(lambda: beats_after(restarted) == 2, "both at work")
    assert hung.leader() != old
    assert well.leader() == others


@pytest.mark.slow
def test_a_cluster_without_its_main_process_is_replaced(start: Start) -> None:
    """It loses its sentinel, then its main process."""
    worker = start()
    for head in (1, 0):
        worker.wait_until_it_is_up()
        old = worker.leader()
        worker.cluster()[head].kill()
        wait_until(lambda old=old: not alive_in_sessions({old}), "its orphans gone")  # type: ignore[misc]
    worker.wait_until_it_is_up()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_stops_its_children(start: Start, number: signal.Signals) -> None:
    worker = start()
    worker.wait_until_it_is_up()
    assert len(worker.sessions) == 2  # the cluster, the watcher
    os.kill(worker.process.pid, number)
    assert worker.process.wait(timeout=PATIENCE) == (-9 if number == signal.SIGKILL else 0)
    wait_until(worker.is_gone, "nothing left")


@pytest.mark.slow
def test_a_worker_with_a_long_task_does_not_hang(start: Start, httpserver: HTTPServer) -> None:
    """The only process waits for a slow model, and a thread records its heartbeats."""
    requested, released = threading.Event(), threading.Event()

    def respond(request: Request) -> Response:
        requested.set()
        released.wait(60)
        return Response("no", status=400)

    httpserver.expect_request(PATH, method="POST").respond_with_handler(respond)
    worker = start(
        MEMORYHUB_WORKERS="1",
        MEMORYHUB_MODEL="tiny",
        OPENAI_API_KEY="sk-test",
        OPENAI_BASE_URL=httpserver.url_for("/v1"),
    )
    try:
        worker.wait_until_it_is_up(workers=1)
        leader = worker.leader()
        channel = ChannelFactory()
        begin = timezone.now() - timedelta(hours=5)
        for minute in range(5):
            MessageFactory(channel=channel, at=begin + timedelta(minutes=minute))
        schedule_pass(channel.workspace_id)
        wait_until(requested.is_set, "a call")
        long = timezone.now() + timedelta(seconds=4 * HEARTBEAT)
        wait_until(lambda: beats_after(long) == 1, "heartbeats during the task")
        assert worker.leader() == leader
        assert Job.objects.filter(state=Job.State.CLAIMED).exists()
    finally:
        released.set()


@pytest.mark.slow
def test_an_empty_database_is_refused(process_environment: dict[str, str], tmp_path: Path) -> None:
    empty = {"DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3"}
    worker = RunningWorker(process_environment | empty, tmp_path / "log")
    assert worker.process.wait(timeout=PATIENCE) == 1
    assert "manage.py migrate" in worker.log.read_text()
