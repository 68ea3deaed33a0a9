"""Decide whether a database may be upgraded now."""

from collections.abc import Sequence
from datetime import datetime, timedelta

BACKUP_MAX_AGE = timedelta(days=1)
HEARTBEAT_MAX_AGE = timedelta(minutes=2)  # a newer heartbeat means that a worker runs


def newer_database(migrations: Sequence[tuple[str, str]]) -> str:
    """Return the sentence about migrations that this program does not have, or ""."""
    if not migrations:
        return ""
    names = ", ".join(".".join(name) for name in migrations[:3])
    return (
        f"The database is newer than this program, which does not have {len(migrations)} of its"
        f" migrations ({names}). Install the newer release, or restore a backup of this one."
        " Nothing was changed."
    )


def find_upgrade_problems(
    now: datetime,
    *,
    unknown: Sequence[tuple[str, str]],
    pending: int,
    database_bytes: int,
    free_bytes: int | None,
    last_backup: datetime | None,
    last_beat: datetime | None,
) -> list[str]:
    """Return the reasons against running the ``pending`` migrations now.

    ``free_bytes`` None: unknown, because the database is on another machine.
    """
    if unknown:
        return [newer_database(unknown)]
    if not pending:
        return []
    problems = []
    if last_beat is not None and now - last_beat < HEARTBEAT_MAX_AGE:
        problems.append(
            "A worker had a heartbeat in the last two minutes. Stop `serve`, `socket` and all workers,"
            " because queries of the old release may fail during and after the migrations."
        )
    # SQLite writes changed tables a second time, and everything to the WAL first.
    if free_bytes is not None and free_bytes < 2 * database_bytes:
        problems.append(
            f"Only {free_bytes:,} bytes are free beside the database, and the migrations may need"
            f" {2 * database_bytes:,}. Free some space first."
        )
    if last_backup is None:
        problems.append("There is no backup yet. Run `backup` first.")
    elif now - last_backup > BACKUP_MAX_AGE:
        age = (now - last_backup).days
        problems.append(f"The last backup is more than {age} days old. Run `backup` first.")
    return problems
