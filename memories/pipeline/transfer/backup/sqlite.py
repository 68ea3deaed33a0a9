"""Backups of an SQLite database: a copy of the whole file, by SQLite's own online backup."""

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
from memories.pipeline.transfer.archive import BLOCK, ArchiveError, ArchiveWriter
from memories.pipeline.transfer.backup import migrations
from memories.pipeline.transfer.backup.archive import (
    DERIVED,
    LEFT_OUT,
    Archive,
    Migration,
    Table,
    Tell,
)

logger = logging.getLogger(__name__)

MEMBER = "database.sqlite3"
_PREFIX = ".backup-"
PAGES = 2000  # copied at a time, between two words about the progress
PATIENCE = 60.0  # seconds that others may keep the database busy


def write_to(
    archive: ArchiveWriter, beside: Path, tell: Tell
) -> tuple[dict[str, Table], list[Migration]]:
    """Copy the live database while others work, and put the copy into the archive."""
    with _folder(beside) as folder, connection.wrap_database_errors:
        copy = folder / MEMBER
        with closing(_open(Path(_live_name()))) as live, closing(_open(copy)) as target:
            # One read transaction around it all: writers go on, and the copy never starts over.
            live.execute("BEGIN")
            live.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            _copy(live, target, tell, "copied")
            live.execute("ROLLBACK")
            target.execute("PRAGMA journal_mode=DELETE")  # one file, no neighbours
            target.execute("PRAGMA secure_delete=ON")
            for name in LEFT_OUT:
                if name in _tables(target):
                    target.execute(f'DELETE FROM "{name}"')
            tables = {name: Table(rows) for name, rows in _rows(target).items()}
            applied = _applied(target)
        size, done = copy.stat().st_size, 0
        with archive.add(MEMBER) as add, copy.open("rb") as file:
            while block := file.read(BLOCK):
                add(block)
                done += len(block)
                tell("packed", done, size)
    return tables, applied


def take_in(archive: Archive, *, keep: bool, finish: Callable[[], None], tell: Tell) -> int:
    """Unpack, check and migrate beside the live database; with ``keep`` then copy it over.

    ``finish`` has the last look at what would be kept, and may raise. The answer is the number of
    migrations that were run.
    """
    with _folder(Path(_live_name()).parent) as folder:
        path = folder / MEMBER
        _unpack(archive, path, tell)
        try:
            with closing(_open(path)) as opened:
                _verify(archive, opened)
        except sqlite3.DatabaseError as error:
            raise ArchiveError(f"The database in this backup is damaged: {error}.") from error
        with _instead_of_live(path):
            ran = migrations.forward()
            finish()
        if keep:
            connection.ensure_connection()
            with closing(_open(path)) as restored:
                _copy(restored, connection.connection, tell, "written")
    return ran


@contextmanager
def _instead_of_live(path: Path) -> Iterator[None]:
    """Here, in this thread, the database is this file."""
    live = connections[DEFAULT_DB_ALIAS]
    restored = connections.create_connection(DEFAULT_DB_ALIAS)
    restored.settings_dict = {**live.settings_dict, "NAME": str(path)}
    connections[DEFAULT_DB_ALIAS] = restored
    try:
        yield
    finally:
        restored.close()
        connections[DEFAULT_DB_ALIAS] = live


def _unpack(archive: Archive, path: Path, tell: Tell) -> None:
    size, done = archive.files[MEMBER]["bytes"], 0
    with path.open("xb") as file:
        for block in archive.blocks(MEMBER):
            file.write(block)
            done += len(block)
            tell("unpacked", done, size)


def _verify(archive: Archive, opened: sqlite3.Connection) -> None:
    [[verdict], *more] = opened.execute("PRAGMA integrity_check(3)").fetchall()
    if verdict != "ok" or more:
        raise ArchiveError(f"The database in this backup is damaged: {verdict}.")
    if broken := opened.execute("PRAGMA foreign_key_check").fetchone():
        raise ArchiveError(f"In this backup rows of {broken[0]} point to rows that are not there.")
    if _rows(opened) != {name: table.rows for name, table in archive.manifest.tables.items()}:
        raise ArchiveError("This backup does not hold the rows that its manifest counts.")
    if sorted(_applied(opened)) != sorted(archive.manifest.migrations):
        raise ArchiveError("The database in this backup has other migrations than its manifest.")


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, tell: Tell, what: str) -> None:
    """The online backup: one transaction of the target, undone when it does not come to its end."""
    page = int(source.execute("PRAGMA page_size").fetchone()[0])
    last, moved_at = -1, time.monotonic()

    def progress(_status: int, remaining: int, total: int) -> None:
        nonlocal last, moved_at
        if remaining != last:
            last, moved_at = remaining, time.monotonic()
        elif time.monotonic() - moved_at > PATIENCE:
            raise TimeoutError("Somebody else keeps the database busy: stop `serve` and others.")
        tell(what, (total - remaining) * page, total * page)

    with connection.wrap_database_errors:
        source.backup(target, pages=PAGES, progress=progress, sleep=0.05)


def _live_name() -> str:
    name = str(connection.settings_dict["NAME"])
    if ":memory:" in name or "mode=memory" in name:
        raise ArchiveError("The database is in memory only.")
    return name


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)


def _tables(opened: sqlite3.Connection) -> list[str]:
    rows = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for [name] in rows if not name.startswith("sqlite_")]


def _rows(opened: sqlite3.Connection) -> dict[str, int]:
    """How many each table holds that belongs to a backup."""
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
    """Remove the folders that a killed backup or restore left here."""
    for path in beside.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(path)


@contextmanager
def _folder(beside: Path) -> Iterator[Path]:
    """A folder that only its owner may read, on the disk where the space is wanted.

    Its lock ends with the process, so `remove_leftovers` spares a folder that is in use.
    """
    with ExitStack() as stack:
        with lock_preparation(logger.info):  # nobody removes it before its lock
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
