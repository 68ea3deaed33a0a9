"""The upload pages: upload, inspection, choice, import and report."""

import html
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone, translation
from pytest_django import Settings

from memories.models import (
    AuditEvent,
    Channel,
    MemoryVersion,
    Message,
    Person,
    Upload,
    Workspace,
)
from memories.models.ingest.uploads import HEARTBEAT_TIMEOUT, MAX_ATTEMPTS, UPLOAD_RETENTION
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest import uploads
from memories.slack.export import ExportFolder
from memories.slack.refusals import refusal_sentence
from memories.tasks import import_upload, retention
from memories.templatetags.imports import REASONS, day, outcome_words, time_left_words
from memoryhub.uploads import is_ticket
from tests.documentation import code, sections
from tests.factories import UserFactory, WorkspaceFactory
from tests.hostilezips import make_zip
from tests.pipeline.test_locks import locked_elsewhere
from tests.slack.hostile_archives import READ, REFUSED
from tests.slackexports import channel, export_files, person, slack_message

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
BROKEN = (
    '[\n {"type": "message", "ts": "1700000009.000000", "text": "x", "user": "U1"},\n {"ts" 1}]'
)
FILES = export_files(
    {
        "general/2023-11-14": [slack_message(n, f"message {n}") for n in range(3)],
        "general/2023-11-16": BROKEN,
        "random/2023-11-15": [slack_message(90_000, "a joke", files=[{"id": "F1"}])],
        "salaries/2023-11-14": [slack_message(5, "a secret")],
        "salaries/2023-11-16": "[{]",
        "D0000001/2023-11-14": [slack_message(7, "psst")],
    },
    people=[person("U1", "Ann"), person("U2", "Bob")],
    channels=[channel("C1", "general"), channel("C2", "random")],
    groups=[channel("G1", "salaries")],
    dms=[{"id": "D0000001", "members": ["U1", "U2"]}],
)


@pytest.fixture(autouse=True)
def work_area(settings: Settings, tmp_path: Path) -> Path:
    settings.MEMORYHUB_VAR = tmp_path
    return tmp_path / "uploads"


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(UserFactory(username="operator", is_superuser=True))
    return client


def path_of(upload: Upload) -> str:
    return f"/setup/import/{upload.pk}/"


def page(client: Client, upload: Upload, query: str = "") -> str:
    answer = client.get(path_of(upload) + query)
    assert answer.status_code == 200
    text: str = answer.content.decode()
    return text


def send(client: Client, data: bytes, slug: str = "team", **headers: str):  # type: ignore[no-untyped-def]
    file = SimpleUploadedFile("our export.zip", data, "application/zip")
    return client.post("/setup/import/", {"slug": slug, "export": file}, headers=headers)


def inspect(client: Client, files: dict[str, bytes] | bytes = FILES) -> Upload:
    """Upload an export and let the worker inspect it."""
    answer = send(client, make_zip(files) if isinstance(files, dict) else files)
    upload = Upload.objects.latest("pk")
    assert answer["Location"] == path_of(upload)
    return run_worker(upload)


def run_worker(upload: Upload) -> Upload:
    import_upload(upload.pk)
    upload.refresh_from_db()
    return upload


def start(client: Client, upload: Upload, **choice: object) -> Upload:
    """Choose a part and let the worker import it."""
    client.post(path_of(upload), {"do": "start", **choice})
    return run_worker(upload)


def wait_to_store(client: Client, **choice: object) -> Upload:
    """Return an upload whose import no worker has claimed."""
    upload = inspect(client)
    client.post(path_of(upload), {"do": "start", **choice})
    upload.refresh_from_db()
    return upload


@pytest.mark.parametrize("name", ["action", "hx-post"])
def test_the_forms_address_has_a_ticket(operator: Client, name: str) -> None:
    """With it the web server accepts a large file. A form with errors has one, too."""
    for answer in (operator.get("/setup/import/"), send(operator, b"no zip", **HTMX)):
        [address] = re.findall(f' {name}="(/setup/import/[^"]*)"', answer.content.decode())
        [ticket] = parse_qs(urlsplit(html.unescape(address)).query)["ticket"]
        assert is_ticket(ticket)


def test_only_operators_have_access(operator: Client, work_area: Path) -> None:
    upload = inspect(operator)
    for user, status in ((UserFactory(), 403), (None, 302)):
        client = Client()
        if user:
            client.force_login(user)
        assert client.get("/setup/import/").status_code == status
        assert client.get(path_of(upload)).status_code == status
        assert client.post(path_of(upload), {"do": "cancel"}).status_code == status
        assert send(client, make_zip(FILES), "theirs").status_code == status
    assert [folder.name for folder in work_area.iterdir()] == [upload.folder]


