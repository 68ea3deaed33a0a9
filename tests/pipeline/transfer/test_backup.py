"""Backups: a restore brings back every row, and a refused file changes nothing."""

import hashlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from datetime import UTC, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.idp.oidc.models import Client, Token
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ

from memories.models import (
    AccessGrant,
    ApiKey,
    AuditEvent,
    Backfill,
    BackfillChannel,
    Budget,
    ChannelPreference,
    ChannelSync,
    Digest,
    DigestDelivery,
    Draft,
    EarlierWording,
    Endpoint,
    Heartbeat,
    Invitation,
    Memory,
    ModelServer,
    Note,
    Price,
    Proposal,
    QuarantinedLine,
    Seen,
    SlackBudget,
    SlackConnection,
    SlackDigest,
    SlackEvent,
    Upload,
    Webhook,
    WebhookDelivery,
)
from memories.models.search import search_triggers
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.backup import (
    LEFT_OUT,
    DatabaseNotEmpty,
    WorkerRunning,
    back_up,
    check,
    remove_leftovers,
    restore,
    sqlite,
)
from memories.pipeline.transfer.backup.archive import DERIVED
from memories.rules.memory.identity import MemoryType
from tests.databases import MIGRATE_TO, fresh_database, manage
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    make_call,
    make_channel_memory,
    make_job,
    make_segment,
    make_version,
)

pytestmark = pytest.mark.django_db(transaction=True)

on_postgres_too = pytest.mark.postgres("backups copy tables")

HARD = "tab\tline\nbackslash \\N \\. quote \"' 日本語 \U0001f9e0"


@pytest.fixture
def everything() -> Memory:
    """At least one row of each kind, with texts that need escapes."""
    now = timezone.now()
    channel = ChannelFactory(members=[PersonFactory()], topic=HARD)
    workspace = channel.workspace
    messages = [MessageFactory(channel=channel, text=f"{HARD} {i}") for i in range(3)]
    user = MemberFactory(workspace=workspace).user
    key, _ = ApiKey.objects.issue(workspace, name="ci", by=user, user=user, channels=[channel])
    client = Client.objects.create(name="Claude", redirect_uris="https://claude.ai/callback")
    ApiKey.objects.connect(client, user, workspace, now=now)
    user.groups.add(Group.objects.create(name="readers"))
    user.groups.get().permissions.add(Permission.objects.get(codename="view_note"))
    user.user_permissions.add(Permission.objects.get(codename="change_memory"))
    LogEntry.objects.create(
        user=user, content_type=ContentType.objects.get_for_model(Note), action_flag=1
    )
    memory = make_channel_memory(channel=channel, texts=["- one", "- one\n- two", "- three"])
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    segment = make_segment(messages=messages)
    version = make_version(memory=short, text=f"- {HARD}", sources=messages, segment=segment)
    webhook = Webhook.objects.register(key, "https://bot.example.com/")
    WebhookDelivery.objects.enqueue(webhook, [version], now)
    backfill = Backfill.objects.create(workspace=workspace, since_us=0, until_us=9, author=user)
    BackfillChannel.objects.create(backfill=backfill, channel=channel)
    job = make_job(
        memory=memory, inputs=[version], as_of_us=1, reply={"text": HARD}, backfill=backfill
    )
    make_call(job=job, tokens=2**40)
    Price.objects.create(model="tiny", input_price=Decimal("0.1"), output_price=Decimal("0.3"))
    Budget.objects.create(workspace=workspace, period=Budget.Period.DAY, tokens=5)
    Endpoint.objects.create(fingerprint="f", name="tiny", worst_ratio=1.1, fault_text=HARD)
    AuditEvent.objects.record("settings", by=user, workspace=workspace, what=HARD)
    note = NoteFactory(workspace=workspace, content=HARD, author=user)
    note.rewrite(f"{HARD}, again", by=user)
    ChannelSync.objects.create(channel=channel, synced_ts="1.0", error_text=HARD)
    SlackConnection.objects.create(workspace=workspace, encrypted_token=HARD, scopes=["a"])
    SlackBudget.objects.create(token_key="k", method="m", calls_left=1.5, counted_at=now)
    SlackEvent.objects.create(event_id="E1", team_id="T1", kind="message", body=HARD)
    AccessGrant.objects.create(user=user, channel=channel, reason=HARD, until=now)
    Seen.objects.of(user, memory).mark(2, now)
    ChannelPreference.objects.choose(user, channel, "follow")
    ModelServer.objects.create(model="tiny", encrypted_key=HARD)
    Invitation.objects.create(
        workspace=workspace, role="member", digest="d", created_by=user, expires_at=now
    )
    Draft.objects.create(user=user, memory=memory, text=HARD, based_on=2, revision=0, at=now)
    digest = Digest.objects.create(user=user, frequency="daily", next_at=now)
    DigestDelivery.objects.enqueue(digest, [workspace], now.date(), now)
    SlackDigest.objects.choose(channel, "daily", now, UTC)
    Upload.objects.begin("f" * 32, slug="other", name=HARD, size=7, by=user)
    held_back = QuarantinedLine.objects.create(memory=memory, text=HARD, rule="link")
    held_back.sources.set(messages)
    Proposal.objects.propose(version, None, HARD, sources=messages, author=user, api_key=key)
    EmailAddress.objects.create(user=user, email="mika@example.org", verified=True)
    SocialAccount.objects.create(user=user, provider="slack", uid="U1", extra_data={"a": HARD})
    Authenticator.objects.create(user=user, type="totp", data={"secret": HARD})
    EarlierWording.objects.keep(version)
    call_command("sync_schedules", verbosity=0)
    # Rows that a backup leaves out.
    Token.objects.create(type="at", hash="h", client=client, user=user)
    Session.objects.create(session_key="open", session_data="", expire_date=now)
    OrmQ.objects.create(key="memoryhub", payload="…", lock=now)
    Heartbeat.objects.beat("long ago", now - timedelta(hours=1))
    memory.refresh_from_db()
    return memory


