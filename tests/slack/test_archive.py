"""Zip files and folders that were not made by Slack, and how much of them is read."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memories.rules.slack import TooLarge
from memories.slack import archive, export, limits
from memories.slack.export import Export, NotAnExport
from memories.slack.jsonlists import Unreadable
from memories.slack.limits import Meter, may_unpack_to
from tests.hard.mutated_exports import empty_files
from tests.hostilezips import claiming, laid_over, packed
from tests.slackexports import channel, export_files, said, write_folder

DAY = "general/2023-11-14.json"
FILES = export_files({"general/2023-11-14": [said(1, "a")]})


def opened(tmp_path: Path, data: bytes | dict[str, bytes]) -> Export:
    path = tmp_path / "export"
    if isinstance(data, dict):
        write_folder(path, data)
    else:
        path.write_bytes(data)
    return Export(path)


def read(found: Export) -> list[Any]:
    with found:
        list(found.people())
        list(found.channels())
        return [raw for folder in found.folders() for raw in found.messages(folder)]


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "export", FILES)
    os.mkfifo(folder / "general" / "2023-11-15.json")
    found = Export(folder)
    assert len(read(found)) == 1
    assert found.broken == [("general/2023-11-15.json", "no file")]


def test_a_path_that_is_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotAnExport, match="neither a zip file nor a folder"):
        Export(tmp_path / "pipe")
    with pytest.raises(NotAnExport, match="cannot be read: File name too long"):
        Export(tmp_path / ("n" * 5000))


def test_too_many_files_are_refused_before_they_are_held(tmp_path: Path) -> None:
    with pytest.raises(NotAnExport, match="more than 200,000 files"):
        opened(tmp_path, empty_files(limits.MOST_MEMBERS + 1))


def test_too_many_files_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_MEMBERS", 2)
    with pytest.raises(NotAnExport, match="more than 2 files"):
        opened(tmp_path, FILES)


def test_a_directory_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LARGEST_DIRECTORY", 100)
    with pytest.raises(NotAnExport, match="Give it in parts"):
        opened(tmp_path, packed(FILES))


def test_a_refused_zip_is_closed(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for data in (packed({"../x.json": b"[]"}), packed({"notes.txt": b""})):
        with pytest.raises(NotAnExport):
            opened(tmp_path, data)
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("size", "packed_size", "fits"),
    [(1 << 20, 0, True), (2 << 20, 1000, False), (10**9, 10**7, True), (65 << 30, 1 << 40, False)],
)
def test_how_much_an_archive_may_hold(size: int, packed_size: int, fits: bool) -> None:
    assert (size <= may_unpack_to(packed_size)) is fits


def test_what_is_read_twice_counts_once() -> None:
    meter = Meter(150)
    for _ in range(3):
        assert meter.through(io.BytesIO(b"x" * 100), "a").read(1000) == b"x" * 100
    with pytest.raises(Unreadable, match="after more than an export may hold"):
        meter.through(io.BytesIO(b"x" * 100), "b").read(1000)


def test_a_file_is_read_up_to_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    later = export_files({"general/2023-11-15": [said(n, "b" * 100) for n in range(1000)]})
    monkeypatch.setattr(limits, "LARGEST_MEMBER", 70_000)
    for number, data in enumerate((FILES | later, packed(FILES | later))):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = opened(folder, data)
        assert 1 < len(read(found)) < 1001
        assert found.broken == [("general/2023-11-15.json", "too large")]


def test_names_in_a_report_cannot_steer_a_terminal(tmp_path: Path) -> None:
    found = opened(tmp_path, packed(FILES | {"general/\x9b31m\x1b.json": b""}))
    assert found.broken == [("general/\\u009b31m\\u001b.json", "a name that is no text")]


def test_a_name_that_is_very_long(tmp_path: Path) -> None:
    found = opened(tmp_path, packed(FILES | {"a/" * 20_000 + "2023-11-14.json": b"[]"}))
    ((name, reason),) = found.broken
    assert (len(name), reason) == (1000, "a name that is no text")


def test_many_folders_around_an_export_end(tmp_path: Path) -> None:
    deep = {"a/" * 12 + name: data for name, data in FILES.items()}
    found = opened(tmp_path, packed(deep))
    assert found.broken == [("a/" * 4 + DAY, "in no channel's folder")]


def test_channels_called_canvases_and_teams(tmp_path: Path) -> None:
    found = opened(
        tmp_path,
        packed(
            export_files(
                {
                    "canvases/2023-11-14": [said(1, "a")],
                    "teams/2023-11-14": [said(1, "b")],
                    "teams/attachments/F1-x": "{}",
                },
                channels=[channel("C1", "canvases"), channel("C2", "teams")],
            )
        ),
    )
    assert [raw["text"] for raw in read(found)] == ["a", "b"]
    assert found.junk == {"no messages": 1}


def test_a_list_of_what_is_no_object_is_left(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(export, "_MOST_ODD", 3)
    days = {"general/2023-11-15": [1, said(2, "b"), {}, [], None, said(3, "c")]}
    found = opened(tmp_path, packed(FILES | export_files(days)))
    assert len(read(found)) == 5
    assert found.broken == [("general/2023-11-15.json", "hardly any objects")]


def test_what_is_nested_too_deeply_is_passed_over(tmp_path: Path) -> None:
    deep = '{"blocks":' * 3000 + "1" + "}" * 3000
    days = {"general/2023-11-15": f"[{deep}, {{}}]"}
    first, odd, last = read(opened(tmp_path, packed(FILES | export_files(days))))
    assert isinstance(odd, TooLarge)
    assert last == {}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_without_a_limit_is_not_unpacked(method: int, tmp_path: Path) -> None:
    found = opened(tmp_path, packed(FILES, method))
    assert read(found) == []
    assert dict(found.broken)[DAY] == "compressed in an unknown way"


def test_an_entry_that_points_nowhere(tmp_path: Path) -> None:
    data = packed(FILES)
    for place in (len(data), 0xFFFFFFFE):
        with pytest.raises(NotAnExport, match="lie over each other"):
            opened(tmp_path, claiming(data, DAY, place=place))
    with pytest.raises(NotAnExport, match="lie over each other"):
        opened(tmp_path, laid_over(data, DAY, "users.json"))
