import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection

from memories.management import progress
from memories.models import Channel, Message, Workspace
from memories.pipeline.locks import lock_workspace
from tests.slackexports import START, channel, export_files, person, said, write_folder, write_zip

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
NOW = datetime.fromtimestamp(START, UTC) + 10 * DAY
DAYS = {"general/2023-11-14": [said(n, f"message {n}") for n in range(3)]}


@pytest.fixture(autouse=True)
def clock() -> Any:
    with time_machine.travel(NOW, tick=False):
        yield


def run(path: Path, *arguments: str) -> tuple[dict[str, Any], int]:
    """Return the report and the exit status of an import."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        call_command("import_slack", str(path), "--json", *arguments, stdout=out, stderr=err)
    except CommandError as error:
        status = error.returncode
    return json.loads(out.getvalue()), status


def told(path: Path, *arguments: str) -> str:
    out = io.StringIO()
    call_command("import_slack", str(path), *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write_zip(tmp_path / "export.zip", export_files(DAYS))


def test_an_export_is_imported(export: Path) -> None:
    report, status = run(export)
    assert status == 0
    assert report["workspace"] == "default"
    assert report["partial"] is False
    assert report["messages"] == {
        "seen": 3,
        "stored": 3,
        "updated": 0,
        "duplicate": 0,
        "skipped": 0,
        "quarantined": 0,
        "reasons": {},
    }
    assert (report["people"]["stored"], report["channels"]["stored"]) == (2, 1)
    assert Channel.objects.get().is_public
    assert set(Channel.objects.get().people.names()) == {"U1", "U2"}
    assert Workspace.objects.get().team_id == "T1"


def test_a_second_import_changes_nothing(export: Path) -> None:
    run(export)
    report, status = run(export)
    assert (status, report["messages"]["duplicate"], Message.objects.count()) == (0, 3, 3)


def test_the_report_as_text(export: Path) -> None:
    words = told(export)
    assert "export.zip into default" in words
    assert "3 messages lie before the start of memory" in words
    assert "--backfill all" in words and "#general: 3" in words


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_goes_to_stderr(
    is_terminal: bool, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stderr(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.setattr(progress, "SECONDS", 0.0)
    monkeypatch.setattr(progress, "SECONDS_ON_TERMINAL", 0.0)
    many = {"general/2023-11-14": [said(n, "x") for n in range(400)]}
    out, err = io.StringIO(), Stderr()
    path = write_zip(export, export_files(many))
    call_command("import_slack", str(path), "--json", stdout=out, stderr=err)
    json.loads(out.getvalue())
    assert "203 read, general" not in err.getvalue()
    assert "400 read, general" in err.getvalue()
    assert ("\r" in err.getvalue()) == is_terminal


@pytest.mark.parametrize(
    ("arguments", "mark", "before"),
    [
        ((), None, 3),
        (("--backfill", "none"), None, 3),
        (("--backfill", "all"), START * 1_000_000, 0),
        (("--backfill", "20"), (START - 10 * 86_400) * 1_000_000, 0),
        (("--backfill", "5"), (START + 5 * 86_400) * 1_000_000, 3),
    ],
)
def test_backfill(arguments: tuple[str, ...], mark: int | None, before: int, export: Path) -> None:
    report, _ = run(export, *arguments)
    assert Channel.objects.get().start_us == mark
    assert sum(one["messages"] for one in report["before_start"]) == before


def test_the_start_of_memory_only_moves_back(export: Path) -> None:
    marks = []
    for backfill in ("5", "3", "none", "all", "1"):
        run(export, "--backfill", backfill)
        marks.append(Channel.objects.get().start_us)
    days_5 = (START + 5 * 86_400) * 1_000_000
    assert marks == [days_5, days_5, days_5, START * 1_000_000, START * 1_000_000]


def test_messages_of_the_last_day_are_not_before_the_start(tmp_path: Path) -> None:
    hours = 3600
    days = {"general/2023-11-24": [said(9 * 24 * hours - 1, "a"), said(9 * 24 * hours, "b")]}
    report, _ = run(write_zip(tmp_path / "e.zip", export_files(days)))
    assert [one["messages"] for one in report["before_start"]] == [1]


def test_the_name_of_a_private_channel_is_not_printed(tmp_path: Path) -> None:
    hours = 3600
    talk = [said(1, "a"), said(9 * 24 * hours, "b")]
    days = {"general/2023-11-14": talk, "salaries/2023-11-14": talk}
    files = export_files(days, groups=[channel("G1", "salaries")])
    path = write_zip(tmp_path / "e.zip", files)
    report, _ = run(path)
    named = {one["channel_id"]: one["channel_name"] for one in report["before_start"]}
    assert named == {"C1": "general", "G1": ""}
    out = io.StringIO()
    call_command("import_slack", str(path), stdout=out, stderr=io.StringIO())
    assert "#general: 1" in out.getvalue() and "G1: 1" in out.getvalue()
    assert "salaries" not in out.getvalue()


@pytest.mark.parametrize(
    ("files", "arguments", "domain"),
    [
        (["acme", "acme", "other"], (), "acme"),
        (["acme"], ("--slack-domain", "https://Team.slack.com/"), "team"),
        ([], (), ""),
    ],
    ids=["most addresses", "said", "unknown"],
)
def test_the_domain_of_the_team(
    files: list[str], arguments: tuple[str, ...], domain: str, tmp_path: Path
) -> None:
    messages = [
        said(n, "see") | {"files": [{"permalink": f"https://{name}.slack.com/files/U1/F{n}"}]}
        for n, name in enumerate(files)
    ] or [said(0, "nothing")]
    path = write_zip(tmp_path / "export.zip", export_files({"general/2023-11-14": messages}))
    words = told(path, *arguments)
    assert Workspace.objects.get().domain == domain
    assert ("--slack-domain" in words) is not bool(domain)
    told(path, "--slack-domain", "later")
    assert Workspace.objects.get().domain == (domain or "later")


@pytest.mark.parametrize("wrong", ["", "acme.example", "a b", "https://"])
def test_a_wrong_domain_is_refused(wrong: str, export: Path) -> None:
    with pytest.raises(CommandError, match="not a Slack domain"):
        told(export, "--slack-domain", wrong)


@pytest.mark.parametrize("wrong", ["some", "-1", "0", "1.5", ""])
def test_a_wrong_backfill_is_refused(wrong: str, export: Path) -> None:
    with pytest.raises(CommandError, match="neither none, all nor a number of days"):
        call_command("import_slack", str(export), f"--backfill={wrong}")


def test_a_file_that_is_no_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="holds neither"):
        call_command("import_slack", str(write_folder(tmp_path / "x", {"a.txt": b""})))
    assert not Workspace.objects.exists()


@contextmanager
def storing_elsewhere(workspace: Workspace) -> Iterator[None]:
    """Hold the lock in a thread, which has its own database connection."""
    began, done = threading.Event(), threading.Event()

    def work() -> None:
        with lock_workspace(workspace):
            began.set()
            done.wait(60)
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait(60)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_second_import_at_once_is_refused(export: Path) -> None:
    workspace = Workspace.objects.create(slug="default", name="x")
    with (
        storing_elsewhere(workspace),
        pytest.raises(CommandError, match="Another import or sync"),
    ):
        call_command("import_slack", str(export))
    assert not Message.objects.exists()
    assert run(export)[1] == 0


def test_another_teams_export_is_refused(export: Path, tmp_path: Path) -> None:
    run(export)
    files = export_files(DAYS, people=[person("U8", team_id="T2")])
    with pytest.raises(CommandError, match="None of the people"):
        call_command("import_slack", str(write_zip(tmp_path / "other.zip", files)))
    assert not Workspace.objects.get().people.filter(slack_id="U8").exists()


def test_an_import_continues_after_ctrl_c(
    export: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from memories.slack.export import Export

    files = export_files(
        {"a/2023-11-14": [said(1, "a")], "b/2023-11-14": [said(1, "b")]},
        channels=[channel("C1", "a"), channel("C2", "b")],
    )
    path = write_zip(tmp_path / "two.zip", files)
    read = Export.messages

    def stop_at_b(self: Export, folder: Any) -> Any:
        if folder.name == "b":
            raise KeyboardInterrupt
        return read(self, folder)

    with monkeypatch.context() as patch:
        patch.setattr(Export, "messages", stop_at_b)
        with pytest.raises(CommandError, match="run the same command again") as stopped:
            call_command("import_slack", str(path))
    assert stopped.value.returncode == 130
    assert list(Message.objects.values_list("text", flat=True)) == ["a"]
    report, status = run(path)
    assert (status, report["messages"]["stored"], report["messages"]["duplicate"]) == (0, 1, 1)


def test_a_zip_file_and_its_folder_give_the_same_rows(export: Path, tmp_path: Path) -> None:
    run(export)
    report, _ = run(write_folder(tmp_path / "folder", export_files(DAYS)))
    assert report["messages"]["duplicate"] == 3