def rows() -> dict[str, list[dict[str, Any]]]:
    """Return all rows of the database by table."""
    tables = {}
    with connection.cursor() as cursor:
        for name in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(name)}")
            if name.startswith(DERIVED):
                continue
            columns = [column[0] for column in cursor.description]
            lines = (dict(zip(columns, map(repr, row), strict=True)) for row in cursor.fetchall())
            tables[name] = sorted(lines, key=lambda line: sorted(line.items()))
    tables.pop("django_migrations")  # it contains the time of the migration
    return tables


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "of today.zip"


@pytest.mark.slow
@on_postgres_too
def test_a_restore_brings_back_every_row(everything: Memory, path: Path) -> None:
    """The triggers of the search are there again, and ids of deleted rows are not used again."""
    deleted = NoteFactory(workspace=everything.workspace)
    deleted_key = deleted.pk
    deleted.delete()
    before = rows()
    empty = [name for name, lines in before.items() if not lines]
    unused = {"django_q_task", "memoryhub_cache", "account_emailconfirmation"}
    unused |= {f"socialaccount_social{kind}" for kind in ("app", "token", "app_sites")}
    assert set(empty) <= unused, "there is a row of each kind"
    report = back_up(path, timezone.now())
    assert report.manifest.rows == sum(len(v) for k, v in before.items() if k not in LEFT_OUT) + (
        report.manifest.tables["django_migrations"].rows if connection.vendor == "sqlite" else 0
    )
    event = AuditEvent.objects.get(action="backup")
    assert (event.actor, event.subject) == ("", path.name)
    assert check(path).migrated == 0
    call_command("flush", interactive=False, verbosity=0)
    cache.clear()  # flush does not clear it, and another test may have filled it
    assert restore(path, timezone.now()).warnings == []
    after = rows()
    assert {k: v for k, v in after.items() if k in LEFT_OUT} == {name: [] for name in LEFT_OUT}
    records = [line for line in after["memories_auditevent"] if "restore" in line["action"]]
    assert len(records) == 1
    after["memories_auditevent"].remove(records[0])
    assert after == {**before, **{name: [] for name in LEFT_OUT}}
    assert not search_triggers.install(connection)
    assert NoteFactory(workspace=Note.objects.first().workspace).pk > deleted_key
    memory = Memory.objects.get(pk=everything.pk)
    assert memory.revise("- by hand", by=None, based_on=memory.current.number).number == 4


