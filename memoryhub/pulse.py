"""The pulse of a cluster of workers: its processes leave marks, its supervisor asks and looks.

django-q2's own `Stat` is written by the sentinel and says "running" also when no worker ever gets a
task again. So the supervisor queues a task for its own cluster once a heartbeat; only workers that
work answer. Busy ones leave marks meanwhile, so a long task is not taken for a hang; a task that
never ends is django-q2's to stop, by its time-out.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.tasks import async_task

from memories.models import Heartbeat
from memories.rules.pulse import hangs

logger = logging.getLogger(__name__)

MOST_SECONDS_BETWEEN_LOOKS = 15.0

_marked_at = float("-inf")  # of this process, in seconds of time.monotonic


@contextlib.contextmanager
def signs_of_life() -> Iterator[None]:
    """Around a task: mark its worker now and every half heartbeat, from a thread, until it ends."""
    if not settings.MEMORYHUB_WORKER_NAME:
        yield  # nobody watches
        return
    half = settings.MEMORYHUB_HEARTBEAT / 2
    _mark_after(half)
    done = threading.Event()
    threading.Thread(target=_keep_marking, args=(done, half), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _mark_after(seconds: float) -> None:
    """Mark this worker, unless it did so less than so many seconds ago."""
    global _marked_at
    if time.monotonic() - _marked_at < seconds:
        return
    with contextlib.suppress(DatabaseError):  # the next one may succeed
        Heartbeat.objects.beat(settings.MEMORYHUB_WORKER_NAME, timezone.now())
        _marked_at = time.monotonic()


def _keep_marking(done: threading.Event, seconds: float) -> None:
    try:
        while not done.wait(seconds):
            _mark_after(seconds / 2)
    finally:
        connection.close()  # this thread's own


@dataclass(frozen=True)
class Seen:
    """The row of a cluster, as it was at this moment."""

    now: datetime
    last_sign: datetime | None
    asked_at: datetime | None


class Watch:
    """Asks a cluster by its name, and says whether it hangs.

    Asking happens in a thread, so that a database that does not answer cannot keep the supervisor
    from stopping; and while nothing can be asked, nothing is held to hang.
    """

    def __init__(self, name: str, heartbeat: float) -> None:
        self.name = name
        self.heartbeat = heartbeat
        self.look_seconds = min(heartbeat / 4, MOST_SECONDS_BETWEEN_LOOKS)
        self._seen: Seen | None = None
        self._asked_at = float("-inf")

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="pulse").start()

    def hangs(self, age: float) -> bool:
        """Whether the cluster, which was started so many seconds ago, lives without working."""
        seen = self._seen
        return seen is not None and hangs(
            seen.now,
            born=timezone.now() - timedelta(seconds=age),
            last_sign=seen.last_sign,
            asked_at=seen.asked_at,
            heartbeat=timedelta(seconds=self.heartbeat),
        )

    def _run(self) -> None:
        while True:
            self.look()
            with contextlib.suppress(DatabaseError):
                connection.close()
            time.sleep(self.look_seconds)

    def look(self) -> None:
        """Ask when it is time to, and read what was answered."""
        try:
            if time.monotonic() - self._asked_at >= self.heartbeat:
                self._ask()
            row = Heartbeat.objects.get(name=self.name)
            self._seen = Seen(timezone.now(), row.at, row.asked_at)
        except Exception as error:  # no database or no broker: a new cluster has none either
            self._seen, self._asked_at = None, float("-inf")
            logger.warning("the pulse cannot be felt: %s", type(error).__name__)

    def _ask(self) -> None:
        """In place of the last question, which a cluster that was killed may have taken along."""
        get_broker(self.name).purge_queue()
        Heartbeat.objects.request_beat(self.name, timezone.now(), restart=self._seen is None)
        async_task("memories.tasks.beat", self.name, cluster=self.name, save=False)
        self._asked_at = time.monotonic()
