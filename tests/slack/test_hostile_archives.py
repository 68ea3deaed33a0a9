"""Archives that are damaged, hostile or no exports: refusals, and readable parts."""

import io
import os
from pathlib import Path
from typing import Any

import pytest

from memories.rules.ingest.slack_objects import TooLarge
from memories.slack import archive, export, limits
from memories.slack.export import Export, NotAnExport
from memories.slack.jsonlists import Unreadable
from memories.slack.limits import Meter, max_unpacked_bytes
from tests.hostilezips import make_zip
from tests.slack.hostile_archives import FILES, LATER, READ, REFUSED, ZIP, Content
from tests.slackexports import export_files, slack_message, write_folder


def write(path: Path, content: Content) -> Path:
    if isinstance(content, dict):
        return write_folder(path, content)
    path.write_bytes(content)
    return path


def read(source: Export) -> list[Any]:
    with source:
        list(source.people())
        list(source.channels())
        return [raw for folder in source.folders() for raw in source.messages(folder)]


def texts(source: Export) -> list[str]:
    return [raw.get("text", "") for raw in read(source)]


@pytest.mark.parametrize("name", REFUSED)
def test_an_archive_is_refused_and_closed(name: str, tmp_path: Path) -> None:
    content, code, words = REFUSED[name]
    path = write(tmp_path / "given", content)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(NotAnExport, match=words) as refusal:
        Export(path)
    assert refusal.value.code == code
    # The traceback of the refusal references the reader, which would keep an open file alive.
    assert refusal.traceback and set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", READ)
def test_a_damaged_file_is_reported_and_other_files_are_read(name: str, tmp_path: Path) -> None:
    content, expected, broken, junk = READ[name]
    data = make_zip(content) if isinstance(content, dict) else content
    source = Export(write(tmp_path / "export.zip", data))
    assert texts(source) == expected
    assert (dict(source.broken), source.junk) == (broken, junk)


def test_paths_that_are_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in {
        "pipe": "not a zip file or a folder",
        "n" * 5000: "cannot be read: File name too long",
        "absent.zip": "does not exist",
    }.items():
        with pytest.raises(NotAnExport, match=words):
            Export(tmp_path / name)


def test_a_large_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MAX_DIRECTORY_BYTES", 100)
    with pytest.raises(NotAnExport, match="Split it into parts"):
        Export(write(tmp_path / "export.zip", ZIP))
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    with pytest.raises(NotAnExport, match="more than 2 files"):
        Export(write(tmp_path / "folder", FILES))


def test_a_folder_with_pipes_and_links(tmp_path: Path) -> None:
    """Rows 32 and 33. The reader does not wait for a pipe, and follows no link."""
    (tmp_path / "outside.json").write_text('[{"text": "not of this export"}]')
    general = write_folder(tmp_path / "export", FILES) / "general"
    os.mkfifo(general / "2023-11-16.json")
    (general / "2023-11-17.json").symlink_to(tmp_path / "outside.json")
    (general / os.fsdecode(b"2023-11-18\xff.json")).write_text("[]")
    (tmp_path / "export" / "linked").symlink_to(tmp_path)
    source = Export(tmp_path / "export")
    assert texts(source) == ["a", "b"]
    assert source.broken == [
        ("general/2023-11-18\\udcff.json", "a name that is no text"),
        ("general/2023-11-16.json", "no file"),
        ("general/2023-11-17.json", "a link"),
    ]


@pytest.mark.parametrize(
    ("size", "packed_size", "fits"),
    [(1 << 20, 0, True), (2 << 20, 1000, False), (10**9, 10**7, True), (65 << 30, 1 << 40, False)],
)
def test_the_size_of_an_archive_limits_its_content(size: int, packed_size: int, fits: bool) -> None:
    assert (size <= max_unpacked_bytes(packed_size)) is fits


def test_a_file_that_is_read_twice_counts_once() -> None:
    meter = Meter(150)
    for _ in range(3):
        assert meter.wrap(io.BytesIO(b"x" * 100), "a").read(1000) == b"x" * 100
    with pytest.raises(Unreadable, match="after more than an export may hold"):
        meter.wrap(io.BytesIO(b"x" * 100), "b").read(1000)


@pytest.mark.parametrize("make", [dict, make_zip])
def test_a_file_is_read_up_to_its_limit(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [slack_message(n, "b" * 100) for n in range(1000)]
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 70_000)
    files = FILES | export_files({"general/2023-11-15": messages})
    source = Export(write(tmp_path / "export", make(files)))
    assert 1 < len(read(source)) < 1001
    assert source.broken == [(LATER, "too large")]


def test_objects_count_among_odd_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_MAX_ODD", 3)
    days = {"general/2023-11-15": [1, slack_message(2, "b"), {}, [], None, slack_message(3, "c")]}
    source = Export(write(tmp_path / "export.zip", make_zip(FILES | export_files(days))))
    assert len(read(source)) == 5
    assert source.broken == [(LATER, "hardly any objects")]


def test_an_object_that_is_nested_too_deeply_is_skipped(tmp_path: Path) -> None:
    deep = '{"blocks":' * 3000 + "1" + "}" * 3000
    files = FILES | export_files({"general/2023-11-15": f"[{deep}, {{}}]"})
    first, odd, last = read(Export(write(tmp_path / "export.zip", make_zip(files))))
    assert (first["text"], last) == ("a", {})
    assert isinstance(odd, TooLarge)
