"""Backups: write the whole database at one moment to one file, check the file, and restore it.

A backup contains neither SECRET_KEY nor `.env`, and none of the tables in LEFT_OUT.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model

from memories.models import AuditEvent, Heartbeat
from memories.pipeline.transfer.archive import ArchiveError, ArchiveWriter
from memories.pipeline.transfer.backup import migrations, postgres, sqlite
from memories.pipeline.transfer.backup.archive import (
    DERIVED,
    FORMAT,
    FORMAT_VERSION,
    LEFT_OUT,
    Archive,
    Manifest,
    Progress,
)
from memories.pipeline.transfer.backup.integrity import find_broken_memories
from memories.pipeline.transfer.new_file import new_file
from memories.rules.transfer.upgrade import HEARTBEAT_MAX_AGE
from memoryhub import __version__

__all__ = [
    "LEFT_OUT",
    "VENDORS",
    "BackupReport",
    "DatabaseNotEmpty",
    "WorkerRunning",
    "back_up",
    "check",
    "remove_leftovers",
    "restore",
]

VENDORS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class DatabaseNotEmpty(Exception):
    """The database contains data that a restore would replace."""


class WorkerRunning(Exception):
    """A worker had a heartbeat a moment ago."""


@dataclass
class BackupReport:
    """The contents of a backup. ``size`` is in bytes.

    ``migrated`` and ``warnings`` are of a check or restore: the number of migrations that it ran, and
    the problems that did not stop it.
    """

    file: str
    manifest: Manifest
    size: int
    seconds: float
    migrated: int = 0
    warnings: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "bytes": self.size,
            "database": self.manifest.vendor,
            "version": self.manifest.version,
            "created_at": self.manifest.created_at,
            "rows": self.manifest.rows,
            "tables": [
                {"table": name, "rows": table.rows} for name, table in self.manifest.tables.items()
            ],
            "left_out": list(LEFT_OUT),
            "seconds": round(self.seconds, 3),
        }


def no_progress(what: str, done: int, total: int) -> None:
    """Do nothing. This is the default of ``on_progress``."""


def back_up(
    path: Path, now: datetime, *, force: bool = False, on_progress: Progress = no_progress
) -> BackupReport:
    """Write the database to a new file, while others use it.

    Raises FileExistsError if the file exists, unless ``force``, and `ArchiveError`.
    """
    start = time.monotonic()
    applied = migrations.applied()
    if not applied:
        raise ArchiveError("This database is empty: there is nothing to back up.")
    _require_known_migrations(applied, "This database")
    with new_file(path, force=force) as file:
        archive = ArchiveWriter(file)
        if connection.vendor == "sqlite":
            tables, applied = sqlite.write_to(archive, path.parent, on_progress)
        else:
            tables, applied = postgres.write_to(archive, on_progress)
        manifest = Manifest(connection.vendor, __version__, now.isoformat(), applied, tables)
        archive.close(FORMAT, FORMAT_VERSION, {"left_out": LEFT_OUT, **asdict(manifest)})
    _record("backup", path, rows=manifest.rows)
    return BackupReport(path.name, manifest, path.stat().st_size, time.monotonic() - start)


def check(path: Path, *, on_progress: Progress = no_progress) -> BackupReport:
    """Restore the whole backup without keeping the result. Raises `ArchiveError`."""
    with _open(path) as (archive, report):

        def finish() -> None:
            if broken := find_broken_memories():
                raise ArchiveError(_inconsistency_text(broken))

        report.migrated = _load(archive, keep=False, finish=finish, on_progress=on_progress)
    return report


def restore(
    path: Path,
    now: datetime,
    *,
    replace: bool = False,
    force: bool = False,
    on_progress: Progress = no_progress,
) -> BackupReport:
    """Restore the whole backup, or change nothing.

    Raises `ArchiveError`, `DatabaseNotEmpty` unless ``replace``, and `WorkerRunning` unless
    ``force``. With ``force``, inconsistent memories cause a warning instead of an error.
    """
    with _open(path) as (archive, report):
        _require_known_migrations(migrations.applied(), "This database")
        last_beat = Heartbeat.objects.last_beat() if _has_table(Heartbeat) else None
        if last_beat is not None and now - last_beat < HEARTBEAT_MAX_AGE and not force:
            raise WorkerRunning
        if not replace and _has_data():
            raise DatabaseNotEmpty

        def finish() -> None:
            if broken := find_broken_memories():
                if not force:
                    raise ArchiveError(_inconsistency_text(broken))
                report.warnings.append(_inconsistency_text(broken))
            _record("restore", path, rows=archive.manifest.rows)

        report.migrated = _load(archive, keep=True, finish=finish, on_progress=on_progress)
    return report


def remove_leftovers() -> None:
    """Remove the copies of an SQLite database that killed restores left in its folder."""
    if connection.vendor == "sqlite":
        sqlite.remove_leftovers(Path(connection.settings_dict["NAME"]).parent)


@contextmanager
def _open(path: Path) -> Iterator[tuple[Archive, BackupReport]]:
    """Open a backup, and yield it with a report. Set the duration of the report at the end.

    Raises `ArchiveError` if the backup is of another kind of database or of a newer program.
    """
    start = time.monotonic()
    with Archive(path) as archive:
        manifest = archive.manifest
        if manifest.vendor != connection.vendor:
            vendor = VENDORS.get(manifest.vendor, "another database")
            raise ArchiveError(
                f"This backup is of {vendor}, and this database is {VENDORS[connection.vendor]}."
            )
        _require_known_migrations(manifest.migrations, "This backup")
        report = BackupReport(path.name, manifest, path.stat().st_size, 0.0)
        try:
            yield archive, report
        finally:
            ContentType.objects.clear_cache()  # the ids of the restored database may differ
        report.seconds = time.monotonic() - start


def _load(archive: Archive, **options: Any) -> int:
    load = sqlite.load if connection.vendor == "sqlite" else postgres.load
    return load(archive, **options)


def _require_known_migrations(names: list[tuple[str, str]], owner: str) -> None:
    if unknown := migrations.unknown(names):
        names_text = ", ".join(".".join(name) for name in unknown[:3])
        raise ArchiveError(
            f"{owner} is newer than this program, which has no migration {names_text}."
        )


def _has_data() -> bool:
    """Return whether the hub's tables have rows that a restore would replace."""
    with connection.cursor() as cursor:
        for name in connection.introspection.table_names(cursor):
            is_ignored = name in LEFT_OUT or name.startswith(DERIVED)
            if name.startswith("memories_") and not is_ignored:
                cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(name)} LIMIT 1")
                if cursor.fetchone():
                    return True
    return False


def _record(action: str, path: Path, **details: Any) -> None:
    """Record the action in the audit log, unless the database is older than the log."""
    if _has_table(AuditEvent):
        AuditEvent.objects.record(action, by=None, subject=path.name, **details)


def _has_table(model: type[Model]) -> bool:
    return model._meta.db_table in connection.introspection.table_names()


def _inconsistency_text(broken: list[str]) -> str:
    return "The memories in this backup are inconsistent: " + "; ".join(broken) + "."
