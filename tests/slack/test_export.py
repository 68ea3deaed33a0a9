import gzip
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memories.slack.export import Export, NotAnExport
from tests.slackexports import channel, export_files, said, write_folder, write_zip

DAYS = {"general/2023-11-14": [said(0, "a"), said(1, "b")], "general/2023-11-15": [said(2, "c")]}


class OldZipInfo(zipfile.ZipInfo):
    """An entry as an old tool writes it: its name in UTF-8, without the flag that says so."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode(), 0


def texts(path: Path) -> dict[str, list[Any]]:
    """Folder → what its messages say; every list read."""
    with Export(path) as export:
        list(export.people())
        list(export.channels())
        return {
            folder.name: [raw.get("text") for raw in export.messages(folder)]  # type: ignore[attr-defined]
            for folder in export.folders()
        }


def kinds(path: Path) -> dict[str, tuple[str, str]]:
    """Folder → (id, kind) that the lists give it."""
    with Export(path) as export:
        list(export.channels())
        return {folder.name: (folder.slack_id, folder.kind) for folder in export.folders()}


@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_zip_and_folder_are_read_alike(write: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "export", export_files(DAYS))
    assert texts(path) == {"general": ["a", "b", "c"]}
    with Export(path) as export:
        assert [raw["id"] for raw in export.people()] == ["U1", "U2"]  # type: ignore[index]
        assert [(raw["id"], kind) for raw, kind in export.channels()] == [("C1", "public")]  # type: ignore[index]
        assert export.newest_day is not None
        assert export.newest_day.isoformat() == "2023-11-15T00:00:00+00:00"


def test_a_zip_is_never_unpacked(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", export_files(DAYS))
    texts(path)
    assert [file.name for file in tmp_path.iterdir()] == ["export.zip"]


@pytest.mark.parametrize("wrapper", ["export/", "a/b/", "日本 export/"])
@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_a_wrapping_folder_is_taken_off(write: Any, wrapper: str, tmp_path: Path) -> None:
    files = {wrapper + name: content for name, content in export_files(DAYS).items()}
    files |= {"__MACOSX/" + wrapper + "._users.json": b"", ".DS_Store": b""}
    path = write(tmp_path / "export", files)
    assert texts(path) == {"general": ["a", "b", "c"]}
    with Export(path) as export:
        assert export.junk == {"left by the system": 2}


def test_what_lies_beside_the_wrapping_folder_is_junk(tmp_path: Path) -> None:
    files = {f"export/{name}": content for name, content in export_files(DAYS).items()}
    path = write_zip(tmp_path / "e.zip", files | {"README.txt": b"", "photos/a.jpg": b""})
    assert texts(path) == {"general": ["a", "b", "c"]}
    with Export(path) as export:
        assert export.junk == {"beside the export": 2}


def test_days_that_lie_too_deep_are_named(tmp_path: Path) -> None:
    files = export_files(DAYS) | {"teams/x/2023-11-14.json": b"[]"}
    with Export(write_zip(tmp_path / "e.zip", files)) as export:
        assert export.broken == [("teams/x/2023-11-14.json", "in no channel's folder")]


def test_one_channel_folder_is_no_wrapper(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "export", {"general/2023-11-14.json": b"[]"})
    assert kinds(path) == {"general": ("", "")}


def test_junk_is_counted(tmp_path: Path) -> None:
    files = export_files(DAYS) | {
        "integration_logs.json": b"[]",
        "canvases.json": b"[]",
        "general/canvas_in_the_conversation.json": b"[]",
        "FC:F1:Plan/2023-11-14.json": b"[]",
        "__uploads/F1/plan.pdf": b"%PDF",
        "general/attachments/F2-a.png": b"",
        "general/._2023-11-14.json": b"",
    }
    with Export(write_folder(tmp_path / "export", files)) as export:
        assert export.junk == {"no messages": 5, "canvas": 1, "left by the system": 1}
        assert export.broken == []


def test_whose_a_folder_is(tmp_path: Path) -> None:
    files = export_files(
        {
            f"{name}/2023-11-14": []
            for name in (
                *("general", "C3", "secret", "mpdm-a--b-1", "D0123456789", "D9876543210"),
                *("mpdm-x--y-1", "unknown", "twice", "hidden"),
            )
        },
        channels=[
            channel("C1", "general"),
            channel("C3", "by-id"),
            channel("C4", "hidden", is_private=True),
            channel("C5", "twice"),
            channel("C6", "twice"),
        ],
        groups=[channel("G1", "secret")],
        mpims=[channel("G2", "mpdm-a--b-1")],
        dms=[{"id": "D0123456789"}],
    )
    assert kinds(write_folder(tmp_path / "export", files)) == {
        "general": ("C1", "public"),
        "C3": ("C3", "public"),
        "secret": ("G1", "private"),
        "hidden": ("C4", "private"),
        "mpdm-a--b-1": ("G2", "mpim"),
        "D0123456789": ("D0123456789", "im"),
        "D9876543210": ("", "im"),
        "mpdm-x--y-1": ("", "im"),
        "unknown": ("", ""),
        "twice": ("", ""),
    }


def test_a_channel_in_two_lists_is_private(tmp_path: Path) -> None:
    files = export_files(
        {"a/2023-11-14": []}, channels=[channel("C1", "a")], groups=[channel("C1", "a")]
    )
    assert kinds(write_folder(tmp_path / "export", files)) == {"a": ("C1", "private")}


def test_names_in_utf8_that_the_zip_does_not_announce(tmp_path: Path) -> None:
    name = "開発"
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in export_files({}, channels=[channel("C1", name)]).items():
            archive.writestr(file, content)
        archive.writestr(OldZipInfo(f"{name}/2023-11-14.json"), b"[]")
    with zipfile.ZipFile(path) as archive:
        assert f"{name}/2023-11-14.json" not in archive.namelist()
    assert kinds(path) == {name: ("C1", "public")}


def test_decomposed_names_are_the_same_names(tmp_path: Path) -> None:
    name = "ガイド-café"
    split = unicodedata.normalize("NFD", name)
    files = export_files({f"{split}/2023-11-14": []}, channels=[channel("C1", name)])
    for path in (write_zip(tmp_path / "z", files), write_folder(tmp_path / "f", files)):
        assert kinds(path) == {name: ("C1", "public")}


def test_a_name_that_is_no_text_is_left_out_and_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "export", export_files(DAYS))
    (folder / "general" / b"2023-11-16\xff.json".decode("utf-8", "surrogateescape")).write_text(
        "[]"
    )
    with Export(folder) as export:
        assert export.broken == [("general/2023-11-16\\udcff.json", "a name that is no text")]


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('[{"text": "not of this export"}]')
    folder = write_folder(tmp_path / "export", export_files(DAYS))
    (folder / "general" / "2023-11-16.json").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    assert texts(folder) == {"general": ["a", "b", "c"]}
    with Export(folder) as export:
        for one in export.folders():
            list(export.messages(one))
        assert export.broken == [("general/2023-11-16.json", "a link")]


def test_a_damaged_member_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", export_files(DAYS))
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("general/2023-11-14.json")
    content = bytearray(path.read_bytes())
    begin = info.header_offset + 30 + len(info.filename)
    content[begin : begin + 20] = b"\xff" * 20
    path.write_bytes(content)
    with Export(path) as export:
        list(export.channels())
        (folder,) = export.folders()
        assert [raw["text"] for raw in export.messages(folder)] == ["c"]  # type: ignore[index]
        assert export.broken == [("general/2023-11-14.json", "damaged")]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"C0123456789.json": b'{"channel_id": "C0123456789", "messages": []}'}, "dump"),
        ({"D0123456789-1700000000.000100.json": b"{}"}, "dump"),
        ({"slackdump.sqlite": b"SQLite format 3\0"}, "database"),
        ({"channels.json.gz": b"", "users.json.gz": b"", "C0123456789.json.gz": b""}, "archive"),
    ],
)
@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_other_forms_of_slackdump_are_refused_with_advice(
    write: Any, files: dict[str, bytes], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "slackdump_1", files)
    with pytest.raises(NotAnExport, match=f"{words}.*slackdump convert -f export .*slackdump_1"):
        Export(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"SQLite format 3\0 and more", "slackdump convert"),
        (gzip.compress(b"{}"), "neither a zip file nor a folder"),
        (b'{"messages": []}', "neither a zip file nor a folder"),
        (b"", "neither a zip file nor a folder"),
        (b"PK\x03\x04 and then nothing", "damaged, or not a zip"),
    ],
)
def test_other_files_are_refused(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(content)
    with pytest.raises(NotAnExport, match=words):
        Export(path)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NotAnExport, match="There is no"):
        Export(tmp_path / "absent.zip")
    with pytest.raises(NotAnExport, match="holds neither"):
        Export(write_folder(tmp_path / "photos", {"a/b.jpg": b"", "notes.json": b"[]"}))
    with pytest.raises(NotAnExport, match="holds neither"):
        Export(write_zip(tmp_path / "empty.zip", {}))
