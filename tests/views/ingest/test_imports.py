"""A Slack export from a page: taken in, looked into, chosen from, stored, and told of."""

import html
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone, translation
from pytest_django import Settings

from memories.models import AuditEvent, Channel, Message, Person, Upload, Workspace
from memories.models.ingest.uploads import HEARTBEAT_TIMEOUT, MAX_ATTEMPTS, UPLOAD_RETENTION
from memories.pipeline.ingest import uploads
from memories.slack.export import ExportFolder
from memories.slack.refusals import refusal_sentence
from memories.tasks import import_upload, retention
from memories.templatetags.imports import REASONS, day, outcome_words, time_left_words
from memoryhub.uploads import is_ticket
from tests.documentation import code, sections
from tests.factories import UserFactory, WorkspaceFactory
from tests.hostilezips import packed
from tests.pipeline.test_locks import locked_elsewhere
from tests.slackexports import channel, export_files, person, said

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
BROKEN = (
    '[\n {"type": "message", "ts": "1700000009.000000", "text": "x", "user": "U1"},\n {"ts" 1}]'
)
FILES = export_files(
    {
        "general/2023-11-14": [said(n, f"message {n}") for n in range(3)],
        "general/2023-11-16": BROKEN,
        "random/2023-11-15": [said(90_000, "a joke", files=[{"id": "F1"}])],
        "salaries/2023-11-14": [said(5, "a secret")],
        "salaries/2023-11-16": "[{]",
        "D0000001/2023-11-14": [said(7, "psst")],
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
def boss(client: Client) -> Client:
    client.force_login(UserFactory(username="boss", is_superuser=True))
    return client


def send(client: Client, data: bytes, slug: str = "team", **headers: str):  # type: ignore[no-untyped-def]
    file = SimpleUploadedFile("our export.zip", data, "application/zip")
    return client.post("/setup/import/", {"slug": slug, "export": file}, headers=headers)


def take_in(client: Client, files: dict[str, bytes] = FILES) -> Upload:
    """Uploaded, and looked into by the worker."""
    answer = send(client, packed(files))
    upload = Upload.objects.latest("pk")
    assert answer["Location"] == here(upload)
    import_upload(upload.pk)
    upload.refresh_from_db()
    return upload


@pytest.mark.parametrize("name", ["action", "hx-post"])
def test_the_address_of_the_form_holds_a_ticket(boss: Client, name: str) -> None:
    """The web server lets a large file through by it; also where the form is shown again."""
    for answer in (boss.get("/setup/import/"), send(boss, b"no zip", **HTMX)):
        [address] = re.findall(f' {name}="(/setup/import/[^"]*)"', answer.content.decode())
        [ticket] = parse_qs(urlsplit(html.unescape(address)).query)["ticket"]
        assert is_ticket(ticket)


def here(upload: Upload) -> str:
    return f"/setup/import/{upload.pk}/"


def page(client: Client, upload: Upload, rest: str = "") -> str:
    answer = client.get(here(upload) + rest)
    assert answer.status_code == 200
    text: str = answer.content.decode()
    return text


def test_only_operators_come_in(boss: Client, work_area: Path) -> None:
    upload = take_in(boss)
    for user, status in ((UserFactory(), 403), (None, 302)):
        other = Client()
        if user:
            other.force_login(user)
        assert other.get("/setup/import/").status_code == status
        assert other.get(here(upload)).status_code == status
        assert other.post(here(upload), {"do": "cancel"}).status_code == status
        assert send(other, packed(FILES), "theirs").status_code == status
    assert [folder.name for folder in work_area.iterdir()] == [upload.folder]


def test_from_a_file_to_the_workspace(boss: Client, work_area: Path) -> None:
    upload = take_in(boss)
    assert (upload.state, upload.path.is_file(), Message.objects.count()) == ("ready", True, 0)
    found = page(boss, upload)
    for words in (">14 Nov 2023</time>", ">16 Nov 2023</time>", "#general", "1, with 1 message<"):
        assert words in found
    assert "E-mail addresses:" in found and "Files: 1 message" in found
    assert "salaries" not in found, "the name of a private channel is not every operator's to see"
    assert "general/2023-11-16.json</code>:3" in found and "…/2023-11-16.json" in found
    assert "from here on it is not JSON" in found
    boss.post(here(upload), {"do": "start", "without": ["C2"], "private": "on"})
    upload.refresh_from_db()
    assert upload.state == "storing" and 'hx-trigger="every 3s"' in page(boss, upload)
    import_upload(upload.pk)
    upload.refresh_from_db()
    workspace = Workspace.objects.get()
    stored = Message.objects.values_list("channel__slack_id", flat=True)
    assert (workspace.slug, sorted(stored)) == ("team", ["C1"] * 4 + ["G1"])
    assert Channel.objects.get(slack_id="G1").kind == Channel.Kind.PRIVATE
    told = page(boss, upload)
    assert "something was left out" in told and "salaries" not in told
    assert "messages – not chosen: 1" in told and "messages – direct messages: 1" in told
    assert 'href="/w/team/catch-up/"' in told and 'href="/w/team/backfill/?quote=1"' in told
    assert not list(work_area.iterdir())
    actions = list(AuditEvent.objects.filter(actor="boss").values_list("action", flat=True))
    assert sorted(actions) == ["login", "upload", "upload_start"]
    assert Person.objects.count() == 2


def test_in_japanese_nothing_is_told_in_english(boss: Client) -> None:
    """Of what a file may be made of: reasons, days, and why another one is refused."""
    boss.post("/i18n/setlang/", {"language": "ja"})
    upload = take_in(boss)
    found = page(boss, upload)
    assert ">2023年11月14日</time>" in found and "2023-11-16</" not in found
    with translation.override("ja"):
        not_json = outcome_words("not JSON")
        refused = refusal_sentence("nothing_inside", {"name": "our export.zip"})
    assert not_json in found
    boss.post(here(upload), {"do": "start"})
    import_upload(upload.pk)
    upload.refresh_from_db()
    kept = str([upload.found, upload.report, upload.fault])
    assert not_json in page(boss, upload) and not re.search("[ぁ-んァ-ヶ]", kept)
    assert refused in html.unescape(send(boss, packed({"a.jpg": b"x"}), "b").content.decode()), (
        "in the words of the page, and of the file as it was called"
    )


def test_why_a_file_failed_is_told_in_the_language_of_who_asks(boss: Client) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    upload.path.write_bytes(b"PK and no more")
    import_upload(upload.pk)
    upload.refresh_from_db()
    assert (upload.state, upload.fault) == ("failed", "damaged")
    for language in ("en", "ja"):
        boss.post("/i18n/setlang/", {"language": language})
        with translation.override(language):
            words = refusal_sentence("damaged", {"name": "our export.zip"})
        assert words in page(boss, upload)


def test_each_reason_has_words() -> None:
    told = sections("commands.md")["Outcomes"].partition("Reasons of `skipped`:")[2]
    assert REASONS.keys() == set(code(told)) - {"quarantined"} | {"notice"}


@pytest.mark.parametrize(("broken", "words"), [(50, ""), (51, "and 1 more"), (63, "and 13 more")])
def test_of_many_broken_files_the_number_is_told(boss: Client, broken: int, words: str) -> None:
    days = {f"general/2023-11-14-{n}": "{" for n in range(broken)}
    upload = take_in(boss, export_files(days))
    for _ in range(2):  # what was found, then what came of it
        told = page(boss, upload)
        assert told.count("it is not a list") == 50
        assert re.findall(r">(and \d+ more)<", told) == ([words] if words else [])
        boss.post(here(upload), {"do": "start"})
        import_upload(upload.pk)


@pytest.mark.parametrize(
    ("named", "words"),
    [("2023-11-14", ">14 Nov 2023</time>"), ("2023-99-99", "2023-99-99"), ("", "")],
)
def test_a_day_as_a_file_names_it(named: str, words: str) -> None:
    assert day(named).endswith(words)


def test_once_more_changes_nothing(boss: Client) -> None:
    for _ in range(2):
        upload = take_in(boss)
        boss.post(here(upload), {"do": "start", "private": "on", "direct": "on"})
        import_upload(upload.pk)
    upload.refresh_from_db()
    assert (upload.report["messages"]["duplicate"], Message.objects.count()) == (7, 7)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"hello", "neither a zip file"),
        (packed({"holiday.jpg": b"x"}), "neither lists of channels"),
        (b"", "is empty"),
    ],
)
def test_what_is_no_export_is_refused(
    data: bytes, words: str, boss: Client, work_area: Path
) -> None:
    answer = send(boss, data)
    assert answer.status_code == 422 and words in answer.content.decode()
    part = send(boss, data, **HTMX)
    form = part.content.decode()
    assert part.status_code == 422 and form.startswith("<form")
    [field] = re.findall(r"<input [^>]* autofocus[^>]*>", form)
    assert (
        'type="file"' in field and 'aria-describedby="id_export_helptext id_export_error"' in field
    )
    assert 'id="toast"' in form and 'id="id_export_error"' in form
    assert not Upload.objects.exists() and not list(work_area.glob("*"))


