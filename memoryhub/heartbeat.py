"""Heartbeats of a worker: its processes update one row, and its supervisor reads the row.

django-q2's own `Stat` says "running" also when no process ever gets a task again. So a heartbeat is a
task: the queue hands one out twice a heartbeat (`task_guard.OwnTasks`), and a process that runs it
updates the row. A process with a long task updates the row from a thread. django-q2 stops a task that
never ends by its timeout.
"""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.signing import SignedPackage

from memories.models import Heartbeat
from memories.rules.heartbeat import hangs

logger = logging.getLogger(__name__)

MAX_POLL_SECONDS = 15.0

_last_beat = float("-inf")  # of this process, in seconds of time.monotonic


def build_task() -> str:
    """Return a signed heartbeat task, as django-q2's queues hold it."""
    return str(
        SignedPackage.dumps(
            {
                "id": uuid.uuid4().hex,
                "name": "heartbeat",
                "func": "memories.tasks.beat",
                "args": (),
                "kwargs": {},
                "started": timezone.now(),
                "save": False,
            }
        )
    )


@contextlib.contextmanager
def keep_beating() -> Iterator[None]:
    """Update this worker's row now and every half heartbeat, from a thread, until the task ends."""
    if not settings.MEMORYHUB_WORKER_NAME:
        yield  # a qcluster without a supervisor
        return
    half = settings.MEMORYHUB_HEARTBEAT / 2
    _beat_unless_recent(half)
    is_done = threading.Event()
    threading.Thread(target=_beat_until, args=(is_done, half), daemon=True).start()
    try:
        yield
    finally:
        is_done.set()


def _beat_unless_recent(seconds: float) -> None:
    """Update the row, unless this process did so less than this number of seconds ago."""
    global _last_beat
    if time.monotonic() - _last_beat < seconds:
        return
    with contextlib.suppress(DatabaseError):  # the next one may succeed
        Heartbeat.objects.beat(settings.MEMORYHUB_WORKER_NAME, timezone.now())
        _last_beat = time.monotonic()


def _beat_until(is_done: threading.Event, seconds: float) -> None:
    try:
        while not is_done.wait(seconds):
            _beat_unless_recent(seconds / 2)
    finally:
        connection.close()  # the connection of this thread


@dataclass(frozen=True)
class Reading:
    """The last heartbeat of a worker, and since when it was read without a gap."""

    at: datetime
    last_beat: datetime | None
    watched_since: datetime


class HeartbeatMonitor:
    """Reads the heartbeats of one worker for its supervisor.

    A thread reads the row, so a database that does not respond cannot keep the supervisor from
    stopping. While the database or the broker cannot be reached, no worker counts as hanging.
    """

    def __init__(self, name: str, heartbeat: float) -> None:
        self.name = name
        self.heartbeat = timedelta(seconds=heartbeat)
        self.poll_seconds = min(heartbeat / 4, MAX_POLL_SECONDS)
        self._reading: Reading | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="heartbeat").start()

    def hangs(self, age: float) -> bool:
        """Return whether the worker, which started this number of seconds ago, hangs."""
        reading = self._reading
        return reading is not None and hangs(
            reading.at,
            started_at=timezone.now() - timedelta(seconds=age),
            last_beat=reading.last_beat,
            watched_since=reading.watched_since,
            heartbeat=self.heartbeat,
        )

    def _run(self) -> None:
        while True:
            self.read()
            with contextlib.suppress(DatabaseError):
                connection.close()
            time.sleep(self.poll_seconds)

    def read(self) -> None:
        """Read the row. A failure or a long gap, such as a sleeping machine, restarts the watch."""
        try:
            get_broker().ping()
            rows = Heartbeat.objects.filter(name=self.name)
            last_beat = rows.values_list("at", flat=True).first()
        except Exception as error:  # a new cluster could not reach them either
            self._reading = None
            logger.warning("the heartbeat cannot be read: %s", type(error).__name__)
            return
        now, previous = timezone.now(), self._reading
        if previous is None or now - previous.at > 0.75 * self.heartbeat:
            since = now
        else:
            since = previous.watched_since
        self._reading = Reading(now, last_beat, since)
