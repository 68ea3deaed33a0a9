"""The files of an export, in a zip or a folder, read where they are and never unpacked.

A zip that could do harm where it is unpacked, or whose directory contradicts itself, is refused as
a whole: whoever made it did not make an export. A damaged file in a sound one is only left out.
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

_LOCAL_HEADER = 30  # bytes before an entry's name
_ENTRY = b"PK\x01\x02"  # begins each entry of a zip's directory
_ZIP64_END = 76  # bytes that may stand between the directory and its end record
_CHUNK = 1 << 20
_LARGEST_DIRECTORY = 64 << 20
_DRIVE = re.compile(r"[A-Za-z]:")
# Whatever a damaged zip makes of the library that reads it.
_DAMAGE = (OSError, EOFError, ValueError, IndexError, struct.error, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Member:
    """A file inside. ``name`` is its path from the export's top, ``/`` between, NFC."""

    name: str
    source: "Zip | Folder"
    key: object

    @property
    def parts(self) -> list[str]:
        return self.name.split("/")

    def objects(self) -> Iterator[object]:
        """The objects of the JSON list in this file; `Unreadable` where it breaks."""
        try:
            with self.source.open(self.key) as file:
                yield from iter_objects(file)
        except _DAMAGE as error:
            raise Unreadable("damaged") from error
        except NotImplementedError as error:
            raise Unreadable("compressed in an unknown way") from error
        except RuntimeError as error:
            raise Unreadable("encrypted") from error


class Zip:
    """A zip file. Old tools write names in UTF-8 without saying so."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        try:
            self._refuse_many(path)
            self._zip = zipfile.ZipFile(path)
        except (NotImplementedError, *_DAMAGE) as error:
            raise NotAnExport("damaged", name=path.name) from error
        try:
            self._refuse_harm(self._zip.infolist())
            self._meter = Meter(self._most(path.stat().st_size))
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
            # The library unpacks the other kinds without a limit. Slack uses none of them.
            raise Unreadable("compressed in an unknown way")
        with self._zip.open(key) as file:
            yield self._meter.through(file, key.header_offset)

    def close(self) -> None:
        self._zip.close()

    def _refuse_many(self, path: Path) -> None:
        """Before the directory is read, since that takes memory for each entry."""
        with path.open("rb") as file:
            # The library's own search, so that both find the same directory.
            end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
            if not end:
                return
            size, place = end[5], end[9]
            file.seek(max(0, place - size - _ZIP64_END))
            too_long = place - file.tell() > _LARGEST_DIRECTORY
            count, tail = 0, b""
            while chunk := file.read(_CHUNK):
                chunk = tail + chunk
                count += chunk.count(_ENTRY)
                tail = chunk[-len(_ENTRY) + 1 :]
        if count > MAX_FILES or too_long:
            self._refuse("many_files", n=f"{MAX_FILES:,}")

    def _refuse_harm(self, infos: list[zipfile.ZipInfo]) -> None:
        names: set[str] = set()
        for info in infos:
            name = _zip_name(info)
            if "\\" in name or name.startswith("/") or _DRIVE.match(name) or _leads_out(name):
                self._refuse("leads_out", file=_shown(name))
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                self._refuse("link", file=_shown(name))
            if name in names:
                self._refuse("same_name", file=_shown(name))
            names.add(name)
        end = self._zip.start_dir
        for info in sorted(infos, key=lambda info: info.header_offset, reverse=True):
            if info.header_offset + _least_size(info) > end:
                self._refuse("overlap")
            end = info.header_offset
        files = [info for info in infos if not info.is_dir()]
        if files and all(info.flag_bits & 1 for info in files):
            self._refuse("password")

    def _most(self, packed: int) -> int:
        """How much may be read. What claims to be more is refused before anything is stored."""
        most = max_unpacked_bytes(packed)
        if sum(info.file_size for info in self._zip.infolist()) > most:
            self._refuse("unpacks_to_more")
        return most

    def _refuse(self, code: str, **values: str) -> NoReturn:
        raise NotAnExport(code, name=self._name, **values)


def _zip_name(info: zipfile.ZipInfo) -> str:
    name = info.orig_filename  # the library cuts the other one at a NUL
    says_utf8 = info.flag_bits & 0x800
    if not says_utf8:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return unicodedata.normalize("NFC", name)


def _leads_out(name: str) -> bool:
    return ".." in name.split("/")


def _least_size(info: zipfile.ZipInfo) -> int:
    """Of an entry in the file: its header, name and content; it may have more before them."""
    encoding = "utf-8" if info.flag_bits & 0x800 else "cp437"
    return _LOCAL_HEADER + len(info.orig_filename.encode(encoding)) + info.compress_size


def _shown(name: str) -> str:
    return ascii(name[:80])


class Folder:
    """A folder on disk. Links are not followed: they may lead anywhere."""

    def __init__(self, path: Path) -> None:
        self._top = path
        self._meter = Meter(MAX_TOTAL_BYTES)

    def members(self) -> Iterator[Member]:
        count = 0
        for folder, folders, files in os.walk(self._top, onerror=self._stop):
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
        # Never waits, as a pipe would make us, and never follows what has become a link meanwhile.
        number = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise Unreadable("no file")
            yield self._meter.through(file, key)

    def close(self) -> None:
        pass

    @staticmethod
    def _stop(error: OSError) -> None:
        raise NotAnExport(
            "unreadable", name=str(error.filename), why=str(error.strerror)
        ) from error
