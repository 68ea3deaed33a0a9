"""`manage.py upgrade_check`, and an upgrade while others read."""

import os
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memories.models import AuditEvent, Heartbeat, Line
from memories.rules.transfer.upgrade import find_upgrade_problems
from tests.databases import MIGRATE_TO, connect, fresh_database, manage
from tests.factories import ChannelFactory, make_channel_memory

NOW = datetime(2026, 11, 25, tzinfo=UTC)
DAY = timedelta(days=1)
NEWER = ("memories", "9999_newer")


@pytest.mark.parametrize(
    ("signals", "problems"),
    [
        ({}, []),
        ({"free_bytes": None}, []),
        ({"free_bytes": 1_999}, ["Only 1,999 bytes are free"]),
        ({"last_backup": None}, ["There is no backup yet."]),
        ({"last_backup": NOW - 3 * DAY}, ["The last backup is more than 3 days old."]),
        ({"last_backup": None, "free_bytes": 0}, ["Only 0 bytes", "There is no backup"]),
        ({"last_beat": NOW - timedelta(seconds=119)}, ["A worker had a heartbeat"]),
        ({"last_beat": NOW - timedelta(seconds=121)}, []),
        ({"last_backup": None, "free_bytes": 0, "pending": 0, "last_beat": NOW}, []),
        ({"unknown": [NEWER], "pending": 0}, ["The database is newer than this program"]),
    ],
)
def test_problems(signals: dict[str, object], problems: list[str]) -> None:
    well = {"unknown": [], "pending": 1, "database_bytes": 1_000, "free_bytes": 2_000}
    well["last_beat"] = None
    texts = find_upgrade_problems(NOW, **{**well, "last_backup": NOW - DAY, **signals})  # type: ignore[arg-type]
    assert len(texts) == len(problems)
    assert all(text.startswith(start) for text, start in zip(texts, problems, strict=True))


@pytest.mark.django_db
def test_a_current_database_needs_nothing() -> None:
    out = StringIO()
    AuditEvent.objects.record("backup", by=None)
    call_command("upgrade_check", stdout=out)
    assert "Migrations to run: 0" in out.getvalue()
    assert out.getvalue().endswith("Nothing to do.\n")


@pytest.mark.django_db
def test_an_older_database_shows_what_changes() -> None:
    make_channel_memory(channel=ChannelFactory(), texts=["- We launch on Monday", "- Or later"])
    names = [
        *("0019_line_outcome", "0020_note_written_by", "0021_related_names"),
        *("0022_pass_due_at", "0023_quarantine_waiting", "0024_budget"),
        "0025_half_open_until",
    ]
    for name in names:
        MigrationRecorder(connection).record_unapplied("memories", name)
    out = StringIO()
    with pytest.raises(CommandError, match="There is no backup yet"):
        call_command("upgrade_check", stdout=out)
    assert f"Migrations to run: {len(names)}\n" in out.getvalue()
    rows = Line.objects.count()
    assert f"memories.0019_line_outcome: {rows} rows in the tables" in out.getvalue()
    AuditEvent.objects.record("backup", by=None)
    Heartbeat.objects.beat("worker", timezone.now())
    with pytest.raises(CommandError, match="A worker had a heartbeat"):
        call_command("upgrade_check", stdout=out)
    Heartbeat.objects.all().delete()
    call_command("upgrade_check", stdout=out)
    assert out.getvalue().endswith("Ready: run `migrate`.\n")


@pytest.mark.django_db
@pytest.mark.parametrize("command", ["upgrade_check", "migrate", "worker", "socket", "serve"])
def test_a_newer_database_is_refused(command: str, settings: Any) -> None:
    settings.SLACK_APP_TOKEN = "xapp-1"
    MigrationRecorder(connection).record_applied(*NEWER)
    options = ["--port=0"] if command == "serve" else []
    with pytest.raises(CommandError, match=r"newer than this program.*memories\.9999_newer"):
        call_command(command, *options, stdout=StringIO(), stderr=StringIO())


FILL = """
from django.db import connection
from django.db.migrations.loader import MigrationLoader
loader = MigrationLoader(connection, replace_migrations=False)
apps = loader.project_state([("memories", "0001_initial")]).apps
Workspace, Channel, Message = (
    apps.get_model("memories", name) for name in ("Workspace", "Channel", "Message")
)
team = Workspace.objects.create(slug="team", name="team")
channel = Channel.objects.create(
    workspace=team, slack_id="C1", name="general", walk_top_ts="5.000000", sync_text="no answer"
)
Message.objects.bulk_create(
    [Message(channel=channel, ts=f"{n}.000000", micros=n, text="x" * 500) for n in range(2_000)],
    batch_size=500,
)
"""


@pytest.mark.nightly("runs all migrations on a filled database, and changes with them alone")
@pytest.mark.django_db
@pytest.mark.postgres("locks of a table that a migration changes")
def test_an_old_database_migrates_during_reads(tmp_path: Path) -> None:
    """A read waits for a migration that changes its table, and fails on neither database."""
    beside = os.environ.get("DATABASE_URL", "")
    with fresh_database(beside) as url:

        def run(*words: str, status: int = 0) -> str:
            done = manage(url, tmp_path / "var", *words)
            assert done.returncode == status, done.stderr
            return done.stdout + done.stderr

        run("shell", "-v0", "-c", MIGRATE_TO % "0001_initial")
        run("shell", "-v0", "-c", FILL)
        report = run("upgrade_check", status=1)
        assert "memories.0002_channelsync" in report and "There is no backup yet." in report
        stop, reads, errors = threading.Event(), [0], []

        def read() -> None:
            with closing(_connect(url)) as reader:
                while not stop.wait(0.01):  # the upgrade needs the processor, too
                    try:
                        rows = reader.execute("SELECT count(*), max(micros) FROM memories_message")
                        assert rows.fetchone() == (2_000, 1_999)
                        reads[0] += 1
                    except (AssertionError, sqlite3.Error, psycopg.Error) as error:
                        errors.append(repr(error))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            run("migrate", "-v0")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert errors == [] and reads[0] > 100
        assert "Migrations to run: 0" in run("upgrade_check")
        with closing(_connect(url)) as database:
            if isinstance(database, sqlite3.Connection):
                assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert database.execute("PRAGMA foreign_key_check").fetchall() == []
            count = database.execute("SELECT count(*) FROM memories_message")
            assert count.fetchone() == (2_000,)
            sync = database.execute(
                "SELECT history_newest_ts, error_text FROM memories_channelsync"
            )
            assert sync.fetchall() == [("5.000000", "no answer")]


def _connect(url: str) -> sqlite3.Connection | psycopg.Connection:
    """Return a connection that waits for a lock for 30 seconds at most."""
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
    connection = connect(url)
    connection.execute("SET statement_timeout = '30s'")
    return connection