def test_an_upload_becomes_a_workspace(operator: Client, work_area: Path) -> None:
    upload = inspect(operator)
    assert (upload.state, upload.path.is_file(), Message.objects.count()) == ("ready", True, 0)
    text = page(operator, upload)
    for words in (">14 Nov 2023</time>", ">16 Nov 2023</time>", "#general", "1, with 1 message<"):
        assert words in text
    assert "E-mail addresses." in text and "Files. 1 message" in text
    assert "salaries" not in text, "an operator may not see the name"
    assert "general/2023-11-16.json</code>:3" in text and "…/2023-11-16.json" in text
    assert "from here on it is not JSON" in text
    operator.post(path_of(upload), {"do": "start", "without": ["C2"], "private": "on"})
    upload.refresh_from_db()
    assert upload.state == "storing" and 'hx-trigger="every 3s"' in page(operator, upload)
    run_worker(upload)
    workspace = Workspace.objects.get()
    stored = Message.objects.values_list("channel__slack_id", flat=True)
    assert (workspace.slug, sorted(stored)) == ("team", ["C1"] * 4 + ["G1"])
    assert Channel.objects.get(slack_id="G1").kind == Channel.Kind.PRIVATE
    text = page(operator, upload)
    assert "with items left out" in text and "salaries" not in text
    assert "messages – not chosen: 1" in text and "messages – direct messages: 1" in text
    assert 'href="/w/team/catch-up/"' in text and 'href="/w/team/backfill/?estimate=1"' in text
    assert not list(work_area.iterdir())
    actions = list(AuditEvent.objects.filter(actor="operator").values_list("action", flat=True))
    assert sorted(actions) == ["login", "upload", "upload_start"]
    assert Person.objects.count() == 2


@pytest.mark.slow
def test_without_a_model_all_messages_are_summarized_at_once(operator: Client) -> None:
    upload = inspect(operator)
    assert "Summarize all messages, at no cost" in page(operator, upload)
    start(operator, upload, summarize="on")
    text = page(operator, upload)
    assert "estimate=1" not in text and "Catch up" in text and "Enter the Slack domain" in text
    run_pass(Workspace.objects.get(), timezone.now())
    assert "message 1" in MemoryVersion.objects.filter(memory__channel__slack_id="C1")[0].content
    Workspace.objects.update(domain="acme")
    assert "Enter the Slack domain" not in page(operator, upload)


def test_with_a_model_the_cost_is_estimated_first(operator: Client, settings: Settings) -> None:
    settings.MEMORYHUB_MODEL = "tiny"
    upload = inspect(operator)
    assert 'name="summarize"' not in page(operator, upload)
    start(operator, upload, summarize="on")
    assert 'class="button primary" href="/w/team/backfill/?estimate=1"' in page(operator, upload)
    assert not Channel.objects.filter(start_us__isnull=False).exists()


def test_a_start_in_the_future_keeps_the_file(operator: Client, work_area: Path) -> None:
    upload = inspect(operator)
    response = operator.post(path_of(upload), {"do": "start", "since": "2999-01-01"})
    assert response.status_code == 422 and "not in the future" in response.content.decode()
    upload.refresh_from_db()
    assert (upload.state, upload.path.is_file()) == ("ready", True)


def test_findings_are_shown_in_the_readers_language(operator: Client) -> None:
    """Reasons, days, and the refusal of a file."""
    operator.post("/i18n/setlang/", {"language": "ja"})
    upload = inspect(operator)
    text = page(operator, upload)
    assert ">2023年11月14日</time>" in text and "2023-11-16</" not in text
    with translation.override("ja"):
        not_json = outcome_words("not JSON")
        refused = refusal_sentence("nothing_inside", {"name": "our export.zip"})
    assert not_json in text
    start(operator, upload)
    kept = str([upload.contents, upload.report, upload.fault])
    assert not_json in page(operator, upload) and not re.search("[ぁ-んァ-ヶ]", kept)
    assert refused in html.unescape(send(operator, make_zip({"a.jpg": b"x"}), "b").content.decode())


def test_a_fault_is_shown_in_the_readers_language(operator: Client) -> None:
    upload = inspect(operator)
    operator.post(path_of(upload), {"do": "start"})
    upload.path.write_bytes(b"PK and no more")
    run_worker(upload)
    assert (upload.state, upload.fault) == ("failed", "damaged")
    for language in ("en", "ja"):
        operator.post("/i18n/setlang/", {"language": language})
        with translation.override(language):
            words = refusal_sentence("damaged", {"name": "our export.zip"})
        assert words in page(operator, upload)


