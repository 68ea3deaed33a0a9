"""A Slack export from a page: taken in, looked into, chosen from, stored, and told of."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from memories.jobs import import_upload, retention
from memories.models import AuditEvent, Channel, Message, Person, Upload, Workspace
from memories.models.uploads import KEPT, MOST_ATTEMPTS, SILENCE
from memories.pipeline import uploads
from tests.factories import UserFactory, WorkspaceFactory
from tests.hostilezips import packed, with_link
from tests.pipeline.test_locks import held_elsewhere
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
    for words in ("2023-11-14 – 2023-11-16", "#general", "#random", "1, with 1 messages"):
        assert words in found
    assert "E-mail addresses:" in found and "Files: 1 message" in found
    assert "salaries" not in found, "the name of a private channel is not every operator's to see"
    assert "general/2023-11-16.json</code>:3" in found and "…/2023-11-16.json" in found
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
    assert "skipped: not chosen: 1" in told and "skipped: direct messages: 1" in told
    assert 'href="/w/team/catch-up/"' in told and 'href="/w/team/backfill/?quote=1"' in told
    assert not list(work_area.iterdir())
    actions = list(AuditEvent.objects.filter(actor="boss").values_list("action", flat=True))
    assert sorted(actions) == ["login", "upload", "upload_start"]
    assert Person.objects.count() == 2


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
        (packed({"../users.json": b"[]"}), "names a place outside"),
        (with_link(FILES, "general/2023-11-20.json", "/etc/passwd"), "holds a link"),
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
    assert part.status_code == 422 and part.content.decode().startswith("<form")
    assert not Upload.objects.exists() and not list(work_area.glob("*"))


def test_too_large(boss: Client, work_area: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("memoryhub.uploads.LARGEST", "memories.views.imports.LARGEST"):
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


def test_cancelled_while_it_is_stored(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    assert "Cancel the import?" in page(boss, upload, "?ask=cancel")
    monkeypatch.setattr(uploads, "TELL_EVERY", 0)
    upload.refresh_from_db()
    assert upload.claim(timezone.now())
    boss.post(here(upload), {"do": "cancel"})
    assert not upload.is_wanted(3, timezone.now())
    assert "Cancelled." in page(boss, upload) and not upload.path.exists()


def test_a_worker_that_is_gone_is_followed_by_another(boss: Client) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    now = timezone.now()
    upload.refresh_from_db()
    assert upload.claim(now) and not upload.claim(now), "one at a time"
    later = now + SILENCE + timedelta(seconds=1)
    assert list(Upload.objects.left_alone(later)) == [upload]
    assert uploads.work_on(upload, later) == Workspace.objects.get()
    assert upload.state == "done"


def test_one_that_kills_its_workers_waits_for_a_person(boss: Client) -> None:
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    Upload.objects.update(attempts=MOST_ATTEMPTS)
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


@pytest.mark.cluster
def test_while_a_sync_stores_it_waits(
    boss: Client, work_area: Path, process_environment: dict[str, str]
) -> None:
    workspace = WorkspaceFactory(slug="team")
    upload = take_in(boss)
    boss.post(here(upload), {"do": "start"})
    there = process_environment | {"MEMORYHUB_VAR": str(work_area.parent)}
    with held_elsewhere(workspace, there):
        import_upload(upload.pk)
    upload.refresh_from_db()
    assert (upload.state, upload.attempts) == ("storing", 0)


def test_a_file_that_nobody_decides_about_goes(boss: Client, work_area: Path) -> None:
    upload = take_in(boss)
    retention()
    assert upload.path.exists()
    Upload.objects.update(changed_at=timezone.now() - KEPT - timedelta(hours=1))
    retention()
    upload.refresh_from_db()
    assert (upload.state, upload.path.exists()) == ("cancelled", False)
