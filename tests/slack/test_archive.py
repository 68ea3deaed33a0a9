"""Zip files and folders that were not made by Slack: what is refused, and what is read of them."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memories.rules.ingest.slack_objects import TooLarge
from memories.slack import archive, export, limits
from memories.slack.export import Export, NotAnExport
from memories.slack.jsonlists import Unreadable
from memories.slack.limits import Meter, max_unpacked_bytes
from tests.hard.mutated_exports import empty_files
from tests.hostilezips import claiming, encrypted, laid_over, packed, place_of, with_link
from tests.slackexports import channel, export_files, said, write_folder

DAY, LATER = "general/2023-11-14.json", "general/2023-11-15.json"
FILES = export_files({"general/2023-11-14": [said(1, "a")], "general/2023-11-15": [said(2, "b")]})
ZIP = packed(FILES)
OUTSIDE = ("../x.json", "general/../../x", "/etc/x", "a\\x.json", "C:/x", "c:x", "a/..")
TEAMS = {f"teams/{team}/{name}": data for team in "ab" for name, data in FILES.items()} | {
    "org_users.json": b"[]"
}


def opened(folder: Path, data: bytes | dict[str, bytes]) -> Export:
    path = folder / "export"
    if isinstance(data, dict):
        write_folder(path, data)
    else:
        path.write_bytes(data)
    return Export(path)


def read(source: Export) -> list[Any]:
    with source:
        list(source.people())
        list(source.channels())
        return [raw for folder in source.folders() for raw in source.messages(folder)]


REFUSED = {name: (packed(FILES | {name: b"[]"}), "names a place outside") for name in OUTSIDE} | {
    "link": (with_link(FILES, "general/2023-11-16.json", "/etc/passwd"), "a link or a device"),
    "name twice": (packed([*FILES.items(), (DAY, b"[]")]), "two files of one name"),
    "bomb": (packed(FILES | {"x.json": b" " * 4_000_000}), "unpacks to far more"),
    "claims to be a bomb": (claiming(ZIP, DAY, size=0xFFFFFF00), "unpacks to far more"),
    "laid over": (laid_over(ZIP, DAY, "users.json"), "lie over each other"),
    "just behind": (claiming(ZIP, DAY, place=len(ZIP)), "lie over each other"),
    "far behind": (claiming(ZIP, DAY, place=0xFFFFFFFE), "lie over each other"),
    "password": (encrypted(ZIP), "password"),
    "zip inside": (packed({"export.zip": ZIP}), "another zip file"),
    "many files": (empty_files(limits.MAX_FILES + 1), "more than 200,000 files"),
    "two teams": (packed(TEAMS), "2 teams of an organisation"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_zip_is_closed(name: str, tmp_path: Path) -> None:
    data, why = REFUSED[name]
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(NotAnExport, match=why) as refusal:
        opened(tmp_path, data)
    # Through its traceback the refusal keeps the reader, and with it what was left open.
    assert refusal.traceback and set(os.listdir("/proc/self/fd")) == before


def test_too_large_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MAX_DIRECTORY_BYTES", 100)
    with pytest.raises(NotAnExport, match="Give it in parts"):
        opened(tmp_path, ZIP)
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    with pytest.raises(NotAnExport, match="more than 2 files"):
        opened(tmp_path / "folder", FILES)


def test_a_path_that_is_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotAnExport, match="neither a zip file nor a folder"):
        Export(tmp_path / "pipe")
    with pytest.raises(NotAnExport, match="cannot be read: File name too long"):
        Export(tmp_path / ("n" * 5000))


def overwritten(data: bytes, name: str) -> bytes:
    begin = place_of(data, name) + 30 + len(name)
    return data[:begin] + b"\xff" * 20 + data[begin + 20 :]


DAMAGED = {
    "overwritten": (overwritten(ZIP, DAY), "damaged"),
    "claims to be short": (claiming(ZIP, DAY, size=10), "damaged"),
    "another sum": (claiming(ZIP, DAY, crc=1), "damaged"),
    "encrypted": (encrypted(ZIP, DAY), "encrypted"),
    "LZMA": (claiming(ZIP, DAY, method=zipfile.ZIP_LZMA), "compressed in an unknown way"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named_and_the_others_are_read(name: str, tmp_path: Path) -> None:
    data, reason = DAMAGED[name]
    source = opened(tmp_path, data)
    assert [raw["text"] for raw in read(source)] == ["b"]
    assert source.broken == [(DAY, reason)]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_without_a_limit_is_not_unpacked(method: int, tmp_path: Path) -> None:
    source = opened(tmp_path, packed(FILES, method))
    assert read(source) == []
    assert {reason for _, reason in source.broken} == {"compressed in an unknown way"}


def test_odd_files_in_a_folder(tmp_path: Path) -> None:
    """A pipe is not waited for, and no link is followed."""
    (tmp_path / "outside.json").write_text('[{"text": "not of this export"}]')
    general = write_folder(tmp_path / "export", FILES) / "general"
    os.mkfifo(general / "2023-11-16.json")
    (general / "2023-11-17.json").symlink_to(tmp_path / "outside.json")
    (general / os.fsdecode(b"2023-11-18\xff.json")).write_text("[]")
    (tmp_path / "export" / "linked").symlink_to(tmp_path)
    source = Export(tmp_path / "export")
    assert [raw["text"] for raw in read(source)] == ["a", "b"]
    assert source.broken == [
        ("general/2023-11-18\\udcff.json", "a name that is no text"),
        ("general/2023-11-16.json", "no file"),
        ("general/2023-11-17.json", "a link"),
    ]


@pytest.mark.parametrize(
    ("name", "shown", "reason"),
    [
        ("general/\x9b31m\x1b.json", "general/\\u009b31m\\u001b.json", "a name that is no text"),
        ("a/" * 20_000 + "2023-11-14.json", "a/" * 500, "a name that is no text"),
        ("teams/x/2023-11-14.json", "teams/x/2023-11-14.json", "in no channel's folder"),
    ],
    ids=["steers a terminal", "very long", "too deep"],
)
def test_odd_names(name: str, shown: str, reason: str, tmp_path: Path) -> None:
    source = opened(tmp_path, packed(FILES | {name: b"[]"}))
    assert source.broken == [(shown, reason)]


def test_many_folders_around_an_export_end(tmp_path: Path) -> None:
    source = opened(tmp_path, packed({"a/" * 12 + name: data for name, data in FILES.items()}))
    assert source.broken == [("a/" * 4 + day, "in no channel's folder") for day in (DAY, LATER)]


def test_channels_called_canvases_and_teams(tmp_path: Path) -> None:
    days = {"canvases/2023-11-14": [said(1, "a")], "teams/2023-11-14": [said(1, "b")]}
    channels = [channel("C1", "canvases"), channel("C2", "teams")]
    files = export_files(days | {"teams/attachments/F1-x": "{}"}, channels=channels)
    source = opened(tmp_path, packed(files))
    assert [raw["text"] for raw in read(source)] == ["a", "b"]
    assert source.junk == {"no messages": 1}


@pytest.mark.parametrize(
    ("size", "packed_size", "fits"),
    [(1 << 20, 0, True), (2 << 20, 1000, False), (10**9, 10**7, True), (65 << 30, 1 << 40, False)],
)
def test_how_much_an_archive_may_hold(size: int, packed_size: int, fits: bool) -> None:
    assert (size <= max_unpacked_bytes(packed_size)) is fits


def test_what_is_read_twice_counts_once() -> None:
    meter = Meter(150)
    for _ in range(3):
        assert meter.wrap(io.BytesIO(b"x" * 100), "a").read(1000) == b"x" * 100
    with pytest.raises(Unreadable, match="after more than an export may hold"):
        meter.wrap(io.BytesIO(b"x" * 100), "b").read(1000)


@pytest.mark.parametrize("write", [dict, packed])
def test_a_file_is_read_up_to_its_limit(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = export_files({"general/2023-11-15": [said(n, "b" * 100) for n in range(1000)]})
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 70_000)
    source = opened(tmp_path, write(FILES | later))
    assert 1 < len(read(source)) < 1001
    assert source.broken == [(LATER, "too large")]


def test_a_list_of_what_is_no_object_is_left(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(export, "_MOST_ODD", 3)
    days = {"general/2023-11-15": [1, said(2, "b"), {}, [], None, said(3, "c")]}
    source = opened(tmp_path, packed(FILES | export_files(days)))
    assert len(read(source)) == 5
    assert source.broken == [(LATER, "hardly any objects")]


def test_what_is_nested_too_deeply_is_passed_over(tmp_path: Path) -> None:
    deep = '{"blocks":' * 3000 + "1" + "}" * 3000
    days = {"general/2023-11-15": f"[{deep}, {{}}]"}
    first, odd, last = read(opened(tmp_path, packed(FILES | export_files(days))))
    assert isinstance(odd, TooLarge)
    assert last == {}