def test_each_reason_has_a_text() -> None:
    listed = sections("commands.md")["Outcomes"].partition("Reasons of `skipped`:")[2]
    assert REASONS.keys() == set(code(listed)) - {"quarantined"} | {"notice"}


@pytest.mark.parametrize(("broken", "words"), [(50, ""), (51, "and 1 more"), (63, "and 13 more")])
def test_the_page_lists_fifty_broken_files(operator: Client, broken: int, words: str) -> None:
    days = {f"general/2023-11-14-{n}": "{" for n in range(broken)}
    upload = inspect(operator, export_files(days))
    for _ in range(2):  # the findings, then the report
        text = page(operator, upload)
        assert text.count("it is not a list") == 50
        assert re.findall(r">(and \d+ more)<", text) == ([words] if words else [])
        operator.post(path_of(upload), {"do": "start"})
        import_upload(upload.pk)


@pytest.mark.parametrize(
    ("named", "words"),
    [("2023-11-14", ">14 Nov 2023</time>"), ("2023-99-99", "2023-99-99"), ("", "")],
)
def test_the_day_of_a_file_name(named: str, words: str) -> None:
    assert day(named).endswith(words)


@pytest.mark.parametrize(
    ("data", "error"),
    [(make_zip({"holiday.jpg": b"x"}), "no channel lists"), (b"", "is empty")],
)
def test_the_form_shows_why_a_file_is_refused(
    data: bytes, error: str, operator: Client, work_area: Path
) -> None:
    answer = send(operator, data)
    assert answer.status_code == 422 and error in answer.content.decode()
    part = send(operator, data, **HTMX)
    form = part.content.decode()
    assert part.status_code == 422 and form.startswith("<form")
    [field] = re.findall(r"<input [^>]* autofocus[^>]*>", form)
    assert 'type="file"' in field
    assert 'aria-describedby="id_export_helptext id_export_error"' in field
    assert 'id="toast"' in form and 'id="id_export_error"' in form
    assert not Upload.objects.exists() and not list(work_area.glob("*"))


@pytest.mark.parametrize("name", ["bomb", "outside: ../x.json", "two teams", "begin of a zip"])
def test_command_and_page_show_why_an_archive_is_refused(
    name: str, operator: Client, tmp_path: Path
) -> None:
    content, _, words = REFUSED[name]
    assert isinstance(content, bytes)
    path = tmp_path / "our export.zip"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=words) as refusal:
        call_command("import_slack", str(path))
    answer = send(operator, content)
    assert answer.status_code == 422
    assert str(refusal.value) in html.unescape(answer.content.decode())


@pytest.mark.parametrize("name", ["01 cut off", "02 no list of people", "overwritten", "encrypted"])
def test_command_and_page_show_which_files_are_broken(
    name: str, operator: Client, tmp_path: Path
) -> None:
    content, texts, broken, _ = READ[name]
    data = make_zip(content) if isinstance(content, dict) else content
    path = tmp_path / "our export.zip"
    path.write_bytes(data)
    out = io.StringIO()
    with pytest.raises(CommandError) as partial:
        call_command("import_slack", str(path), "--json", stdout=out, stderr=io.StringIO())
    report = json.loads(out.getvalue())
    assert partial.value.returncode == 2
    assert {row["file"]: row["reason"] for row in report["quarantined_files"]} == broken
    assert report["messages"]["stored"] == len(texts)
    upload = inspect(operator, data)
    before = html.unescape(page(operator, upload))
    start(operator, upload)
    after = html.unescape(page(operator, upload))
    for file, reason in broken.items():
        assert all(f"{file}</code>" in text for text in (before, after))
        assert all(outcome_words(reason) in text for text in (before, after))


