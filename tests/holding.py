"""Hold the lock of the store in another thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from memories.models import Workspace
from memories.pipeline.locks import lock_workspace
from tests.processes import PATIENCE


@contextmanager
def being_stored(workspace: Workspace) -> Iterator[None]:
    """On PostgreSQL a session may take its own lock twice, so another thread's holds it."""
    locked, done = threading.Event(), threading.Event()

    def hold_lock() -> None:
        try:
            with lock_workspace(workspace):
                locked.set()
                done.wait(PATIENCE)
        finally:
            connection.close()

    holder = threading.Thread(target=hold_lock)
    holder.start()
    try:
        assert locked.wait(PATIENCE)
        yield
    finally:
        done.set()
        holder.join()
