"""The zip of a bundle: written as a stream, read without ever unpacking it to disk.

A digest of every file stands in the manifest. What is read is checked against it when the file
ends, so whoever reads must throw away all of it when `BundleError` is raised.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from memories.rules import bundle as rules
from memories.rules import bundle_text
from memories.rules.shapes import Wrong

LONGEST_LINE = 16_000_000  # bytes
LARGEST_TEXT = 64_000_000  # bytes, of a file that is read as a whole
MOST_FILES = 1_000_000
MOST_BYTES = 64 * 1024**3
_TIME = (1980, 1, 1, 0, 0, 0)  # the same data makes the same file
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)

Tell = Callable[[str, int], None]  # (file, rows so far)
_T = TypeVar("_T")


def chunks(rows: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Lists of so many, without holding more."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk


class BundleError(Exception):
    """A file that is no bundle, or not a whole one; the text names the file and line in it."""


class BundleWriter:
    """Adds files one after the other; `close` adds the manifest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._files: list[dict[str, Any]] = []

    def text(self, name: str, text: str) -> None:
        self._add(name, [text])

    def objects(self, name: str, rows: Iterable[dict[str, Any]]) -> int:
        """One object a line; how many there were."""
        count = 0

        def lines() -> Iterator[str]:
            nonlocal count
            for row in rows:
                count += 1
                yield bundle_text.as_json(row) + "\n"

        self._add(name, lines())
        return count

    def _add(self, name: str, parts: Iterable[str]) -> None:
        digest, size = hashlib.sha256(), 0
        with self._zip.open(_info(name), "w", force_zip64=True) as file:
            for part in parts:
                data = part.encode("utf-8", "replace")
                digest.update(data)
                size += len(data)
                file.write(data)
        self._files.append({"name": name, "bytes": size, "sha256": digest.hexdigest()})

    def close(self, facts: dict[str, Any]) -> None:
        head = [f"  {bundle_text.as_json(key)}: {bundle_text.as_json(facts[key])}" for key in facts]
        files = ",\n".join(f"    {bundle_text.as_json(file)}" for file in self._files)
        text = "{\n" + ",\n".join([*head, f'  "files": [\n{files}\n  ]']) + "\n}\n"
        self._zip.writestr(_info(rules.MANIFEST), text)
        self._zip.close()

    def abandon(self) -> None:
        """Write no more: what there is so far is no bundle."""
        self._zip.fp = None


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = 0o100600 << 16
    return info


class BundleReader:
    """A bundle's files by name, and its manifest. Raises `BundleError`."""

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError as error:
            raise BundleError(f"There is no file {path}.") from error
        except (*_BROKEN, ValueError) as error:
            raise BundleError(f"{path.name} is damaged, or not a zip file.") from error
        try:
            self._read_manifest()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> "BundleReader":
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def _read_manifest(self) -> None:
        infos = self._zip.infolist()
        if len(infos) > MOST_FILES or sum(info.file_size for info in infos) > MOST_BYTES:
            raise BundleError("This zip holds more than a bundle may.")
        self._infos = {info.filename: info for info in infos}
        if len(self._infos) != len(infos):
            raise BundleError("A file stands in it twice.")
        if rules.MANIFEST not in self._infos:
            raise BundleError(f"It has no {rules.MANIFEST}: this is no bundle.")
        try:
            found = bundle_text.from_json(self._whole(rules.MANIFEST))
            self._settle_format(found)
            self.manifest = rules.MANIFEST_SHAPE(found)
        except Wrong as error:
            raise BundleError(f"{rules.MANIFEST}: {error}") from error
        self._files = {file["name"]: file for file in self.manifest["files"]}
        self.names = list(self._files)
        if len(self.names) != len(self.manifest["files"]):
            raise BundleError(f"{rules.MANIFEST}: lists a file twice.")
        for name in (*self.names, *rules.ALWAYS):
            if name not in self._infos or name not in self._files:
                raise BundleError(f"{name}: is missing.")
        if extra := sorted(self._infos.keys() - self._files.keys() - {rules.MANIFEST}):
            raise BundleError(f"{extra[0]}: stands in no list of {rules.MANIFEST}.")

    @staticmethod
    def _settle_format(manifest: Any) -> None:
        if not isinstance(manifest, dict) or manifest.get("format") != rules.FORMAT:
            raise Wrong("this is no bundle of a workspace")
        if manifest.get("version") != rules.VERSION:
            version = str(manifest.get("version"))[:20]
            raise Wrong(f"is of version {version} of the format; known here is {rules.VERSION}")

    def text(self, name: str) -> str:
        """A small file, checked."""
        text = self._whole(name)
        self._check(name, hashlib.sha256(text.encode()).hexdigest(), len(text.encode()))
        return text

    def _whole(self, name: str) -> str:
        if self._infos[name].file_size > LARGEST_TEXT:
            raise BundleError(f"{name}: is too large.")
        try:
            with self._zip.open(self._infos[name]) as file:
                return file.read(LARGEST_TEXT + 1).decode()
        except UnicodeDecodeError as error:
            raise BundleError(f"{name}: is not UTF-8.") from error
        except _BROKEN as error:
            raise BundleError(f"{name}: is damaged.") from error

    def objects(self, name: str, shape: Callable[[Any], dict[str, Any]]) -> Iterator[Any]:
        """``(line, object)`` of each line, as the shape reads it."""
        digest, size = hashlib.sha256(), 0
        try:
            with self._zip.open(self._infos[name]) as file:
                for i, data in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
                    if len(data) > LONGEST_LINE:
                        raise BundleError(f"{name}, line {i}: is too long.")
                    digest.update(data)
                    size += len(data)
                    try:
                        value = shape(bundle_text.from_json(data.decode()))
                    except (Wrong, UnicodeDecodeError) as error:
                        what = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
                        raise BundleError(f"{name}, line {i}: {what}.") from error
                    yield i, value
        except _BROKEN as error:
            raise BundleError(f"{name}: is damaged.") from error
        self._check(name, digest.hexdigest(), size)

    def _check(self, name: str, digest: str, size: int) -> None:
        listed = self._files[name]
        if listed["bytes"] != size or listed["sha256"] != digest:
            raise BundleError(f"{name}: is not what was written (its digest is another).")