def test_a_large_file_is_refused(
    operator: Client, work_area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("memoryhub.uploads.MAX_BYTES", "memories.views.ingest.imports.MAX_BYTES"):
        monkeypatch.setattr(place, 100)
    answer = send(operator, make_zip(FILES))
    assert answer.status_code == 422 and "too large for an upload" in answer.content.decode()
    assert not list(work_area.glob("*"))


def test_a_workspace_has_one_unfinished_upload(operator: Client) -> None:
    upload = inspect(operator)
    answer = send(operator, make_zip(FILES))
    assert answer.status_code == 422 and "has not finished yet" in answer.content.decode()
    with pytest.raises(IntegrityError), transaction.atomic():
        Upload.objects.create(folder="x", slug="team", name="x", size=1)
    assert send(operator, make_zip(FILES), "another", **HTMX)["HX-Redirect"] == path_of(
        Upload.objects.latest("pk")
    )
    operator.post(path_of(upload), {"do": "cancel"})
    assert send(operator, make_zip(FILES)).status_code == 302


def test_the_page_refreshes_until_a_person_has_to_decide(operator: Client) -> None:
    send(operator, make_zip(FILES))
    upload = Upload.objects.get()
    part = operator.get(path_of(upload), headers=HTMX)
    assert part.status_code == 200 and "Waiting for a worker" in part.content.decode()
    assert 'http-equiv="refresh"' in page(operator, upload)
    import_upload(upload.pk)
    last = operator.get(path_of(upload), headers=HTMX)
    assert last.status_code == 286
    assert "hx-get" not in last.content.decode() and 'value="start"' in last.content.decode()


def test_a_reader_can_stop_the_refresh(operator: Client) -> None:
    send(operator, make_zip(FILES))
    upload = Upload.objects.get()
    assert 'id="live" href="?live=off"' in page(operator, upload)
    paused_page = page(operator, upload, "?live=off")
    assert (
        "every 3s" not in paused_page
        and "refresh" in paused_page
        and "http-equiv" not in paused_page
    )
    assert "every 3s" in page(operator, upload)
    answer = operator.post(f"{path_of(upload)}?live=off", {"do": "none"})
    assert answer["Location"] == f"{path_of(upload)}?live=off"
    import_upload(upload.pk)
    assert 'id="live"' not in page(operator, upload)


def test_an_import_can_be_cancelled(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = inspect(operator)
    operator.post(path_of(upload), {"do": "start"})
    assert "Cancel the import?" in page(operator, upload, "?ask=cancel")
    monkeypatch.setattr(uploads, "REPORT_EVERY", 0)
    upload.refresh_from_db()
    assert upload.claim(timezone.now())
    operator.post(path_of(upload), {"do": "cancel"})
    assert not upload.record_progress(3, timezone.now())
    assert "Cancelled." in page(operator, upload) and not upload.path.exists()


def test_an_import_can_be_paused_and_resumed(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = wait_to_store(operator, private="on")
    worker = Upload.objects.get()
    assert worker.claim(timezone.now()) and worker.record_progress(3, timezone.now(), {"C1": 2})
    operator.post(path_of(upload), {"do": "pause"})
    assert not worker.record_progress(4, timezone.now())
    import_upload(upload.pk)
    text = page(operator, upload)
    assert ">Paused<" in text and "3 of " in text and "2 of 4" in text
    assert "every 3s" not in text and 'value="resume"' in text
    assert send(operator, make_zip(FILES)).status_code == 422
    operator.post(path_of(upload), {"do": "resume"})
    operator.post(path_of(upload), {"do": "resume"})
    run_worker(upload)
    assert (upload.state, Message.objects.count()) == ("done", 6)
    actions = AuditEvent.objects.filter(action__startswith="upload_")
    assert list(actions.order_by("pk").values_list("action", flat=True)) == [
        *("upload_start", "upload_pause", "upload_resume"),
    ]


def test_only_messages_since_a_day_are_stored(operator: Client) -> None:
    upload = inspect(operator)
    choice = {"do": "start", "since": "2023-11-32", "without": "C2"}
    answer = operator.post(path_of(upload), choice)
    text = answer.content.decode()
    assert answer.status_code == 422 and "Enter a date or a number of days." in text
    [field] = re.findall(r"<input [^>]* autofocus[^>]*>", text)
    assert 'id="id_since"' in field and "id_since_error" in field
    assert 'value="C2" checked' in text and 'name="private">' in text
    operator.post(path_of(upload), choice | {"since": "2023-11-15", "without": []})
    run_worker(upload)
    stored = Message.objects.values_list("channel__slack_id", flat=True)
    assert list(stored) == ["C2"]
    reasons = upload.report["messages"]["reasons"]
    assert reasons["skipped: not chosen"] == 5
    text = page(operator, upload)
    assert "since" in text and ">15 Nov 2023</time>" in text


def test_the_progress_of_each_channel(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "REPORT_EVERY", 0)
    upload = wait_to_store(operator, without=["C2"], private="on")
    tell = uploads.ProgressReporter(upload)
    seen = [("people", 0), ("general", 4), ("general", 6), ("salaries", 8), ("salaries", 9)]
    for where, n in seen:
        if where in ("general", "salaries"):
            public = where == "general"
            kind = {"slack_id": "C1", "kind": "public"} if public else {"kind": "private"}
            tell.add_folder(ExportFolder(where, **kind))
        tell(n, where)
    upload.refresh_from_db()
    parts = [
        (part.name, part.kind, part.read, part.of) for part in uploads.channel_progress(upload)
    ]
    assert parts == [("general", "public", 4, 4), ("", "private", 1, 1)]
    text = page(operator, upload)
    assert "#general" in text and "salaries" not in text and "psst" not in text


NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "seen", "words"),
    [
        (29, 5000, ""),
        (60, 4, ""),
        (100, 5000, "about 1 – 3 min left"),
        (1000, 5000, "about 12 – 25 min left"),
        (60, 9500, "less than a minute left"),
        (300, 10000, "less than a minute left"),
    ],
)
def test_the_time_left(seconds: int, seen: int, words: str) -> None:
    upload = Upload(
        state="storing",
        contents={"objects": 10000},
        seen=seen,
        claimed_at=NOON,
        heartbeat_at=NOON + timedelta(seconds=seconds),
    )
    left = uploads.seconds_left(upload)
    assert (time_left_words(left) if left else "") == words
    upload.state = "paused"
    assert uploads.seconds_left(upload) is None


def test_the_page_shows_a_missing_heartbeat(operator: Client) -> None:
    upload = wait_to_store(operator)
    assert upload.claim(timezone.now()) and "no sign" not in page(operator, upload)
    Upload.objects.update(heartbeat_at=timezone.now() - HEARTBEAT_TIMEOUT - timedelta(seconds=1))
    assert "stopped responding" in page(operator, upload)


def test_another_worker_takes_over_after_the_heartbeat_timeout(operator: Client) -> None:
    upload = inspect(operator)
    operator.post(path_of(upload), {"do": "start"})
    now = timezone.now()
    upload.refresh_from_db()
    assert upload.claim(now) and not upload.claim(now)
    later = now + HEARTBEAT_TIMEOUT + timedelta(seconds=1)
    assert list(Upload.objects.abandoned(later)) == [upload]
    assert uploads.process_upload(upload, later) == Workspace.objects.get()
    assert upload.state == "done"


def test_an_upload_that_kills_its_workers_waits_for_a_person(operator: Client) -> None:
    upload = inspect(operator)
    operator.post(path_of(upload), {"do": "start"})
    Upload.objects.update(attempts=MAX_ATTEMPTS)
    import_upload(upload.pk)
    assert "stopped during each attempt" in page(operator, upload)
    operator.post(path_of(upload), {"do": "retry"})
    run_worker(upload)
    assert upload.state == "done"


def test_another_teams_export_is_refused(operator: Client) -> None:
    WorkspaceFactory(slug="team", team_id="T9")
    upload = inspect(operator)
    operator.post(path_of(upload), {"do": "start"})
    import_upload(upload.pk)
    assert "belong to the Slack team" in page(operator, upload)
    assert not Message.objects.exists()


@pytest.mark.slow
@pytest.mark.cluster
def test_an_import_waits_for_a_sync(
    operator: Client, work_area: Path, process_environment: dict[str, str]
) -> None:
    workspace = WorkspaceFactory(slug="team")
    upload = inspect(operator)
    operator.post(path_of(upload), {"do": "start"})
    there = process_environment | {"MEMORYHUB_VAR": str(work_area.parent)}
    with locked_elsewhere(workspace, there):
        run_worker(upload)
    assert (upload.state, upload.attempts) == ("storing", 0)


def test_a_file_without_a_decision_is_deleted(operator: Client, work_area: Path) -> None:
    upload = inspect(operator)
    retention()
    assert upload.path.exists()
    Upload.objects.update(changed_at=timezone.now() - UPLOAD_RETENTION - timedelta(hours=1))
    retention()
    upload.refresh_from_db()
    assert (upload.state, upload.path.exists()) == ("cancelled", False)


def test_an_upload_adds_no_one_to_an_existing_private_channel(operator: Client) -> None:
    """Otherwise an operator could write an export that gives them access."""

    def salaries() -> set[str]:
        rows = Channel.objects.get(slack_id="G1").memberships
        return set(rows.values_list("person__slack_id", flat=True))

    start(operator, inspect(operator), private="on")
    assert salaries() == {"U1", "U2"}
    day = {"general/2023-11-20": [slack_message(600_000, "later")]}
    people = [person("U1", "Ann"), person("U2", "Bob"), person("U9", "Eve")]
    groups = [channel("G1", "salaries", members=["U1", "U9"])]
    files = export_files(day, people=people, channels=[channel("C1", "general")], groups=groups)
    start(operator, inspect(operator, files), private="on")
    assert salaries() == {"U1"}
