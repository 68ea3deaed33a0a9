"""The files of a bundle: texts, and objects one a line."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from memories.pipeline.transfer.archive import MANIFEST, ArchiveError, ArchiveReader, ArchiveWriter
from memories.rules.transfer import export as rules
from memories.rules.transfer import export_text
from memories.rules.transfer.schema import SchemaError

LONGEST_LINE = 16_000_000  # bytes
MOST_FILES = 1_000_000
MOST_BYTES = 64 * 1024**3

Tell = Callable[[str, int], None]  # (file, rows so far)
_T = TypeVar("_T")


def chunks(rows: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Lists of so many, without holding more."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk


class BundleWriter(ArchiveWriter):
    def text(self, name: str, content: str) -> None:
        with self.add(name) as write:
            write(content.encode("utf-8", "replace"))

    def objects(self, name: str, rows: Iterable[dict[str, Any]]) -> int:
        """One object a line; how many there were."""
        count = 0
        with self.add(name) as write:
            for count, row in enumerate(rows, 1):  # noqa: B007
                write(f"{export_text.as_json(row)}\n".encode())
        return count


class BundleReader(ArchiveReader):
    """Raises ArchiveError."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, rules.FORMAT, "bundle of a workspace")
        try:
            self._check()
        except BaseException:
            self._zip.close()
            raise

    def _check(self) -> None:
        if len(self.files) > MOST_FILES or self.unpacked_size > MOST_BYTES:
            raise ArchiveError("This zip holds more than a bundle may.")
        try:
            self.manifest = rules.MANIFEST_SHAPE(self.facts)
        except SchemaError as error:
            raise ArchiveError(f"{MANIFEST}: {error}.") from error
        for name in rules.ALWAYS:
            if name not in self.files:
                raise ArchiveError(f"{name}: is missing.")

    def objects(self, name: str, shape: Callable[[Any], dict[str, Any]]) -> Iterator[Any]:
        """``(line, object)`` of each line, as the shape reads it."""
        for number, line in enumerate(self.lines(name, LONGEST_LINE), 1):
            try:
                value = shape(export_text.from_json(line.decode()))
            except UnicodeDecodeError as error:
                raise ArchiveError(f"{name}, line {number}: is not UTF-8.") from error
            except SchemaError as error:
                raise ArchiveError(f"{name}, line {number}: {error}.") from error
            yield number, value
