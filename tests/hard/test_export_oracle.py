"""The oracle counts what a person would, and the generator leaves nothing out."""

import collections
import io
import json
import zipfile
from pathlib import Path

import pytest

from tests.hard.export_oracle import count_folder, count_zip, elements
from tests.hard.mutated_exports import ROWS, ZIPS, mutated
from tests.hostilezips import packed
from tests.slackexports import export_files, said, write_folder


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"[]", 0),
        (b"", 0),
        (b"{}", 0),
        (b" [1, 2 ] ", 2),
        (b"\xef\xbb\xbf[1]", 1),
        (b"[1, {}", 2),
        (b"[1, {", 1),
        (b"[1 2]", 1),
        (b'["a", "\xff"]', 1),
        (b"[" + b"9" * 5000 + b", {}]", 2),
        (b"[" + b"[" * 3000 + b"]" * 3000 + b', "]"]', 2),
        (b"[" + b"{}," * 20_000 + b"{}]", 10_000),
    ],
)
def test_elements(data: bytes, count: int) -> None:
    assert len(elements(data)) == count


def test_whole_exports(tmp_path: Path) -> None:
    files = export_files(
        {"general/2023-11-14": [said(1, "a"), None], "x/2023-11-14": [said(1, "b")]},
        dms=[{"id": "D1"}],
    )
    files |= {"__MACOSX/general/2023-11-14.json": b"[1]", "general/canvases/x.json": b"[1]"}
    for count in (count_zip(packed(files)), count_folder(write_folder(tmp_path / "x", files))):
        assert (count.people, count.channels, count.messages) == (2, 2, 3)
        assert (count.is_export, count.teams) == (True, {"T1"})


def test_each_seed_is_one_export() -> None:
    for seed in range(50):
        one, again = mutated(seed), mutated(seed)
        assert (one.names, one.must, one.folder) == (again.names, again.must, again.folder)


def test_every_row_and_every_kind_of_zip_comes() -> None:
    names = collections.Counter(name for seed in range(600) for name in mutated(seed).names)
    assert {*ROWS, *ZIPS, "folder"} <= set(names)
    assert {int(row[:2]) for row in ROWS} == set(range(1, 42))


def test_a_sound_one_among_them_holds_what_it_says() -> None:
    for seed in range(200):
        export = mutated(seed)
        if export.names[-1] in ("plain", "streamed") and export.must == "read":
            with zipfile.ZipFile(io.BytesIO(export.zip)) as archive:
                json.dumps(archive.namelist())
            assert count_zip(export.zip).is_export
