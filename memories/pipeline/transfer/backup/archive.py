"""The archive of a backup, and its manifest: database, migrations and tables."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memories.pipeline.transfer.archive import MANIFEST, ArchiveError, ArchiveReader

FORMAT = "memoryhub-backup"
FORMAT_VERSION = 1

# State of the running processes: sessions, queued tasks (a pass finds the jobs in their rows) and
# heartbeats. And tokens of connected apps: a restore must not bring back revoked ones.
LEFT_OUT = (
    "allauth_idp_oidc_token",
    *("django_session", "django_q_ormq", "django_q_task", "memories_heartbeat"),
    "memoryhub_cache",  # counts sign-in attempts
)

DERIVED = ("memories_search", "memories_revision")  # prefixes of tables that triggers fill again

Migration = tuple[str, str]  # (app, name)
Progress = Callable[[str, int, int], None]  # (what, done, total), in bytes or rows


@dataclass(frozen=True)
class Table:
    """Only PostgreSQL has ``columns``, in the order of the data, and ``sequence``.

    A sequence is ``[column, last value, is_called]``.
    """

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
    """Raises ArchiveError."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, FORMAT, FORMAT_VERSION, "backup of Memory Hub")

    def check_facts(self) -> None:
        try:
            self.manifest = Manifest(
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
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArchiveError(f"{MANIFEST}: is not the manifest of a backup.") from error
