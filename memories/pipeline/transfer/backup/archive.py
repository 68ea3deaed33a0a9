"""What a backup holds: its database, migrations and tables, as its manifest says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memories.pipeline.transfer.archive import MANIFEST, ArchiveError, ArchiveReader

FORMAT = "memoryhub-backup"

# What the machine is doing, not what is known: logins that are open, tasks that are queued (rows
# tell what is owed, and a pass finds them) and pulses of workers.
LEFT_OUT = (
    *("django_session", "django_q_ormq", "django_q_task", "memories_heartbeat"),
    "memoryhub_cache",  # how often somebody tried to sign in
)

DERIVED = "memories_search"  # how tables begin that triggers make of the texts again

Migration = tuple[str, str]  # (app, name)
Tell = Callable[[str, int, int], None]  # (what, done, of), in bytes or rows


@dataclass(frozen=True)
class Table:
    """``columns`` in the order of the data, ``sequence`` as ``[column, last value, was it used]``:
    both only where the data are rows alone (PostgreSQL)."""

    rows: int
    columns: list[str] = field(default_factory=list)
    sequence: list[Any] | None = None


@dataclass(frozen=True)
class Manifest:
    vendor: str
    version: str
    created_at: str
    migrations: list[Migration]
    tables: dict[str, Table]

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


class Archive(ArchiveReader):
    """A backup that is read. Raises ArchiveError."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, FORMAT, "backup of Memory Hub")
        try:
            self.manifest = self._manifest()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self._zip.close()
            raise ArchiveError(f"{MANIFEST}: is not that of a backup.") from error

    def _manifest(self) -> Manifest:
        return Manifest(
            vendor=str(self.facts["vendor"]),
            version=str(self.facts["version"]),
            created_at=str(self.facts["created_at"]),
            migrations=[(str(app), str(name)) for app, name in self.facts["migrations"]],
            tables={
                str(name): Table(
                    int(table["rows"]), [str(c) for c in table["columns"]], table["sequence"]
                )
                for name, table in self.facts["tables"].items()
            },
        )
