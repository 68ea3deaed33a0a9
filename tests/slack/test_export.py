import gzip
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from memories.slack.export import Export, NotAnExport
from tests.hostilezips import claiming, entries, packed, streamed
from tests.slackexports import channel, export_files, said, write_folder, write_zip

DAYS = {"general/2023-11-14": [said(0, "a"), said(1, "b")], "general/2023-11-15": [said(2, "c")]}


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


def write_streamed(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(streamed(files))
    return path


@pytest.mark.parametrize("write", [write_zip, write_streamed, write_folder])
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


def write_unflagged(path: Path, files: dict[str, bytes]) -> Path:
    """As an old tool does: names in UTF-8, without the flag that says so."""
    data = packed(files)
    for name in entries(data):
        data = claiming(data, name, flags=0)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("write", [write_zip, write_folder, write_unflagged])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_in_every_script(write: Any, form: Any, tmp_path: Path) -> None:
    name = "ガイド-café"
    folder = unicodedata.normalize(form, name)
    files = export_files({f"{folder}/2023-11-14": []}, channels=[channel("C1", name)])
    assert kinds(write(tmp_path / "export", files)) == {name: ("C1", "public")}


@pytest.mark.parametrize("top", ["", "teams/a/"])
def test_an_organisations_export(top: str, tmp_path: Path) -> None:
    """Its people are listed at the top; its one team may have a folder."""
    files = {f"{top}{name}": content for name, content in export_files(DAYS).items()}
    files["org_users.json"] = files.pop(f"{top}users.json")
    path = write_zip(tmp_path / "export.zip", files)
    assert texts(path) == {"general": ["a", "b", "c"]}
    with Export(path) as export:
        assert len(list(export.people())) == 2


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
