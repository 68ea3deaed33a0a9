"""Read the files of an export from a zip or a folder, without unpacking them.

A zip is refused as a whole if unpacking it could do harm, or if its directory contradicts itself. If
a single file in a zip is damaged, the other files are read.
"""

import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from memories.slack.jsonlists import Readable, Unreadable, iter_objects
from memories.slack.limits import MAX_FILES, MAX_TOTAL_BYTES, Meter, max_unpacked_bytes
from memories.slack.refusals import NotAnExport

_LOCAL_HEADER_BYTES = 30  # before the name of an entry
_ENTRY_SIGNATURE = b"PK\x01\x02"  # begins each entry of a zip's directory
_ZIP64_END_BYTES = 76  # between the directory and its end record
_CHUNK_BYTES = 1 << 20
_MAX_DIRECTORY_BYTES = 64 << 20
_UTF8_FLAG = 0x800  # of an entry whose name is UTF-8
_DRIVE = re.compile(r"[A-Za-z]:")
# The errors of zipfile on a damaged zip.
_ZIP_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    IndexError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Member:
    """A file of an export. ``name`` is its relative path with ``/``, in Unicode's form NFC.

    ``key`` is its `ZipInfo` in a zip, or its `Path` in a folder.
    """

    name: str
    source: "Zip | Folder"
    key: object

    @property
    def parts(self) -> list[str]:
        return self.name.split("/")

    def objects(self) -> Iterator[object]:
        """Yield the objects of the file's JSON list. Raise `Unreadable` where the file is damaged."""
        try:
            with self.source.open(self.key) as file:
                yield from iter_objects(file)
        except _ZIP_ERRORS as error:
            raise Unreadable("damaged") from error
        except NotImplementedError as error:
            raise Unreadable("compressed in an unknown way") from error
        except RuntimeError as error:
            raise Unreadable("encrypted") from error


class Zip:
    """The files of a zip. Raises `NotAnExport` if it is damaged or could do harm."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        try:
            self._refuse_large_directory(path)
            self._zip = zipfile.ZipFile(path)
        except (NotImplementedError, *_ZIP_ERRORS) as error:
            raise NotAnExport("damaged", name=path.name) from error
        try:
            self._refuse_harmful(self._zip.infolist())
            self._meter = Meter(self._max_bytes(path.stat().st_size))
        except NotAnExport:
            self.close()
            raise

    def members(self) -> Iterator[Member]:
        for info in self._zip.infolist():
            if not info.is_dir():
                yield Member(_zip_name(info), self, info)

    @contextmanager
    def open(self, key: object) -> Iterator[Readable]:
        assert isinstance(key, zipfile.ZipInfo)
        if key.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # zipfile decompresses other methods without a limit. Slack uses none of them.
            raise Unreadable("compressed in an unknown way")
        with self._zip.open(key) as file:
            yield self._meter.wrap(file, key.header_offset)

    def close(self) -> None:
        self._zip.close()

    def _refuse_large_directory(self, path: Path) -> None:
        """Count the entries before zipfile reads them, because it needs memory for each."""
        with path.open("rb") as file:
            # A zip may have several end records. zipfile uses the one that this function returns.
            end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
            if not end:
                return
            size, end_offset = end[5], end[9]
            file.seek(max(0, end_offset - size - _ZIP64_END_BYTES))
            is_too_long = end_offset - file.tell() > _MAX_DIRECTORY_BYTES
            count, tail = 0, b""
            while chunk := file.read(_CHUNK_BYTES):
                chunk = tail + chunk
                count += chunk.count(_ENTRY_SIGNATURE)
                tail = chunk[-len(_ENTRY_SIGNATURE) + 1 :]
        if count > MAX_FILES or is_too_long:
            self._refuse("many_files", n=f"{MAX_FILES:,}")

    def _refuse_harmful(self, infos: list[zipfile.ZipInfo]) -> None:
        """Refuse paths out of the archive, links, equal names, overlapping entries and passwords."""
        names: set[str] = set()
        for info in infos:
            name = _zip_name(info)
            shown = ascii(name[:80])
            is_absolute = "\\" in name or name.startswith("/") or _DRIVE.match(name)
            if is_absolute or ".." in name.split("/"):
                self._refuse("leads_out", file=shown)
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                self._refuse("link", file=shown)
            if name in names:
                self._refuse("same_name", file=shown)
            names.add(name)
        next_offset = self._zip.start_dir
        for info in sorted(infos, key=lambda info: info.header_offset, reverse=True):
            if info.header_offset + _min_entry_size(info) > next_offset:
                self._refuse("overlap")
            next_offset = info.header_offset
        files = [info for info in infos if not info.is_dir()]
        if files and all(info.flag_bits & 1 for info in files):
            self._refuse("password")

    def _max_bytes(self, packed: int) -> int:
        """Return how many bytes may be read. Refuse a zip whose directory lists larger files."""
        limit = max_unpacked_bytes(packed)
        if sum(info.file_size for info in self._zip.infolist()) > limit:
            self._refuse("unpacks_to_more")
        return limit

    def _refuse(self, code: str, **values: str) -> NoReturn:
        raise NotAnExport(code, name=self._name, **values)


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Return an entry's name in NFC."""
    name = info.orig_filename  # zipfile cuts ``filename`` at a NUL
    if not info.flag_bits & _UTF8_FLAG:
        with suppress(UnicodeError):  # old tools write UTF-8 without the flag
            name = name.encode("cp437").decode("utf-8")
    return unicodedata.normalize("NFC", name)


def _min_entry_size(info: zipfile.ZipInfo) -> int:
    """Return the size of an entry's header, name and content. An entry may also have extra fields."""
    encoding = "utf-8" if info.flag_bits & _UTF8_FLAG else "cp437"
    return _LOCAL_HEADER_BYTES + len(info.orig_filename.encode(encoding)) + info.compress_size


class Folder:
    """The files of a folder. Links are not followed, because they may lead out of the folder."""

    def __init__(self, path: Path) -> None:
        self._top = path
        self._meter = Meter(MAX_TOTAL_BYTES)

    def members(self) -> Iterator[Member]:
        count = 0
        for folder, folders, files in os.walk(self._top, onerror=self._refuse):
            folders.sort()
            count += len(files)
            if count > MAX_FILES:
                raise NotAnExport("many_files", name=self._top.name, n=f"{MAX_FILES:,}")
            for name in sorted(files):
                path = Path(folder, name)
                inner = path.relative_to(self._top).as_posix()
                yield Member(unicodedata.normalize("NFC", inner), self, path)

    @contextmanager
    def open(self, key: object) -> Iterator[Readable]:
        assert isinstance(key, Path)
        if key.is_symlink():
            raise Unreadable("a link")
        # O_NONBLOCK does not wait for a pipe. O_NOFOLLOW refuses a file that has become a link.
        descriptor = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable("no file")
            yield self._meter.wrap(file, key)

    def close(self) -> None:
        pass

    @staticmethod
    def _refuse(error: OSError) -> None:
        raise NotAnExport(
            "unreadable", name=str(error.filename), why=str(error.strerror)
        ) from error
