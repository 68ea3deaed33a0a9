"""Backups of an SQLite database: a copy of the file by SQLite's online backup."""

import contextlib
import fcntl
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections

from memories.pipeline.locks import lock_preparation
from memories.pipeline.transfer.archive import BLOCK_BYTES, ArchiveError, ArchiveWriter
from memories.pipeline.transfer.backup import migrations
from memories.pipeline.transfer.backup.archive import (
    DERIVED,
    LEFT_OUT,
    Archive,
    Migration,
    Progress,
    Table,
)

logger = logging.getLogger(__name__)

MEMBER = "database.sqlite3"
_PREFIX = ".memoryhub-backup-"
PAGES = 2000  # copied between two reports of the progress
TIMEOUT = 60.0  # seconds that other processes may keep the database busy


def write_to(
    archive: ArchiveWriter, beside: Path, on_progress: Progress
) -> tuple[dict[str, Table], list[Migration]]:
    """Copy the live database while others use it, and add the copy to the archive."""
    with _folder(beside) as folder, connection.wrap_database_errors:
        copy = folder / MEMBER
        with closing(_open(Path(_live_name()))) as live, closing(_open(copy)) as target:
            # In one read transaction others can write, and the copy never starts again.
            live.execute("BEGIN")
            live.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            _copy(live, target, on_progress, "copied")
            live.execute("ROLLBACK")
            target.execute("PRAGMA journal_mode=DELETE")  # one file, without -wal and -shm
            target.execute("PRAGMA secure_delete=ON")
            for name in LEFT_OUT:
                if name in _tables(target):
                    target.execute(f'DELETE FROM "{name}"')
            tables = {name: Table(rows) for name, rows in _rows(target).items()}
            applied = _applied(target)
        size, done = copy.stat().st_size, 0
        with archive.add(MEMBER) as add, copy.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                add(block)
                done += len(block)
                on_progress("packed", done, size)
    return tables, applied


def load(archive: Archive, *, keep: bool, finish: Callable[[], None], on_progress: Progress) -> int:
    """Unpack, check and migrate a copy beside the live database. With ``keep`` replace that one.

    ``finish`` runs on the copy and may raise. Return the number of migrations that ran.
    """
    with _folder(Path(_live_name()).parent) as folder:
        path = folder / MEMBER
        _unpack(archive, path, on_progress)
        try:
            with closing(_open(path)) as opened:
                _verify(archive, opened)
        except sqlite3.DatabaseError as error:
            raise ArchiveError(f"The database in this backup is damaged: {error}.") from error
        with _use_database(path):
            ran = migrations.migrate()
            finish()
        if keep:
            connection.ensure_connection()
            with closing(_open(path)) as restored:
                _copy(restored, connection.connection, on_progress, "written")
    return ran


@contextmanager
def _use_database(path: Path) -> Iterator[None]:
    """Make this file the database of this thread."""
    live = connections[DEFAULT_DB_ALIAS]
    restored = connections.create_connection(DEFAULT_DB_ALIAS)
    restored.settings_dict = {**live.settings_dict, "NAME": str(path)}
    connections[DEFAULT_DB_ALIAS] = restored
    try:
        yield
    finally:
        restored.close()
        connections[DEFAULT_DB_ALIAS] = live


def _unpack(archive: Archive, path: Path, on_progress: Progress) -> None:
    if MEMBER not in archive.files:
        raise ArchiveError(f"{MEMBER}: is missing.")
    size, done = archive.files[MEMBER]["bytes"], 0
    with path.open("xb") as file:
        for block in archive.blocks(MEMBER):
            file.write(block)
            done += len(block)
            on_progress("unpacked", done, size)


def _verify(archive: Archive, opened: sqlite3.Connection) -> None:
    [[result], *more] = opened.execute("PRAGMA integrity_check(3)").fetchall()
    if result != "ok" or more:
        raise ArchiveError(f"The database in this backup is damaged: {result}.")
    if broken := opened.execute("PRAGMA foreign_key_check").fetchone():
        raise ArchiveError(f"In this backup rows of {broken[0]} refer to rows that do not exist.")
    if _rows(opened) != {name: table.rows for name, table in archive.manifest.tables.items()}:
        raise ArchiveError("The number of rows in this backup differs from its manifest.")
    if sorted(_applied(opened)) != sorted(archive.manifest.migrations):
        raise ArchiveError(
            "The migrations of the database in this backup differ from its manifest."
        )


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, on_progress: Progress, label: str
) -> None:
    """Run SQLite's online backup: one transaction of the target."""
    page = int(source.execute("PRAGMA page_size").fetchone()[0])
    last_remaining, moved_at = -1, time.monotonic()

    def progress(_status: int, remaining: int, total: int) -> None:
        nonlocal last_remaining, moved_at
        if remaining != last_remaining:
            last_remaining, moved_at = remaining, time.monotonic()
        elif time.monotonic() - moved_at > TIMEOUT:
            raise TimeoutError("Another process uses the database. Stop `serve` and all workers.")
        on_progress(label, (total - remaining) * page, total * page)

    with connection.wrap_database_errors:
        source.backup(target, pages=PAGES, progress=progress, sleep=0.05)


def _live_name() -> str:
    name = str(connection.settings_dict["NAME"])
    if ":memory:" in name or "mode=memory" in name:
        raise ArchiveError("The database is in memory only.")
    return name


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=TIMEOUT, isolation_level=None)


def _tables(opened: sqlite3.Connection) -> list[str]:
    rows = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for [name] in rows if not name.startswith("sqlite_")]


def _rows(opened: sqlite3.Connection) -> dict[str, int]:
    """Return the number of rows of each table that belongs in a backup."""
    counts = {}
    for name in _tables(opened):
        if name not in LEFT_OUT and not name.startswith(DERIVED):
            quoted = name.replace('"', '""')
            counts[name] = int(opened.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0])
    return counts


def _applied(opened: sqlite3.Connection) -> list[Migration]:
    if "django_migrations" not in _tables(opened):
        return []
    rows: list[Any] = opened.execute(
        "SELECT app, name FROM django_migrations ORDER BY id"
    ).fetchall()
    return [(app, name) for app, name in rows]


def remove_leftovers(beside: Path) -> None:
    """Remove the folders of killed backups and restores."""
    for path in beside.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if all(file.name.startswith(MEMBER) for file in path.iterdir()):
                shutil.rmtree(path)


@contextmanager
def _folder(beside: Path) -> Iterator[Path]:
    """Yield a folder that only its owner may read, beside the database or the backup.

    Its lock ends with the process, so `remove_leftovers` skips a folder in use.
    """
    with ExitStack() as stack:
        with lock_preparation(logger.info):  # no other process removes it before it is locked
            remove_leftovers(beside)
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=beside))
            stack.enter_context(_locked(Path(name), fcntl.LOCK_SH))
        yield Path(name)


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
