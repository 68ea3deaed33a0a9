"""One import or sync per workspace at a time.

The lock belongs to the process: the operating system, or PostgreSQL when its session ends, lets
it go whatever way the holder dies, so it cannot stay stuck. On SQLite all processes share this
machine and its var/ folder; on PostgreSQL they may be anywhere, so the server keeps the lock.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection

from memories.models import Workspace

# Half of an advisory lock's number, so that ours meet nobody else's.
_FAMILY = 0x4D454D48


class Busy(Exception):
    """Another process is storing messages of this workspace."""


@contextmanager
def storing(workspace: Workspace) -> Iterator[None]:
    """Hold the workspace's storing lock, or raise `Busy` at once."""
    with _on_server(workspace.pk) if connection.vendor == "postgresql" else _in_file(workspace.pk):
        yield


@contextmanager
def _on_server(workspace_id: int) -> Iterator[None]:
    key = [_FAMILY, workspace_id]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", key)
        (held,) = cursor.fetchone()
    if not held:
        raise Busy
    try:
        yield
    finally:
        # A lost connection, or a transaction that failed, gives the lock back by itself.
        if connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", key)


@contextmanager
def _in_file(workspace_id: int) -> Iterator[None]:
    folder = Path(settings.MEMORYHUB_VAR) / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"storing-{workspace_id}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy from error
        yield