def test_too_large(boss: Client, work_area: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("memoryhub.uploads.MAX_BYTES", "memories.views.ingest.imports.MAX_BYTES"):
        monkeypatch.setattr(place, 100)
    answer = send(boss, packed(FILES))
    assert answer.status_code == 422 and "too large for an upload" in answer.content.decode()
    assert not list(work_area.glob("*"))


def test_one_at_a_time_for_a_workspace(boss: Client) -> None:
    upload = take_in(boss)
    answer = send(boss, packed(FILES))
    assert answer.status_code == 422 and "is not over yet" in answer.content.decode()
    with pytest.raises(IntegrityError), transaction.atomic():
        Upload.objects.create(folder="x", slug="team", name="x", size=1)
    assert send(boss, packed(FILES), "another", **HTMX)["HX-Redirect"] == here(
        Upload.objects.latest("pk")
    )
    boss.post(here(upload), {"do": "cancel"})
    assert send(boss, packed(FILES)).status_code == 302


def test_the_part_is_asked_for_until_a_person_is_to_decide(boss: Client) -> None:
    send(boss, packed(FILES))
    upload = Upload.objects.get()
    part = boss.get(here(upload), headers=HTMX)
    assert part.status_code == 200 and "waits for a worker" in part.content.decode()
    assert 'http-equiv="refresh"' in page(boss, upload)
    import_upload(upload.pk)
    last = boss.get(here(upload), headers=HTMX)
    assert last.status_code == 286
    assert "hx-get" not in last.content.decode() and 'value="start"' in last.content.decode()


def test_a_reader_may_stop_it_from_asking(boss: Client) -> None:
    send(boss, packed(FILES))
    upload = Upload.objects.get()
    assert 'id="live" href="?live=off"' in page(boss, upload)
    still = page(boss, upload, "?live=off")
    assert "every 3s" not in still and "refresh" in still and "http-equiv" not in still
    assert "every 3s" in page(boss, upload)
    answer = boss.post(f"{here(upload)}?live=off", {"do": "none"})
    assert answer["Location"] == f"{here(upload)}?live=off"
    import_upload(upload.pk)
    assert 'id="live"' not in page(boss, upload), "it waits for a person"


def test_cancelled_while_it_is_stored(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    assert "Cancel the import?" in page(boss, upload, "?ask=cancel")
    monkeypatch.setattr(uploads, "REPORT_EVERY", 0)
    upload.refresh_from_db()
    assert upload.claim(timezone.now())
    boss.post(here(upload), {"do": "cancel"})
    assert not upload.record_progress(3, timezone.now())
    assert "Cancelled." in page(boss, upload) and not upload.path.exists()


def test_paused_and_resumed(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start", "private": "on"})
    upload.refresh_from_db()
    worker = Upload.objects.get()
    assert worker.claim(timezone.now()) and worker.record_progress(3, timezone.now(), {"C1": 2})
    boss.post(here(upload), {"do": "pause"})
    assert not worker.record_progress(4, timezone.now()), "who works on it hears of that"
    import_upload(upload.pk)
    told = page(boss, upload)
    assert ">Paused<" in told and "3 of " in told and "2 of 4" in told
    assert "every 3s" not in told and 'value="resume"' in told
    assert send(boss, packed(FILES)).status_code == 422, "it is not over yet"
    boss.post(here(upload), {"do": "resume"})
    boss.post(here(upload), {"do": "resume"})
    import_upload(upload.pk)
    upload.refresh_from_db()
    assert (upload.state, Message.objects.count()) == ("done", 6)
    actions = AuditEvent.objects.filter(action__startswith="upload_")
    assert list(actions.order_by("pk").values_list("action", flat=True)) == [
        *("upload_start", "upload_pause", "upload_resume"),
    ]


def test_only_what_was_said_since_a_day(boss: Client) -> None:
    upload = take_in(boss)
    asked = {"do": "start", "since": "2023-11-32", "without": "C2"}
    wrong = boss.post(here(upload), asked)
    text = wrong.content.decode()
    assert wrong.status_code == 422 and "Neither a day nor a number of days." in text
    [field] = re.findall(r"<input [^>]* autofocus[^>]*>", text)
    assert 'id="id_since"' in field and "id_since_error" in field
    assert 'value="C2" checked' in text and 'name="private">' in text
    boss.post(here(upload), asked | {"since": "2023-11-15", "without": []})
    import_upload(upload.pk)
    upload.refresh_from_db()
    stored = Message.objects.values_list("channel__slack_id", flat=True)
    assert list(stored) == ["C2"], "what was said on the 15th"
    reasons = upload.report["messages"]["reasons"]
    assert reasons["skipped: not chosen"] == 5, "four of #general, and #salaries"
    told = page(boss, upload)
    assert "since" in told and ">15 Nov 2023</time>" in told


def test_how_far_each_channel_is(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "REPORT_EVERY", 0)
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start", "without": ["C2"], "private": "on"})
    upload.refresh_from_db()
    tell = uploads.ProgressReporter(upload)
    seen = [("people", 0), ("general", 4), ("general", 6), ("salaries", 8), ("salaries", 9)]
    for where, n in seen:
        if where in ("general", "salaries"):
            public = where == "general"
            kind = {"slack_id": "C1", "kind": "public"} if public else {"kind": "private"}
            tell.add_folder(ExportFolder(where, **kind))
        tell(n, where)
    upload.refresh_from_db()
    shares = [(one.name, one.kind, one.read, one.of) for one in uploads.channel_progress(upload)]
    assert shares == [("general", "public", 4, 4), ("", "private", 1, 1)]
    told = page(boss, upload)
    assert "#general" in told and "salaries" not in told and "psst" not in told


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
def test_how_long_it_still_takes(seconds: int, seen: int, words: str) -> None:
    upload = Upload(
        state="storing",
        found={"objects": 10000},
        seen=seen,
        begun_at=NOON,
        alive_at=NOON + timedelta(seconds=seconds),
    )
    left = uploads.seconds_left(upload)
    assert (time_left_words(left) if left else "") == words
    upload.state = "paused"
    assert uploads.seconds_left(upload) is None


def test_a_silence_is_told(boss: Client) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    upload.refresh_from_db()
    assert upload.claim(timezone.now()) and "no sign" not in page(boss, upload)
    Upload.objects.update(alive_at=timezone.now() - HEARTBEAT_TIMEOUT - timedelta(seconds=1))
    assert "gives no sign any more" in page(boss, upload)


def test_a_worker_that_is_gone_is_followed_by_another(boss: Client) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    now = timezone.now()
    upload.refresh_from_db()
    assert upload.claim(now) and not upload.claim(now), "one at a time"
    later = now + HEARTBEAT_TIMEOUT + timedelta(seconds=1)
    assert list(Upload.objects.abandoned(later)) == [upload]
    assert uploads.process_upload(upload, later) == Workspace.objects.get()
    assert upload.state == "done"


def test_one_that_kills_its_workers_waits_for_a_person(boss: Client) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    Upload.objects.update(attempts=MAX_ATTEMPTS)
    import_upload(upload.pk)
    assert "went away each time" in page(boss, upload)
    boss.post(here(upload), {"do": "retry"})
    import_upload(upload.pk)
    upload.refresh_from_db()
    assert upload.state == "done"


def test_another_teams_export_is_not_mixed_in(boss: Client) -> None:
    WorkspaceFactory(slug="team", team_id="T9")
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    import_upload(upload.pk)
    assert "belongs to the Slack team" in page(boss, upload)
    assert not Message.objects.exists()


@pytest.mark.slow
@pytest.mark.cluster
def test_while_a_sync_stores_it_waits(
    boss: Client, work_area: Path, process_environment: dict[str, str]
) -> None:
    workspace = WorkspaceFactory(slug="team")
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    there = process_environment | {"MEMORYHUB_VAR": str(work_area.parent)}
    with locked_elsewhere(workspace, there):
        import_upload(upload.pk)
    upload.refresh_from_db()
    assert (upload.state, upload.attempts) == ("storing", 0)


def test_a_file_that_nobody_decides_about_goes(boss: Client, work_area: Path) -> None:
    upload = take_in(boss)
    retention()
    assert upload.path.exists()
    Upload.objects.update(changed_at=timezone.now() - UPLOAD_RETENTION - timedelta(hours=1))
    retention()
    upload.refresh_from_db()
    assert (upload.state, upload.path.exists()) == ("cancelled", False)


def test_an_upload_lets_nobody_into_a_private_channel_that_is_known(boss: Client) -> None:
    """An operator would read it without a reason or an end, by an export that they wrote."""

    def salaries() -> set[str]:
        rows = Channel.objects.get(slack_id="G1").memberships
        return set(rows.values_list("person__slack_id", flat=True))

    boss.post(here(take_in(boss)), {"do": "start", "private": "on"})
    import_upload(Upload.objects.latest("pk").pk)
    assert salaries() == {"U1", "U2"}
    day = {"general/2023-11-20": [said(600_000, "later")]}
    people = [person("U1", "Ann"), person("U2", "Bob"), person("U9", "Eve")]
    groups = [channel("G1", "salaries", members=["U1", "U9"])]
    files = export_files(day, people=people, channels=[channel("C1", "general")], groups=groups)
    boss.post(here(take_in(boss, files)), {"do": "start", "private": "on"})
    import_upload(Upload.objects.latest("pk").pk)
    assert salaries() == {"U1"}
