"""The files of an export, in a zip or a folder, read where they are and never unpacked."""

import os
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from memories.slack.jsonlists import Unreadable, objects


class NotAnExport(Exception):
    """What was given cannot be read as an export; the text says what to do instead."""


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
                yield from objects(file)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise Unreadable("damaged") from error
        except NotImplementedError as error:
            raise Unreadable("compressed in an unknown way") from error
        except RuntimeError as error:
            raise Unreadable("encrypted") from error


class Zip:
    """A zip file. Old tools write names in UTF-8 without saying so."""

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError, OSError) as error:
            raise NotAnExport(f"{path.name} is damaged, or not a zip file.") from error

    def members(self) -> Iterator[Member]:
        for info in self._zip.infolist():
            if not info.is_dir():
                yield Member(unicodedata.normalize("NFC", _zip_name(info)), self, info)

    @contextmanager
    def open(self, key: object) -> Iterator[BinaryIO]:
        assert isinstance(key, zipfile.ZipInfo)
        with self._zip.open(key) as file:
            yield file  # type: ignore[misc]

    def close(self) -> None:
        self._zip.close()


def _zip_name(info: zipfile.ZipInfo) -> str:
    says_utf8 = info.flag_bits & 0x800
    if says_utf8:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


class Folder:
    """A folder on disk. Links are not followed: they may lead anywhere."""

    def __init__(self, path: Path) -> None:
        self._top = path

    def members(self) -> Iterator[Member]:
        for folder, folders, files in os.walk(self._top):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                inner = path.relative_to(self._top).as_posix()
                yield Member(unicodedata.normalize("NFC", inner), self, path)

    @contextmanager
    def open(self, key: object) -> Iterator[BinaryIO]:
        assert isinstance(key, Path)
        if key.is_symlink():
            raise Unreadable("a link")
        with key.open("rb") as file:
            yield file

    def close(self) -> None:
        pass
