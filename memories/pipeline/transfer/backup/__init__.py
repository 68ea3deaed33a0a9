"""Backups: the whole database of one moment in one file, and the way back.

The file holds everything that people wrote. It holds neither SECRET_KEY nor `.env`, and none of
LEFT_OUT.
"""

import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
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
    LEFT_OUT,
    Archive,
    Manifest,
    Tell,
)
from memories.pipeline.transfer.backup.sound import broken_memories
from memories.pipeline.transfer.new_file import new_file
from memoryhub.env import BASE_DIR

__all__ = [
    "LEFT_OUT",
    "VENDORS",
    "HoldsData",
    "Report",
    "WorkerAtWork",
    "back_up",
    "check",
    "remove_leftovers",
    "restore",
]

FRESH = timedelta(minutes=2)  # a worker that left a mark since then is at work
VENDORS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class HoldsData(Exception):
    """The database is not empty."""


class WorkerAtWork(Exception):
    """A worker left a mark a moment ago."""


@dataclass
class Report:
    """What a backup holds, and what was done with it."""

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


def silent(what: str, done: int, of: int) -> None:
    """Nobody wants to know how far it is."""


def back_up(path: Path, now: datetime, *, force: bool = False, tell: Tell = silent) -> Report:
    """Write the database to a new file, while others work on it.

    FileExistsError when the file is there, unless ``force``; ArchiveError when it cannot be done.
    """
    began = time.monotonic()
    applied = migrations.applied()
    if not applied:
        raise ArchiveError("This database is empty: there is nothing to back up.")
    _must_know(applied, "This database")
    with new_file(path, force=force) as file:
        archive = ArchiveWriter(file)
        if connection.vendor == "sqlite":
            tables, applied = sqlite.write_to(archive, path.parent, tell)
        else:
            tables, applied = postgres.write_to(archive, tell)
        manifest = Manifest(connection.vendor, _version(), now.isoformat(), applied, tables)
        archive.close(FORMAT, {"left_out": LEFT_OUT, **asdict(manifest)})
    _record("backup", path, rows=manifest.rows)
    return Report(path.name, manifest, path.stat().st_size, time.monotonic() - began)


def check(path: Path, *, tell: Tell = silent) -> Report:
    """Do all that a restore does, and keep nothing of it. ArchiveError says what is wrong."""
    with _opened(path) as (archive, report):

        def finish() -> None:
            if broken := broken_memories():
                raise ArchiveError(_in_words(broken))

        report.migrated = _take_in(archive, keep=False, finish=finish, tell=tell)
    return report


def restore(
    path: Path, now: datetime, *, replace: bool = False, force: bool = False, tell: Tell = silent
) -> Report:
    """Bring the backup back: all of it, or nothing is changed.

    Raises ArchiveError, HoldsData unless ``replace``, and WorkerAtWork unless ``force``; with
    ``force`` memories that do not add up are a warning only.
    """
    with _opened(path) as (archive, report):
        _must_know(migrations.applied(), "This database")
        last_beat = _last_beat()
        if last_beat is not None and now - last_beat < FRESH and not force:
            raise WorkerAtWork
        if not replace and _holds_data():
            raise HoldsData

        def finish() -> None:
            if broken := broken_memories():
                if not force:
                    raise ArchiveError(_in_words(broken))
                report.warnings.append(_in_words(broken))
            _record("restore", path, rows=archive.manifest.rows)

        report.migrated = _take_in(archive, keep=True, finish=finish, tell=tell)
    return report


def remove_leftovers() -> None:
    """Remove the copies of an SQLite database that killed restores left beside it."""
    if connection.vendor == "sqlite":
        sqlite.remove_leftovers(Path(connection.settings_dict["NAME"]).parent)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Archive, Report]]:
    """A backup that fits this database and this code."""
    began = time.monotonic()
    with Archive(path) as archive:
        manifest = archive.manifest
        if manifest.vendor != connection.vendor:
            theirs = VENDORS.get(manifest.vendor, "another database")
            raise ArchiveError(
                f"This backup is of {theirs}, and this database is {VENDORS[connection.vendor]}."
            )
        _must_know(manifest.migrations, "This backup")
        report = Report(path.name, manifest, path.stat().st_size, 0.0)
        try:
            yield archive, report
        finally:
            ContentType.objects.clear_cache()  # their keys may be others now
        report.seconds = time.monotonic() - began


def _take_in(archive: Archive, **how: Any) -> int:
    taking = sqlite.take_in if connection.vendor == "sqlite" else postgres.take_in
    return taking(archive, **how)


def _must_know(names: list[tuple[str, str]], whose: str) -> None:
    if newer := migrations.unknown(names):
        names_in_words = ", ".join(".".join(name) for name in newer[:3])
        raise ArchiveError(
            f"{whose} is newer than this program, which has no migration {names_in_words}."
        )


def _holds_data() -> bool:
    """Anything but what migrations and schedules make by themselves."""
    with connection.cursor() as cursor:
        for name in connection.introspection.table_names(cursor):
            is_derived = name in LEFT_OUT or name.startswith(DERIVED)
            if name.startswith("memories_") and not is_derived:
                cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(name)} LIMIT 1")
                if cursor.fetchone():
                    return True
    return False


def _last_beat() -> datetime | None:
    if not _is_there(Heartbeat):
        return None
    return Heartbeat.objects.last_beat()


def _record(action: str, path: Path, **details: Any) -> None:
    """In the audit, unless the database is older than it."""
    if _is_there(AuditEvent):
        AuditEvent.objects.record(action, by=None, subject=path.name, **details)


def _is_there(model: type[Model]) -> bool:
    return model._meta.db_table in connection.introspection.table_names()


def _in_words(broken: list[str]) -> str:
    return "The memories in this backup do not add up: " + "; ".join(broken) + "."


def _version() -> str:
    """The version of this program; empty where it does not lie beside its pyproject.toml."""
    try:
        project = tomllib.loads((BASE_DIR / "pyproject.toml").read_text("utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return ""
    return str(project["version"])