@pytest.mark.slow
@on_postgres_too
def test_a_backup_is_a_snapshot_during_writes(
    everything: Memory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the backup waits until another connection saves a version.

    A restore replaces an existing database only on request.
    """
    monkeypatch.setattr(sqlite, "PAGES", 20)
    saved: list[str] = []

    def save() -> None:
        try:
            memory = Memory.objects.get(pk=everything.pk)
            text = f"- meanwhile {memory.head}"
            memory.revise(text, by=None, based_on=memory.current.number)
            saved.append(text)
        finally:
            connection.close()

    def on_progress(what: str, done: int, total: int) -> None:
        if what in ("copied", "tables copied") and len(saved) < 8:
            writer = threading.Thread(target=save)
            writer.start()
            writer.join()

    back_up(path, timezone.now(), on_progress=on_progress)
    assert len(saved) == 8, "the backup blocked nobody"
    before = rows()
    with pytest.raises(DatabaseNotEmpty):
        restore(path, timezone.now())
    assert rows() == before
    restore(path, timezone.now(), replace=True)
    memory = Memory.objects.get(pk=everything.pk)
    assert memory.head == everything.head
    assert not memory.versions.filter(content__in=saved).exists()


def test_a_running_worker_prevents_a_restore(everything: Memory, path: Path) -> None:
    back_up(path, timezone.now())
    now = timezone.now()
    Heartbeat.objects.beat("worker", now - timedelta(seconds=110))
    before = rows()
    with pytest.raises(WorkerRunning):
        restore(path, now, replace=True)
    assert rows() == before
    restore(path, now + timedelta(seconds=11), replace=True)


@on_postgres_too
@pytest.mark.slow
@pytest.mark.nightly("migrations are tested by themselves")
@pytest.mark.parametrize(
    "words",
    [("migrate", "socialaccount", "0005"), ("shell", "-c", MIGRATE_TO % "0014_plain_column_names")],
    ids=["another app", "a part of what was squashed"],
)
def test_an_older_backup_is_migrated(
    tmp_path: Path, database_url: str, words: tuple[str, ...]
) -> None:
    """The backup lacks some migrations, and the target database has no table."""
    path = tmp_path / "old.zip"
    with fresh_database(database_url) as old:
        if words[0] == "migrate":
            assert manage(old, tmp_path, "migrate").returncode == 0
        done = manage(old, tmp_path, *words)
        assert done.returncode == 0, done.stderr
        done = manage(old, tmp_path, "backup", str(path), "--json")
        assert done.returncode == 0, done.stderr
    with fresh_database(database_url) as new:
        done = manage(new, tmp_path, "restore", str(path), "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["migrated"] >= 1
        assert manage(new, tmp_path, "migrate", "--check").returncode == 0


# Damaged files


def rewrite(
    path: Path,
    *,
    manifest: Callable[[dict[str, Any]], object] = lambda whole: None,
    member: Callable[[str, bytes], bytes] = lambda name, data: data,
    hashes: bool = False,
    more: dict[str, bytes] | None = None,
    without: str = "",
) -> None:
    """Write the file again with changes. ``hashes`` updates the manifest."""
    with zipfile.ZipFile(path) as zipped:
        members = {name: zipped.read(name) for name in zipped.namelist()}
    whole = json.loads(members.pop("manifest.json"))
    members = {name: member(name, data) for name, data in members.items()} | (more or {})
    members = {name: data for name, data in members.items() if not without or without not in name}
    if hashes:
        whole["files"] = [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in members.items()
        ]
    manifest(whole)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)
        zipped.writestr("manifest.json", json.dumps(whole))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def cut_inside(path: Path) -> None:
    """Damage the middle. The directory of the zip at its end stays."""
    data = path.read_bytes()
    path.write_bytes(data[:500] + bytes(100) + data[600:])


def cut_inside_lzma(path: Path) -> None:
    """Damage a member that is compressed in another way."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as zipped:
        zipped.writestr("manifest.json", json.dumps({"format": "x" * 5000}))
    data = path.read_bytes()
    path.write_bytes(data[:60] + b"\xff" * 20 + data[80:])


def another_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("channels.json", "[]")


def manifest_of_words(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("manifest.json", "[1, 2")


def shorter(name: str, data: bytes) -> bytes:
    return data[:-1] if data else data


def newer(whole: dict[str, Any]) -> None:
    whole["migrations"].append(["memories", "9999_from_the_future"])


def other_vendor(whole: dict[str, Any]) -> None:
    whole["vendor"] = {"sqlite": "postgresql"}.get(whole["vendor"], "sqlite")


def one_row_more(whole: dict[str, Any]) -> None:
    whole["tables"]["memories_memory"]["rows"] += 1


def no_tables(whole: dict[str, Any]) -> None:
    whole["tables"] = {}


def orphans(name: str, data: bytes) -> bytes:
    """Make lines point to missing versions."""
    if name == "database.sqlite3":
        opened = sqlite3.connect(":memory:")
        opened.deserialize(data)
        opened.execute("UPDATE memories_line SET version_id = version_id + 4711")
        opened.commit()
        return opened.serialize()
    if name == "tables/memories_memoryversion.copy":
        return b"4711471" + data[data.index(b"\t") :]
    return data


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (Path.unlink, "There is no such file"),
    "no zip": (
        lambda path: path.write_text("hello"),
        "This is no backup of Memory Hub, or it is damaged",
    ),
    "another zip": (another_zip, "has no manifest.json: this is no backup"),
    "cut off": (cut_off, "This is no backup of Memory Hub, or it is damaged"),
    "a hole": (cut_inside, "is damaged|differs from what was written"),
    "a hole in LZMA": (cut_inside_lzma, "damaged"),
    "no JSON": (manifest_of_words, "manifest.json: is no JSON"),
    "a list": (
        lambda p: rewrite(p, manifest=lambda whole: whole.update(tables=[])),
        "manifest.json: is not the manifest of a backup",
    ),
    "foreign": (
        lambda p: rewrite(p, manifest=lambda whole: whole.update(format="other")),
        "this is no backup",
    ),
    "newer format": (
        lambda p: rewrite(p, manifest=lambda whole: whole.update(format_version=2)),
        "is of version 2 of the format",
    ),
    "newer": (lambda p: rewrite(p, manifest=newer), "newer than this program.*9999_from"),
    "other database": (lambda p: rewrite(p, manifest=other_vendor), "This backup is of"),
    "tampered": (lambda p: rewrite(p, member=shorter), "differs from what was written"),
    "member missing": (
        lambda p: rewrite(p, without="memor" if connection.vendor != "sqlite" else "data"),
        "is missing",
    ),
    "member not listed": (
        lambda p: rewrite(
            p, without="memor" if connection.vendor != "sqlite" else "data", hashes=True
        ),
        "is missing|number of rows|do not match",
    ),
    "member too many": (lambda p: rewrite(p, more={"x": b"x"}), "x: is not listed"),
    "miscounted": (lambda p: rewrite(p, manifest=one_row_more), "number of rows in this backup"),
    "no tables": (lambda p: rewrite(p, manifest=no_tables), "number of rows|do not match"),
    "no migrations": (
        lambda p: rewrite(p, manifest=lambda whole: whole.update(migrations=[])),
        "migrations of the database|do not match",
    ),
    "orphans": (lambda p: rewrite(p, member=orphans, hashes=True), "refer to rows"),
}


@pytest.mark.slow
def test_a_bad_file_changes_nothing(everything: Memory, path: Path, tmp_path: Path) -> None:
    """Nor does a check, of a good or a bad file."""
    back_up(path, timezone.now())
    everything.revise("- written since", by=None, based_on=3)
    before = rows()
    check(path)
    unexpected: dict[str, object] = {}
    for case, (spoil, sentence) in WRONG.items():
        bad = Path(shutil.copy(path, tmp_path / "bad.zip"))
        spoil(bad)
        message = refusal(restore, bad, timezone.now(), replace=True)
        if message is None or not re.search(sentence, message):
            unexpected[case] = message
        if case in ("cut off", "tampered", "newer"):
            assert re.search(sentence, refusal(check, bad) or "")
    assert not unexpected
    assert rows() == before


def refusal(act: Callable[..., object], *arguments: Any, **more: Any) -> str | None:
    try:
        act(*arguments, **more)
    except ArchiveError as error:
        return str(error)
    return None


# Inconsistent memories


def head_too_high(memory: Memory) -> None:
    Memory.objects.filter(pk=memory.pk).update(head=9)


def gap(memory: Memory) -> None:
    memory.versions.get(number=2).delete()


def anothers_text(memory: Memory) -> None:
    others = Memory.objects.exclude(pk=memory.pk).exclude(current=None)
    Memory.objects.filter(pk=memory.pk).update(current=others.get().current)


def no_current(memory: Memory) -> None:
    Memory.objects.filter(pk=memory.pk).update(current=None)


WRONG_MEMORIES: list[tuple[Callable[[Memory], None], str]] = [
    (gap, "with a gap in their versions"),
    (anothers_text, "whose current version is not one of theirs"),
    (no_current, "whose current version is not one of theirs"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("spoil", "sentence"), WRONG_MEMORIES)
def test_inconsistent_memories_are_refused(
    everything: Memory, path: Path, spoil: Callable[[Memory], None], sentence: str
) -> None:
    spoil(everything)
    back_up(path, timezone.now())
    with pytest.raises(ArchiveError, match=f"1 memories {sentence} \\({everything.pk}\\)"):
        check(path)


@pytest.mark.slow
def test_with_force_inconsistent_memories_are_a_warning(everything: Memory, path: Path) -> None:
    head_too_high(everything)
    back_up(path, timezone.now())
    before = rows()
    with pytest.raises(ArchiveError, match="are inconsistent"):
        restore(path, timezone.now(), replace=True)
    assert rows() == before
    [warning] = restore(path, timezone.now(), replace=True, force=True).warnings
    assert f"1 memories whose newest version is not their head ({everything.pk})" in warning
    assert Memory.objects.get(pk=everything.pk).head == 9


@pytest.mark.slow
def test_an_empty_database_has_nothing_to_back_up(tmp_path: Path, database_url: str) -> None:
    with fresh_database(database_url) as url:
        done = manage(url, tmp_path, "backup", str(tmp_path / "none.zip"))
    assert done.returncode == 1
    assert "nothing to back up" in done.stderr
    assert not (tmp_path / "none.zip").exists()


# Killed restores

KILLED = """
import os, signal
from pathlib import Path
import django
django.setup()
from django.utils import timezone
from memories.pipeline.transfer import backup
backup.migrations.migrate = lambda: os.kill(os.getpid(), signal.SIGKILL)
backup.restore(Path(os.environ["FILE"]), timezone.now(), replace=True)
"""


@pytest.mark.sqlite("PostgreSQL rolls back and leaves no file")
@pytest.mark.cluster
def test_leftovers_of_a_killed_restore_are_removed(
    process_environment: dict[str, str], tmp_path: Path
) -> None:
    """A copy is left in a folder beside the database."""
    folder = Path(connection.settings_dict["NAME"]).parent
    path = tmp_path / "today.zip"
    back_up(path, timezone.now())
    with sqlite._folder(folder) as in_use:
        killed = subprocess.run(
            [sys.executable, "-c", KILLED],
            env=process_environment
            | {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", "FILE": str(path)},
        )
        assert killed.returncode == -signal.SIGKILL
        assert len(list(folder.glob(".memoryhub-backup-*"))) == 2
        remove_leftovers()
        assert list(folder.glob(".memoryhub-backup-*")) == [in_use]
    check(path)
    assert not list(folder.glob(".memoryhub-backup-*"))
