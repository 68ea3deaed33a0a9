import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command

from memories.management import progress
from memories.models import Channel, Message, Person, Reader, Workspace
from tests.factories import UserFactory
from tests.holding import being_stored
from tests.slackexports import (
    START,
    channel,
    export_files,
    person,
    slack_message,
    write_folder,
    write_zip,
)

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
NOW = datetime.fromtimestamp(START, UTC) + 10 * DAY
DAYS = {"general/2023-11-14": [slack_message(n, f"message {n}") for n in range(3)]}


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


def printed(path: Path, *arguments: str) -> str:
    out = io.StringIO()
    call_command("import_slack", str(path), *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write_zip(tmp_path / "export.zip", export_files(DAYS))


def test_the_report_of_an_import(export: Path) -> None:
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


def test_the_report_as_text(export: Path) -> None:
    text = printed(export)
    assert "export.zip into default" in text
    assert "3 messages lie before the start of memory" in text
    assert "--backfill all" in text and "#general: 3" in text


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_goes_to_stderr(
    is_terminal: bool, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stderr(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.setattr(progress, "SECONDS", 0.0)
    monkeypatch.setattr(progress, "SECONDS_ON_TERMINAL", 0.0)
    many = {"general/2023-11-14": [slack_message(n, "x") for n in range(400)]}
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
    assert sum(row["messages"] for row in report["before_start"]) == before


def test_the_start_mark_moves_back_and_never_forward(export: Path) -> None:
    marks = []
    for backfill in ("5", "3", "none", "all", "1"):
        run(export, "--backfill", backfill)
        marks.append(Channel.objects.get().start_us)
    days_5 = (START + 5 * 86_400) * 1_000_000
    assert marks == [days_5, days_5, days_5, START * 1_000_000, START * 1_000_000]


def test_messages_of_the_last_day_are_not_before_the_start(tmp_path: Path) -> None:
    hours = 3600
    days = {
        "general/2023-11-24": [
            slack_message(9 * 24 * hours - 1, "a"),
            slack_message(9 * 24 * hours, "b"),
        ]
    }
    report, _ = run(write_zip(tmp_path / "e.zip", export_files(days)))
    assert [row["messages"] for row in report["before_start"]] == [1]


def test_the_report_does_not_name_private_channels(tmp_path: Path) -> None:
    hours = 3600
    talk = [slack_message(1, "a"), slack_message(9 * 24 * hours, "b")]
    days = {"general/2023-11-14": talk, "salaries/2023-11-14": talk}
    files = export_files(days, groups=[channel("G1", "salaries")])
    path = write_zip(tmp_path / "e.zip", files)
    report, _ = run(path)
    named = {row["channel_id"]: row["channel_name"] for row in report["before_start"]}
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
def test_the_teams_domain(
    files: list[str], arguments: tuple[str, ...], domain: str, tmp_path: Path
) -> None:
    messages = [
        slack_message(n, "see")
        | {"files": [{"permalink": f"https://{name}.slack.com/files/U1/F{n}"}]}
        for n, name in enumerate(files)
    ] or [slack_message(0, "nothing")]
    path = write_zip(tmp_path / "export.zip", export_files({"general/2023-11-14": messages}))
    text = printed(path, *arguments)
    assert Workspace.objects.get().domain == domain
    assert ("--slack-domain" in text) is not bool(domain)
    printed(path, "--slack-domain", "later")
    assert Workspace.objects.get().domain == (domain or "later")


@pytest.mark.parametrize("wrong", ["", "acme.example", "a b", "https://"])
def test_a_wrong_domain(wrong: str, export: Path) -> None:
    with pytest.raises(CommandError, match="not a Slack domain"):
        printed(export, "--slack-domain", wrong)


@pytest.mark.parametrize("wrong", ["some", "-1", "0", "1.5", ""])
def test_a_wrong_backfill(wrong: str, export: Path) -> None:
    with pytest.raises(CommandError, match="neither none, all nor a number of days"):
        call_command("import_slack", str(export), f"--backfill={wrong}")


def test_direct_messages_are_stored_on_request(tmp_path: Path) -> None:
    """Rows 36 and 37 of `tests.hard.mutated_exports`: only where lists name the members."""
    days = {
        "D0123456789/2023-11-14": [slack_message(1, "between two")],
        "mpdm-a--b--c-1/2023-11-14": [slack_message(2, "among three")],
    }
    lists = {
        "people": [person("U1", "Ann"), person("U2", "Bob"), person("U3", "Cem")],
        "dms": [{"id": "D0123456789", "members": ["U2", "U1"]}],
        "mpims": [channel("G0123456789", "mpdm-a--b--c-1", members=["U1", "U2", "U3"])],
    }
    listed = write_zip(tmp_path / "listed.zip", export_files(days, **lists))
    unlisted = write_zip(tmp_path / "unlisted.zip", export_files(days))
    for path in (unlisted, listed):
        report, status = run(path)
        assert (status, report["messages"]["reasons"]) == (0, {"skipped: direct messages": 2})
    assert report["channels"]["reasons"] == {"skipped: direct messages": 2}
    assert not Channel.objects.exclude(slack_id="C1").exists()
    report, status = run(unlisted, "--direct-messages")
    assert report["messages"]["reasons"] == {"quarantined: of a channel in no list": 2}
    assert (status, report["partial"]) == (2, True)
    assert report["unlisted_folders"] == [
        {"folder": folder.split("/")[0], "objects": 1} for folder in days
    ]
    assert run(listed, "--direct-messages")[0]["messages"]["stored"] == 2
    direct = Channel.objects.exclude(kind="public").order_by("slack_id")
    assert list(direct.values_list("slack_id", "kind", "name")) == [
        ("D0123456789", "im", "Ann, Bob"),
        ("G0123456789", "mpim", "mpdm-a--b--c-1"),
    ]
    assert not Channel.objects.feeding_workspace_memory().exclude(kind="public").exists()
    visible = {}
    for slack_id in ("U1", "U3"):
        user = UserFactory()
        Person.objects.filter(slack_id=slack_id).update(user=user, linked_by="slack")
        messages = Message.objects.visible_to(Reader.of(user)).in_order()
        visible[slack_id] = [message.text for message in messages]
    assert visible == {"U1": ["between two", "among three"], "U3": ["among three"]}
    assert run(listed)[0]["messages"]["reasons"] == {"skipped: direct messages": 2}


def test_a_repaired_export_completes_a_partial_import(tmp_path: Path) -> None:
    """Row 41."""
    folder = write_folder(tmp_path / "folder", export_files(DAYS))
    file = folder / "general/2023-11-14.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:200])
    report, status = run(folder)
    assert (status, report["partial"], report["messages"]["stored"]) == (2, True, 2)
    assert report["quarantined_files"] == [{"file": "general/2023-11-14.json", "reason": "cut off"}]
    file.write_bytes(whole)
    report, status = run(folder)
    counts = report["messages"]
    assert (status, counts["stored"], counts["duplicate"]) == (0, 1, 2)


def test_two_imports_at_once_are_refused(export: Path) -> None:
    workspace = Workspace.objects.create(slug="default", name="x")
    with (
        being_stored(workspace),
        pytest.raises(CommandError, match="An import or a sync"),
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


def test_a_stopped_import_can_be_repeated(
    export: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from memories.slack.export import Export

    files = export_files(
        {"a/2023-11-14": [slack_message(1, "a")], "b/2023-11-14": [slack_message(1, "b")]},
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
        with pytest.raises(CommandError, match="Run the same command again") as stopped:
            call_command("import_slack", str(path))
    assert stopped.value.returncode == 130
    assert list(Message.objects.values_list("text", flat=True)) == ["a"]
    report, status = run(path)
    assert (status, report["messages"]["stored"], report["messages"]["duplicate"]) == (0, 1, 1)


def test_a_zip_and_its_folder_have_the_same_messages(export: Path, tmp_path: Path) -> None:
    run(export)
    report, _ = run(write_folder(tmp_path / "folder", export_files(DAYS)))
    assert report["messages"]["duplicate"] == 3
