"""Databases as tests find them, each made once in a run and brought back as often as it is asked for.

Making a team takes seconds, bringing it back milliseconds: SQLite copies the pages of its file.
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
    """In a folder that all processes of a run share: what one has made, the others find."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.empty = sqlite3.connect(":memory:")
        _here().backup(self.empty)

    def bring(self, name: str, make: Callable[[], Value]) -> Value:
        """The database as `make` left it, and what it gave, in rows of the caller's own."""
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
