"""Databases for browser tests. Each is made once in a run and restored for each test.

Making a team takes seconds. Restoring it takes milliseconds, because SQLite copies the pages of its
file.
"""

import fcntl
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from django.db import connection

Value = TypeVar("Value")


class States:
    """A folder that all processes of a run share. Each process can restore the states of the
    others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.empty = sqlite3.connect(":memory:")
        _here().backup(self.empty)

    def bring(self, name: str, make: Callable[[], Value]) -> Value:
        """Restore the database as `make` left it, and return the value that `make` returned."""
        file, given = self.folder / f"{name}.sqlite3", self.folder / f"{name}.pickle"
        with (self.folder / f"{name}.lock").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if not given.exists():
                value = make()
                with closing(sqlite3.connect(file)) as kept:
                    _here().backup(kept)
                given.write_bytes(pickle.dumps(value))
        with closing(sqlite3.connect(file)) as kept:
            kept.backup(_here())
        restored: Value = pickle.loads(given.read_bytes())
        return restored

    def clear(self) -> None:
        self.empty.backup(_here())


def data_version() -> int:
    """A number of SQLite that changes when another connection writes."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])


def _here() -> sqlite3.Connection:
    connection.ensure_connection()
    here: sqlite3.Connection = connection.connection
    return here
