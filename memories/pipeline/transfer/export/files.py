"""The files of an exported workspace: texts, and files with one JSON object a line."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from memories.pipeline.transfer.archive import MANIFEST, ArchiveError, ArchiveReader, ArchiveWriter
from memories.rules.transfer import export_format
from memories.rules.transfer.schema import SchemaError, parse_json, to_json

MAX_LINE_BYTES = 16_000_000
MAX_FILES = 1_000_000
MAX_BYTES = 64 * 1024**3
PROGRESS_ROWS = 500  # between two calls of a `Progress`

Progress = Callable[[str, int], None]  # (file, rows so far)


class ExportWriter(ArchiveWriter):
    def text(self, name: str, content: str) -> None:
        with self.add(name) as write:
            write(content.encode("utf-8", "replace"))

    def objects(self, name: str, rows: Iterable[dict[str, Any]]) -> int:
        """Write one object a line and return their number."""
        count = 0
        with self.add(name) as write:
            for count, row in enumerate(rows, 1):  # noqa: B007
                write(f"{to_json(row)}\n".encode())
        return count


class ExportReader(ArchiveReader):
    """Reads an exported workspace. A file that is damaged or not of the format raises `ArchiveError`."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, export_format.FORMAT, export_format.FORMAT_VERSION, "export of a workspace"
        )

    def check_facts(self) -> None:
        if len(self.files) > MAX_FILES or self.unpacked_bytes > MAX_BYTES:
            raise ArchiveError("This zip is larger than an export may be.")
        try:
            self.manifest = export_format.MANIFEST_SCHEMA(self.facts)
        except SchemaError as error:
            raise ArchiveError(f"{MANIFEST}: {error}.") from error
        for name in export_format.REQUIRED:
            if name not in self.files:
                raise ArchiveError(f"{name}: is missing.")

    def objects(self, name: str, schema: Callable[[Any], dict[str, Any]]) -> Iterator[Any]:
        """Yield line number and checked object of each line."""
        for number, line in enumerate(self.lines(name, MAX_LINE_BYTES), 1):
            try:
                value = schema(parse_json(line.decode()))
            except UnicodeDecodeError as error:
                raise ArchiveError(f"{name}, line {number}: is not UTF-8.") from error
            except SchemaError as error:
                raise ArchiveError(f"{name}, line {number}: {error}.") from error
            yield number, value
