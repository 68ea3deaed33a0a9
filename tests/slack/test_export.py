import unicodedata
from pathlib import Path
from typing import Any

import pytest

from memories.slack.export import Export
from tests.hostilezips import entry_offsets, make_streamed_zip, make_zip, with_fields
from tests.slackexports import channel, export_files, slack_message, write_folder, write_zip

DAYS = {
    "general/2023-11-14": [slack_message(0, "a"), slack_message(1, "b")],
    "general/2023-11-15": [slack_message(2, "c")],
}


def texts(path: Path) -> dict[str, list[Any]]:
    """Return folder → texts of its messages."""
    with Export(path) as export:
        list(export.people())
        list(export.channels())
        return {
            folder.name: [raw.get("text") for raw in export.messages(folder)]  # type: ignore[attr-defined]
            for folder in export.folders()
        }


def kinds(path: Path) -> dict[str, tuple[str, str]]:
    """Return folder → (id, kind) by the lists."""
    with Export(path) as export:
        list(export.channels())
        return {folder.name: (folder.slack_id, folder.kind) for folder in export.folders()}


def write_streamed(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(make_streamed_zip(files))
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
def test_a_wrapping_folder_is_removed(write: Any, wrapper: str, tmp_path: Path) -> None:
    files = {wrapper + name: content for name, content in export_files(DAYS).items()}
    files |= {"__MACOSX/" + wrapper + "._users.json": b"", ".DS_Store": b""}
    path = write(tmp_path / "export", files)
    assert texts(path) == {"general": ["a", "b", "c"]}
    with Export(path) as export:
        assert export.junk == {"left by the system": 2}


def test_files_beside_the_wrapping_folder_are_junk(tmp_path: Path) -> None:
    files = {f"export/{name}": content for name, content in export_files(DAYS).items()}
    path = write_zip(tmp_path / "e.zip", files | {"README.txt": b"", "photos/a.jpg": b""})
    assert texts(path) == {"general": ["a", "b", "c"]}
    with Export(path) as export:
        assert export.junk == {"beside the export": 2}


def test_the_only_channel_folder_is_no_wrapper(tmp_path: Path) -> None:
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


def test_a_folder_belongs_to_the_listed_channel(tmp_path: Path) -> None:
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
    """Write UTF-8 names without the flag for UTF-8, as old tools do."""
    data = make_zip(files)
    for name in entry_offsets(data):
        data = with_fields(data, name, flags=0)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("write", [write_zip, write_folder, write_unflagged])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_in_any_unicode_form(write: Any, form: Any, tmp_path: Path) -> None:
    name = "ガイド-café"
    folder = unicodedata.normalize(form, name)
    files = export_files({f"{folder}/2023-11-14": []}, channels=[channel("C1", name)])
    assert kinds(write(tmp_path / "export", files)) == {name: ("C1", "public")}


@pytest.mark.parametrize("top", ["", "teams/a/"])
def test_an_organisations_export(top: str, tmp_path: Path) -> None:
    """Its people are in a list at the top; its one team may have a folder."""
    files = {f"{top}{name}": content for name, content in export_files(DAYS).items()}
    files["org_users.json"] = files.pop(f"{top}users.json")
    path = write_zip(tmp_path / "export.zip", files)
    assert texts(path) == {"general": ["a", "b", "c"]}
    with Export(path) as export:
        assert len(list(export.people())) == 2
