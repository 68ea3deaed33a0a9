"""Locks across processes: one import or sync for each workspace, one preparation, one probe.

The operating system or PostgreSQL releases the lock when its process ends, however it ends. On
SQLite all processes share a machine, so the lock is a file in var/. On PostgreSQL the server has it.
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection

from memories.models import Workspace

_NAMESPACE = 0x4D454D48  # the first key of the hub's advisory locks
_PREPARATION, _PROBE = 0, -1  # second keys, which are else keys of workspaces
_WAIT_SECONDS = 0.2


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def lock_workspace(workspace: Workspace) -> Iterator[None]:
    """Lock the workspace for an import or a sync. Raises `Busy` at once when it is locked."""
    with _lock(workspace.pk, f"storing-{workspace.pk}"):
        yield


def lock_probe() -> AbstractContextManager[None]:
    """Lock the probe of the model. Raises `Busy` at once while another process probes it."""
    return _lock(_PROBE, "probing")


@contextmanager
def lock_preparation(say: Callable[[str], object]) -> Iterator[None]:
    """Lock what a start does once: migrations, the demo, schedules, static files.

    Waits for another process, and calls ``say`` with the reason. The lock is not reentrant.
    """
    with ExitStack() as stack:
        is_waiting = False
        while True:
            try:
                stack.enter_context(_lock(_PREPARATION, "preparing"))
                break
            except Busy:
                if not is_waiting:
                    say(
                        "Another process is preparing this database. Waiting until it has finished."
                    )
                is_waiting = True
                time.sleep(_WAIT_SECONDS)
        yield


def _lock(key: int, name: str) -> AbstractContextManager[None]:
    return _on_server(key) if connection.vendor == "postgresql" else _in_file(name)


@contextmanager
def _on_server(number: int) -> Iterator[None]:
    key = [_NAMESPACE, number]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", key)
        (is_locked,) = cursor.fetchone()
    if not is_locked:
        raise Busy
    try:
        yield
    finally:
        # A lost connection has released the lock.
        if connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", key)


@contextmanager
def _in_file(name: str) -> Iterator[None]:
    folder = Path(settings.MEMORYHUB_VAR) / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy from error
        yield
