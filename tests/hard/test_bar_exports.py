"""The hard test of mutated exports reports planted faults."""

import os
import socket
import sys
from pathlib import Path

import pytest

from tests.hard import bar_exports
from tests.hard.mutated_exports import Mutated
from tests.hostilezips import make_zip
from tests.slackexports import export_files, person, slack_message

pytestmark = pytest.mark.nightly("a tool of the hard tests that run whole there")


@pytest.fixture
def watch(tmp_path: Path) -> bar_exports._Watch:
    return bar_exports._Watch(tmp_path / "locks")


def test_reading_is_no_fault(watch: bar_exports._Watch, tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    with watch.at_work():
        Path(__file__).read_text()
        (tmp_path / "locks" / "storing-1").write_text("")
        os.listdir(tmp_path)
    assert watch.seen == []


def test_writing_is_seen(watch: bar_exports._Watch, tmp_path: Path) -> None:
    path = tmp_path / "evil.json"
    path.write_text("before")
    assert watch.seen == []
    with watch.at_work():
        path.write_text("x")
        os.close(os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT))
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to(path)
        path.unlink()
    assert [word.split()[0] for word in watch.seen] == [
        *("open", "open", "os.mkdir", "os.symlink", "os.remove")
    ]


def test_a_network_call_is_reported(watch: bar_exports._Watch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, watch.at_work():
        socket.create_connection(server.getsockname()).close()
    assert any(word.startswith("socket.connect") for word in watch.seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "patience", "fault"),
    [("raise SystemExit(3)", 60.0, "crash"), ("import time; time.sleep(60)", 0.2, "hang")],
)
def test_a_child_that_does_not_answer(
    program: str, patience: float, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bar_exports, "PATIENCE", patience)
    monkeypatch.setattr(bar_exports, "_command", lambda work: [sys.executable, "-c", program])
    with bar_exports._child(tmp_path / "child") as child:
        answers = list(bar_exports._answers([child], [7, 8]))
    assert [(answer["seed"], answer["fault"]) for answer in answers] == [(7, fault), (8, fault)]


FILES = export_files({"general/2023-11-14": [slack_message(1, "a")]})
COUNTS = {"people": 2, "channels": 1, "messages": 1}
READ = {"end": "imported", "complete": True, "counts": COUNTS}
REFUSED = {"end": "refused", "why": ""}
OTHER_TEAM = export_files({}, people=[person("U1", team_id="T2")])


@pytest.mark.parametrize(
    ("files", "must", "answer", "fault"),
    [
        (FILES, "read", READ, ""),
        (FILES, "either", READ, ""),
        (FILES, "read", READ | {"counts": COUNTS | {"messages": 2}}, "sum"),
        (FILES, "read", READ | {"complete": False}, "sum"),
        (FILES, "refuse", READ, "refusal"),
        (FILES, "refuse", REFUSED, ""),
        (FILES, "either", REFUSED, ""),
        (FILES, "read", REFUSED, "refusal"),
        (OTHER_TEAM, "read", REFUSED, ""),
        ({"photo.jpg": b""}, "read", REFUSED, ""),
    ],
)
def test_faults_of_an_answer(
    files: dict[str, bytes], must: str, answer: dict[str, object], fault: str, tmp_path: Path
) -> None:
    export = Mutated([], must, zip=make_zip(files))
    export.write(tmp_path / "export.zip")
    verdict = bar_exports.judge(export, tmp_path / "export.zip", answer)
    assert verdict.get("fault", "") == fault
