"""A damaged or wrong export is refused with a reason, and nothing of it is stored."""

import functools
import json
import tempfile
from pathlib import Path

import pytest

from memories.models import Message
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.export.import_workspace import import_workspace
from tests.exports import (
    contents,
    exported,
    make_odd_workspace,
    owner_of,
    rewrite,
    row_counts,
)
from tests.factories import WorkspaceFactory

pytestmark = pytest.mark.django_db


# Changes of a file


def edit_line(name):
    """Return a function that changes one line of a file, counted from 1."""

    def at(line, **values):
        def change(files):
            rows = files[name].splitlines()
            rows[line - 1] = json.dumps(json.loads(rows[line - 1]) | values).encode()
            files[name] = b"\n".join([*rows, b""])

        return change

    return at


def drop(name):
    return lambda files: files.pop(name)


def replace(name, old, new):
    def change(files):
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def put(name, data):
    return lambda files: files.__setitem__(name, data)


def list_also(name, data):
    def change(files):
        manifest = json.loads(files["manifest.json"])
        manifest["files"].append({"name": name})
        files["manifest.json"] = json.dumps(manifest).encode()
        files[name] = data

    return change


LONG = "memories/workspace/long_term"
BAD = [
    (drop("manifest.json"), "no manifest.json"),
    (drop("people.jsonl"), "people.jsonl: is missing"),
    (drop("messages/C2.jsonl"), "messages/C2.jsonl: is missing"),
    (drop(f"{LONG}/v0001.md"), f"{LONG}/v0001.md: is missing"),
    (put("../../evil", b"x"), "evil: is not listed"),
    (list_also("../../evil", b"x"), "evil: does not belong"),
    (put("manifest.json", b"[]"), "manifest.json: this is no export"),
    (put("manifest.json", b"\xff"), "manifest.json: is not UTF-8"),
    (replace("manifest.json", b'_version": 3', b'_version": 5'), "is of version 5"),
    (replace("manifest.json", b'"people": ', b'"people": 1'), "counts: differ from"),
    (put("people.jsonl", b"{}\n"), "people.jsonl, line 1: has no 'slack_id'"),
    (put("people.jsonl", b"\xff\n"), "people.jsonl, line 1: is not UTF-8"),
    (put("people.jsonl", b"nonsense\n"), "people.jsonl, line 1: is no JSON"),
    (edit_line("people.jsonl")(2, name="a\x00"), "people.jsonl, line 2: name: holds a character"),
    (edit_line("people.jsonl")(2, slack_id="B1"), "people.jsonl: two of its rows are equal"),
    (
        edit_line("channels.jsonl")(1, members=["U9"]),
        "channels.jsonl, line 1: there is no person U9",
    ),
    (edit_line("channels.jsonl")(1, kind="open"), "channels.jsonl, line 1: kind: is none of"),
    (
        edit_line("channels.jsonl")(1, start_us=2**63),
        "channels.jsonl, line 1: start_us: is no whole",
    ),
    (
        edit_line("segments.jsonl")(1, channel="C9"),
        "segments.jsonl, line 1: there is no channel C9",
    ),
    (edit_line("messages/C1.jsonl")(3, ts="1e9"), "messages/C1.jsonl, line 3: ts: is no Slack ts"),
    (edit_line("messages/C1.jsonl")(3, author="U9"), "C1.jsonl, line 3: there is no person U9"),
    (edit_line("messages/C1.jsonl")(3, segment=99), "line 3: there is no segment C1  99"),
    (edit_line("messages/C1.jsonl")(3, text="\ud800"), "line 3: text: holds a character"),
    (edit_line("notes.jsonl")(1, date="soon"), "notes.jsonl, line 1: date: is no date"),
    (edit_line("backfills.jsonl")(1, state="running"), "line 1: state: is none of"),
    (
        edit_line("jobs.jsonl")(1, base=99),
        "jobs.jsonl, line 1: there is no version 99",
    ),
    (edit_line("jobs.jsonl")(1, state="claimed"), "line 1: state: is none of"),
    (edit_line("jobs.jsonl")(1, reply_sources=[[["C1", "1.5"]]]), "there is no message C1 1.5"),
    (edit_line("jobs.jsonl")(1, backfill=9), "line 1: there is no backfill 9"),
    (edit_line("jobs.jsonl")(1, model="x"), "made_by: differs from its job"),
    (edit_line("workspace.json")(1, slug="../x"), "workspace.json: slug: is not like"),
    (edit_line("workspace.json")(1, settings={"x": 1}), "workspace.json: settings: There is no"),
    (
        edit_line("workspace.json")(1, members=[{"user": "a", "role": "admin"}] * 2),
        "workspace.json: contains a member or a budget twice",
    ),
    (edit_line(f"{LONG}/memory.json")(1, scope_id="x"), "do not match"),
    (edit_line(f"{LONG}/memory.json")(1, current=9), "current: is not one of its versions"),
    (edit_line(f"{LONG}/memory.json")(1, head=0), "newer than the head"),
    (replace(f"{LONG}/v0001.md", b"number: 1", b"number: 2"), "v0001.md: number: differs"),
    (replace(f"{LONG}/v0001.md", b"base: null", b"base: 7"), "v0001.md: there is no version 7"),
    (replace(f"{LONG}/v0001.md", b"job: ", b"job: 9"), "a job of another memory"),
    (replace(f"{LONG}/v0001.md", b"\n---\n", b"\n"), "v0001.md: "),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_wrong_file_is_refused_and_nothing_is_stored(request, export, tmp_path, change, reason):
    path = tmp_path / "bad.zip"
    path.write_bytes(export)
    rewrite(path, change, honest=True)
    before = row_counts()
    with pytest.raises(ArchiveError) as refused:
        import_workspace(path, slug="new")
    assert reason in str(refused.value)
    assert row_counts() == before


@functools.cache
def good_export():
    """Return a good export. It is created once."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_odd_workspace(slug="odd")
        path = Path(folder, "good.zip")
        exported(workspace, path, owner_of(workspace))
        workspace.delete()
        return path.read_bytes()


@pytest.fixture
def export(tmp_path):
    (tmp_path / "good.zip").write_bytes(good_export())
    return good_export()


def test_a_changed_file_is_refused(export, tmp_path):
    """This holds for every kind of file, although the new values are valid."""
    before = row_counts()
    files = contents(tmp_path / "good.zip")
    for name in ("workspace.json", "people.jsonl", "messages/C1.jsonl", f"{LONG}/v0001.md"):
        path = tmp_path / "bad.zip"
        path.write_bytes(export)
        old, new = (b"ship", b"SHIP") if b"ship" in files[name] else (b'"', b' "')
        rewrite(path, replace(name, old, new), honest=False)
        with pytest.raises(ArchiveError, match=f"{name}: differs from what was written"):
            import_workspace(path, slug="new")
    assert row_counts() == before


@pytest.mark.parametrize("cut", [0, 10, 2000, -30])
def test_a_cut_file_is_refused(export, tmp_path, cut):
    path = tmp_path / "bad.zip"
    path.write_bytes(export[:cut])
    with pytest.raises(ArchiveError):
        import_workspace(path, slug="new")


@pytest.mark.slow
def test_flipped_bits_are_detected(export, tmp_path):
    """Nothing is stored, unless the byte has no meaning."""
    path = tmp_path / "bad.zip"
    refused = 0
    for at in range(40, len(export), len(export) // 25):
        path.write_bytes(export[:at] + bytes([export[at] ^ 0x55]) + export[at + 1 :])
        before = row_counts()
        try:
            imported = import_workspace(path, slug="new").workspace
        except ArchiveError:
            refused += 1
            assert row_counts() == before
        else:
            rows = contents(tmp_path / "good.zip")["messages/G1.jsonl"].splitlines()
            messages = Message.objects.filter(channel__workspace=imported, channel__slack_id="G1")
            texts = messages.in_order().values_list("text", flat=True)
            assert list(texts) == [json.loads(row)["text"] for row in rows]
            imported.delete()
    assert refused > 15


@pytest.mark.slow
def test_a_slug_or_team_in_use_is_refused(export, tmp_path):
    path = tmp_path / "good.zip"
    workspace = WorkspaceFactory(slug="odd")
    with pytest.raises(ArchiveError, match=f"There is already a workspace {workspace.slug}"):
        import_workspace(path)
    rewrite(path, edit_line("workspace.json")(1, team_id="T1"), honest=True)
    workspace.save_team_id("T1")
    with pytest.raises(ArchiveError, match="already belongs to this Slack team"):
        import_workspace(path, slug="new")
