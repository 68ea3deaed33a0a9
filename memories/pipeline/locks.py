"""One import or sync per workspace at a time, and one process that prepares the database.

The lock belongs to the process: the operating system, or PostgreSQL when its session ends, lets
it go whatever way the holder dies, so it cannot stay stuck. On SQLite all processes share this
machine and its var/ folder; on PostgreSQL they may be anywhere, so the server keeps the lock.
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection

from memories.models import Workspace

# Half of an advisory lock's number, so that ours meet nobody else's.
_FAMILY = 0x4D454D48
_PREPARING = 0  # beside the keys of workspaces, which begin at 1
_WAIT_SECONDS = 0.2


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def storing(workspace: Workspace) -> Iterator[None]:
    """Hold the workspace's storing lock, or raise `Busy` at once."""
    with _lock(workspace.pk, f"storing-{workspace.pk}"):
        yield


@contextmanager
def preparing(say: Callable[[str], object]) -> Iterator[None]:
    """Hold the lock of what a start does once: migrations, the demo, schedules, static files.

    Waits for another holder, and calls ``say`` with the reason. Not reentrant.
    """
    with ExitStack() as stack:
        is_waiting = False
        while True:
            try:
                stack.enter_context(_lock(_PREPARING, "preparing"))
                break
            except Busy:
                if not is_waiting:
                    say("Another process prepares this database. Waiting until it is done.")
                is_waiting = True
                time.sleep(_WAIT_SECONDS)
        yield


def _lock(key: int, name: str) -> AbstractContextManager[None]:
    return _on_server(key) if connection.vendor == "postgresql" else _in_file(name)


@contextmanager
def _on_server(number: int) -> Iterator[None]:
    key = [_FAMILY, number]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", key)
        (is_locked,) = cursor.fetchone()
    if not is_locked:
        raise Busy
    try:
        yield
    finally:
        # A lost connection, or a transaction that failed, gives the lock back by itself.
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
