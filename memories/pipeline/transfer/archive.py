"""The zip file of a backup or an export. `manifest.json` lists its files with size and SHA-256.

The hashes detect damage, but not forgery: a forger can write the manifest too.
"""

import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

from memories.rules.transfer.schema import (
    Schema,
    SchemaError,
    integer,
    list_of,
    parse_json,
    pattern,
    text,
    to_json,
)

MANIFEST = "manifest.json"
MAX_TEXT_BYTES = 64_000_000  # of a file that is read as a whole
BLOCK_BYTES = 1 << 20
_TIME = (1980, 1, 1, 0, 0, 0)  # the same data makes the same file
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
)
_FILES = list_of(
    Schema(
        {"name": text(1000, min_length=1), "bytes": integer(), "sha256": pattern("[0-9a-f]{64}")}
    )
)


class ArchiveError(Exception):
    """A file cannot be read completely, or does not fit here. The text says why."""


class ArchiveWriter:
    """Adds files one after the other. `close` adds the manifest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._files: list[dict[str, Any]] = []

    @contextmanager
    def add(self, name: str) -> Iterator[Callable[[bytes], None]]:
        """Yield the function that writes bytes to the file."""
        sha256, size = hashlib.sha256(), 0
        with self._zip.open(_zip_info(name), "w", force_zip64=True) as file:

            def write(data: bytes) -> None:
                nonlocal size
                sha256.update(data)
                size += len(data)
                file.write(data)

            yield write
        self._files.append({"name": name, "bytes": size, "sha256": sha256.hexdigest()})

    def close(self, archive_format: str, version: int, facts: dict[str, Any]) -> None:
        head = {"format": archive_format, "format_version": version, **facts}
        lines = [f"  {to_json(key)}: {to_json(value)}" for key, value in head.items()]
        files = ",\n".join(f"    {to_json(file)}" for file in self._files)
        content = "{\n" + ",\n".join([*lines, f'  "files": [\n{files}\n  ]']) + "\n}\n"
        self._zip.writestr(_zip_info(MANIFEST), content)
        self._zip.close()

    def abandon(self) -> None:
        """Stop without a directory of the zip: the file stays unreadable."""
        self._zip.fp = None


def _zip_info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = 0o100600 << 16
    return info


class ArchiveReader:
    """The files of an archive by name, and its ``facts``. Nothing is unpacked to disk.

    Each file is compared with the manifest at its end. A caller must discard all of it when
    `ArchiveError` is raised.
    """

    def __init__(self, path: Path, archive_format: str, version: int, kind: str) -> None:
        with _archive_errors(f"This is no {kind}, or it is damaged or cut off."):
            self._zip = zipfile.ZipFile(path)
        try:
            self.facts = self._read_manifest(archive_format, version, kind)
            self.check_facts()
        except BaseException:
            self._zip.close()
            raise

    def check_facts(self) -> None:
        """Check the facts of the format. Raises `ArchiveError`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def _read_manifest(self, archive_format: str, version: int, kind: str) -> dict[str, Any]:
        infos = self._zip.infolist()
        self.unpacked_bytes = sum(info.file_size for info in infos)
        names = {info.filename for info in infos}
        if len(names) != len(infos):
            raise ArchiveError("It contains a file twice.")
        if MANIFEST not in names:
            raise ArchiveError(f"It has no {MANIFEST}: this is no {kind}.")
        if self._zip.getinfo(MANIFEST).file_size > MAX_TEXT_BYTES:
            raise ArchiveError(f"{MANIFEST}: is too large.")
        try:
            with _archive_errors(f"{MANIFEST}: is damaged."):
                content = self._zip.read(MANIFEST)
            facts = parse_json(content.decode())
            if not isinstance(facts, dict) or facts.pop("format", None) != archive_format:
                raise SchemaError(f"this is no {kind}")
            if (actual := facts.pop("format_version", None)) != version:
                raise SchemaError(
                    f"is of version {str(actual)[:20]} of the format; this program reads {version}"
                )
            files = _FILES(facts.pop("files", None))
        except UnicodeDecodeError as error:
            raise ArchiveError(f"{MANIFEST}: is not UTF-8.") from error
        except SchemaError as error:
            raise ArchiveError(f"{MANIFEST}: {error}.") from error
        self.files = {file["name"]: file for file in files}
        if len(self.files) != len(files):
            raise ArchiveError(f"{MANIFEST}: lists a file twice.")
        if missing := sorted(self.files.keys() - names):
            raise ArchiveError(f"{missing[0]}: is missing.")
        if extra := sorted(names - self.files.keys() - {MANIFEST}):
            raise ArchiveError(f"{extra[0]}: is not listed in {MANIFEST}.")
        return facts

    def blocks(self, name: str) -> Iterator[bytes]:
        return self._pieces(name, lambda file: partial(file.read, BLOCK_BYTES))

    def lines(self, name: str, max_bytes: int) -> Iterator[bytes]:
        """Yield the lines of a file. Raises `ArchiveError` for a longer line."""
        pieces = self._pieces(name, lambda file: partial(file.readline, max_bytes + 1))
        for number, line in enumerate(pieces, 1):
            if len(line) > max_bytes:
                raise ArchiveError(f"{name}, line {number}: is too long.")
            yield line

    def text(self, name: str) -> str:
        """Return the text of a small file."""
        if name in self.files and self.files[name]["bytes"] > MAX_TEXT_BYTES:
            raise ArchiveError(f"{name}: is too large.")
        try:
            return b"".join(self.blocks(name)).decode()
        except UnicodeDecodeError as error:
            raise ArchiveError(f"{name}: is not UTF-8.") from error

    def _pieces(
        self, name: str, reader_of: Callable[[IO[bytes]], Callable[[], bytes]]
    ) -> Iterator[bytes]:
        if name not in self.files:
            raise ArchiveError(f"{name}: is missing.")
        listed, sha256, size = self.files[name], hashlib.sha256(), 0
        with _archive_errors(f"{name}: is damaged."), self._zip.open(name) as file:
            for piece in iter(reader_of(file), b""):
                sha256.update(piece)
                size += len(piece)
                if size > listed["bytes"]:
                    break
                yield piece
        if (size, sha256.hexdigest()) != (listed["bytes"], listed["sha256"]):
            raise ArchiveError(f"{name}: differs from what was written (its SHA-256 is different).")


@contextmanager
def _archive_errors(damaged: str) -> Iterator[None]:
    """Turn errors of a file or zip into `ArchiveError`, with ``damaged`` as text for a bad zip."""
    try:
        yield
    except FileNotFoundError as error:
        raise ArchiveError("There is no such file.") from error
    except _DAMAGED as error:
        raise ArchiveError(damaged) from error
    except OSError as error:
        raise ArchiveError(f"The file cannot be read: {error.strerror or error}.") from error
