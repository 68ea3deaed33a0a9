"""Output, exit status and files of `manage.py backup` and `manage.py restore`."""

import errno
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memories.models import AuditEvent, Heartbeat, Note, Reader, Workspace
from memories.pipeline.search import indexing
from memories.pipeline.search.finding import find
from memories.rules.search.query import parse
from tests.commands.conftest import Run
from tests.factories import NoteFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "of today.zip"


def refused(*words: object) -> str:
    with pytest.raises(CommandError) as error:
        call_command(*map(str, words))
    assert error.value.returncode == 1
    return str(error.value)


def test_output_of_a_backup(run: Run, path: Path) -> None:
    NoteFactory(content="a private thing")
    message = run("backup", path)
    assert message.startswith(f"{path}: ")
    assert "SECRET_KEY and .env are not in it" in message
    assert "a private thing" not in message


def test_only_the_owner_may_read_the_file(run: Run, path: Path) -> None:
    before = os.umask(0)
    try:
        run("backup", path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name], "there is no other file"


def test_a_file_is_overwritten_only_with_force(run: Run, path: Path) -> None:
    path.write_text("something else")
    assert "--force overwrites it" in refused("backup", path)
    assert path.read_text() == "something else"
    run("backup", path, "--force")
    assert path.read_bytes()[:2] == b"PK"


def test_a_missing_folder_is_reported(path: Path) -> None:
    message = refused("backup", path / "deeper" / "b.zip")
    assert os.strerror(errno.ENOENT) in message or os.strerror(errno.ENOTDIR) in message
    assert not path.exists()


@pytest.mark.slow
def test_output_of_a_check_and_a_restore(run: Run, path: Path) -> None:
    """The index of the search is that of the backup, caught up."""
    note = NoteFactory(content="kept")
    indexing.index_pending()
    waiting = NoteFactory(workspace=note.workspace, content="kept, but not indexed")
    run("backup", path)
    assert "can be restored" in run("restore", path, "--check")
    assert "--replace" in refused("restore", path)
    Note.objects.all().delete()
    indexing.index_pending()
    assert "Restored. Everybody must sign in again." in run("restore", path, "--replace")
    assert not indexing.is_behind()
    groups = find(parse("kept"), note.workspace, Reader.public(timezone.now()), []).groups
    assert {row.pk for group in groups for row in group.rows} == {note.pk, waiting.pk}


@pytest.mark.slow
def test_a_running_worker_prevents_a_restore(run: Run, path: Path) -> None:
    Workspace.objects.create(slug="before")
    run("backup", path)
    Heartbeat.objects.beat("worker", timezone.now() + timedelta(minutes=1))
    assert "A worker had a heartbeat" in refused("restore", path, "--replace")
    run("restore", path, "--replace", "--force")
    assert AuditEvent.objects.filter(action="restore").count() == 1


def test_a_damaged_file_is_named_with_its_fault(path: Path) -> None:
    path.write_text("hello")
    for words in (["--check"], ["--replace"], []):
        message = refused("restore", path, *words)
        assert message.startswith(f"{path}: This is no backup of Memory Hub")
        assert message.endswith("Nothing was changed.")


@pytest.mark.slow
def test_json(run: Run, path: Path) -> None:
    NoteFactory()
    made = json.loads(run("backup", path, "--json"))
    assert made["file"] == path.name
    assert made["bytes"] == path.stat().st_size
    counts: dict[str, Any] = {each["table"]: each["rows"] for each in made["tables"]}
    assert (counts["memories_note"], sum(counts.values())) == (1, made["rows"])
    assert not set(counts) & set(made["left_out"])
    same = ("file", "bytes", "database", "version", "created_at", "rows", "tables", "left_out")
    for words, restored in ((["--check"], False), (["--replace"], True)):
        read = json.loads(run("restore", path, *words, "--json"))
        assert {key: read[key] for key in same} == {key: made[key] for key in same}
        assert (read["restored"], read["migrated"], read["warnings"]) == (restored, 0, [])
