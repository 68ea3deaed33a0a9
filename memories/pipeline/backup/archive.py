"""The file of a backup: a zip that says in `manifest.json` what its other members hold.

Each member's size and SHA-256 stand in the manifest. They find damage, not a forger: whoever may
write the file may write the manifest.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memories.pipeline.new_file import new_file

FORMAT = "memoryhub-backup"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MANIFEST_LIMIT = 16 * 1024 * 1024  # bytes; a hundred tables and migrations take some ten thousand
BLOCK = 1024 * 1024

# What the machine is doing, not what is known: logins that are open, tasks that are queued (rows
# tell what is owed, and a pass finds them) and pulses of workers.
LEFT_OUT = (
    *("django_session", "django_q_ormq", "django_q_task", "memories_heartbeat"),
    "memoryhub_cache",  # how often somebody tried to sign in
)

DERIVED = "memories_search"  # how tables begin that triggers make of the texts again

Migration = tuple[str, str]  # (app, name)
Tell = Callable[[str, int, int], None]  # (what, done, of), in bytes or rows


class BadBackup(Exception):
    """Not a backup, or a damaged one, or one that does not fit here; the text says which."""


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


class Writer:
    """Adds members to a new backup."""

    def __init__(self, zipped: zipfile.ZipFile) -> None:
        self._zipped = zipped
        self._members: dict[str, dict[str, Any]] = {}

    @contextmanager
    def member(self, name: str) -> Iterator[Callable[[bytes], None]]:
        """Yields the function that adds bytes to it."""
        digest, size = hashlib.sha256(), 0
        with self._zipped.open(name, "w", force_zip64=True) as file:

            def add(data: bytes) -> None:
                nonlocal size
                digest.update(data)
                size += len(data)
                file.write(data)

            yield add
        self._members[name] = {"bytes": size, "sha256": digest.hexdigest()}

    def close(self, manifest: Manifest) -> None:
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "left_out": LEFT_OUT}
        whole = {**head, **asdict(manifest), "members": self._members}
        self._zipped.writestr(MANIFEST, json.dumps(whole, indent=1), zipfile.ZIP_DEFLATED)


@contextmanager
def new_archive(path: Path, *, force: bool) -> Iterator[Writer]:
    """See `new_file`; FileExistsError unless ``force``."""
    with (
        new_file(path, force=force) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as zipped,
    ):
        yield Writer(zipped)


class Archive:
    """A backup that is read. Everything that is wrong with the file is a BadBackup."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading():
            self._zipped = zipfile.ZipFile(path)
        try:
            self.manifest = self._read_manifest()
        except BaseException:
            self._zipped.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *args: object) -> None:
        self._zipped.close()

    def _read_manifest(self) -> Manifest:
        if MANIFEST not in self._zipped.namelist():
            raise BadBackup("This is not a backup of Memory Hub.")
        with _reading():
            if self._zipped.getinfo(MANIFEST).file_size > MANIFEST_LIMIT:
                raise BadBackup("This is not a backup of Memory Hub: its manifest is too large.")
            text = self._zipped.read(MANIFEST)
        try:
            whole = json.loads(text)
            if whole["format"] != FORMAT:
                raise BadBackup("This is not a backup of Memory Hub.")
            if whole["format_version"] > FORMAT_VERSION:
                raise BadBackup("This backup was made by a newer version of Memory Hub.")
            self._members = {
                str(name): (int(member["bytes"]), str(member["sha256"]))
                for name, member in whole["members"].items()
            }
            manifest = Manifest(
                vendor=str(whole["vendor"]),
                version=str(whole["version"]),
                created_at=str(whole["created_at"]),
                migrations=[(str(app), str(name)) for app, name in whole["migrations"]],
                tables={
                    str(name): Table(
                        int(table["rows"]), [str(c) for c in table["columns"]], table["sequence"]
                    )
                    for name, table in whole["tables"].items()
                },
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadBackup("The manifest of this backup cannot be read.") from error
        if sorted(self._zipped.namelist()) != sorted([MANIFEST, *self._members]):
            raise BadBackup("This backup does not hold the members that its manifest names.")
        return manifest

    def size(self, name: str) -> int:
        """Bytes of a member."""
        return self._member(name)[0]

    def blocks(self, name: str) -> Iterator[bytes]:
        """A member piece by piece. Damage shows at the end at the latest: believe it only then."""
        promised, sha256 = self._member(name)
        digest, size = hashlib.sha256(), 0
        with _reading(), self._zipped.open(name) as file:
            while block := file.read(BLOCK):
                digest.update(block)
                size += len(block)
                if size > promised:
                    break
                yield block
        if size != promised or digest.hexdigest() != sha256:
            raise BadBackup(f"This backup is damaged: {name} is not what was written.")

    def _member(self, name: str) -> tuple[int, str]:
        if name not in self._members:
            raise BadBackup(f"This backup is incomplete: it has no {name}.")
        return self._members[name]


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise BadBackup("There is no such file.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise BadBackup(
            "This is not a backup of Memory Hub, or it is cut off or damaged."
        ) from error
    except OSError as error:
        raise BadBackup(f"The file cannot be read: {error.strerror or error}.") from error
