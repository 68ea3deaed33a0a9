"""The heartbeats of a worker, with the test in the place of its processes."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from pytest_django import Settings

from memories import tasks
from memories.models import Heartbeat
from memoryhub import heartbeat
from memoryhub.database_queue import DatabaseQueue
from memoryhub.heartbeat import HeartbeatMonitor
from tests.workers import package

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("tasks are rows of the broker")]

AGE = 1000.0  # seconds since the worker's start


class Clock:
    """The clock of the monitor."""

    def __init__(self) -> None:
        self.time = timezone.now()

    def now(self) -> datetime:
        return self.time

    def read_for(self, seconds: int, monitor: HeartbeatMonitor) -> None:
        """Let the monitor read every ten seconds for this time."""
        for _ in range(0, seconds, 10):
            self.time += timedelta(seconds=10)
            monitor.read()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(heartbeat, "timezone", clock)
    return clock


@pytest.fixture
def monitor(settings: Settings) -> Iterator[HeartbeatMonitor]:
    settings.MEMORYHUB_WORKER_NAME = "ours"
    return HeartbeatMonitor("ours", heartbeat=60.0)


def test_a_worker_without_heartbeats_hangs(monitor: HeartbeatMonitor, clock: Clock) -> None:
    Heartbeat.objects.beat("ours", clock.time)
    monitor.read()
    clock.read_for(90, monitor)
    assert not monitor.hangs(AGE)
    Heartbeat.objects.beat("other", clock.time)
    clock.read_for(10, monitor)
    assert monitor.hangs(AGE)
    Heartbeat.objects.beat("ours", clock.time)
    monitor.read()
    assert not monitor.hangs(AGE)


def test_no_worker_hangs_while_the_database_is_unreachable(
    monitor: HeartbeatMonitor, clock: Clock
) -> None:
    """Nor right after it returns, nor right after the machine has slept."""

    def refuse(*query: Any) -> None:
        raise OperationalError("gone away")

    Heartbeat.objects.beat("ours", clock.time)
    clock.read_for(120, monitor)
    assert monitor.hangs(AGE)
    with connection.execute_wrapper(refuse):
        monitor.read()
    assert not monitor.hangs(AGE)
    clock.read_for(90, monitor)
    assert not monitor.hangs(AGE)
    clock.read_for(20, monitor)
    assert monitor.hangs(AGE)
    clock.time += timedelta(hours=1)
    monitor.read()
    assert not monitor.hangs(AGE)


def test_a_broker_that_is_unreachable_is_noticed(
    monitor: HeartbeatMonitor,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(self: DatabaseQueue) -> None:
        raise ConnectionError

    clock.read_for(200, monitor)
    assert monitor.hangs(AGE)
    monkeypatch.setattr(DatabaseQueue, "ping", refuse)
    monitor.read()
    assert not monitor.hangs(AGE)
    assert "the heartbeat cannot be read: ConnectionError" in caplog.messages


@pytest.mark.slow
def test_a_queue_hands_out_heartbeats_to_a_worker_with_a_supervisor(
    monitor: HeartbeatMonitor, settings: Settings
) -> None:
    now = timezone.now() - timedelta(seconds=1)
    OrmQ.objects.create(key="theirs", payload=package("memories.tasks.tick"), lock=now)
    OrmQ.objects.create(key="memoryhub", payload=package("memories.tasks.tick"), lock=now)
    queue = DatabaseQueue()
    [beat], [tick] = queue.dequeue(), queue.dequeue()
    assert [SignedPackage.loads(task)["func"] for _, task in (beat, tick)] == [
        "memories.tasks.beat",
        "memories.tasks.tick",
    ]
    queue.acknowledge(tick[0])
    assert queue.dequeue() == [], "the next heartbeat is not due"
    assert OrmQ.objects.get().key == "theirs"
    settings.MEMORYHUB_HEARTBEAT = 0.0
    settings.MEMORYHUB_WORKER_NAME = ""
    assert DatabaseQueue().dequeue() == []


def test_a_heartbeat_task_is_a_task_of_the_project() -> None:
    assert SignedPackage.loads(heartbeat.build_task())["func"] in tasks.TASKS
