"""`manage.py run_pass`: the messages that it sees as of `--now`, and its output."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.utils import timezone

from memories.models import Workspace
from memories.rules.ingest.timestamps import to_micros
from tests.databases import manage
from tests.factories import MONDAY, ChannelFactory, MessageFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db


def run(**options):
    out = StringIO()
    call_command("run_pass", stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def channel():
    channel = ChannelFactory(workspace__slug="team")
    channel.remember_from(to_micros(MONDAY))
    for minute in range(12):
        text = f"We decided that part {minute} ships on Friday."
        MessageFactory(channel=channel, at=MONDAY + timedelta(minutes=minute), text=text)
    return channel


def at(hours):
    return (MONDAY + timedelta(hours=hours)).isoformat()


@pytest.mark.slow
def test_json_is_one_document_with_the_whole_report(channel):
    report = json.loads(run(now=at(3), json=True))
    assert isinstance(report.pop("seconds"), float)
    assert report == {
        "workspace": "team",
        "now": "2026-01-05T12:00:00+00:00",
        "closed": {"idle": 1},
        "made": {
            **{"channel short_term": 1, "channel long_term": 1},
            **{"workspace short_term": 1, "workspace long_term": 1},
        },
        "skipped": {},
        "waiting": [],
        "errors": [],
        "left": 0,
        "refusals": [],
        "calls": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
    }


@pytest.mark.slow
def test_output_lists_waiting_channels_and_reasons(channel):
    run(now=at(3))
    MessageFactory(channel=channel, at=MONDAY + timedelta(hours=4))
    output = run(now=at(5))
    assert f"{channel.slack_id}: 1 of 50 new, quiet for 60 min" in output
    assert "new versions:     none" in output


@pytest.mark.slow
def test_a_time_without_zone_is_utc(channel):
    assert json.loads(run(now="2026-01-05T12:00:00", json=True))["now"].endswith("12:00:00+00:00")


@pytest.mark.parametrize("now", ["yesterday", "2026-13-45T00:00:00Z", "9999-12-31T23:00:00-12:00"])
def test_an_invalid_time_is_refused(channel, now):
    with pytest.raises(CommandError, match="--now"):
        run(now=now)


@pytest.mark.slow
def test_a_time_in_the_future_needs_force(channel):
    later = (timezone.now() + timedelta(hours=3)).isoformat()
    with pytest.raises(CommandError, match="future.*--force"):
        run(now=later)
    assert not channel.segments.exists()
    run(now=later, force=True)
    assert channel.segments.exists()


@pytest.mark.slow
def test_several_workspaces_need_an_explicit_choice(channel):
    WorkspaceFactory(slug="other")
    with pytest.raises(CommandError, match="other, team"):
        run()
    assert "Workspace team" in run(workspace="team", now=at(3))
    with pytest.raises(CommandError, match="no workspace 'nowhere'"):
        run(workspace="nowhere")


def test_the_default_workspace_is_created():
    run()
    assert Workspace.objects.get().slug == "default"


def test_a_connected_workspace_counts_up_to_its_last_sync(channel):
    Workspace.objects.update(connected_at=MONDAY, synced_at=MONDAY + timedelta(hours=1))
    assert json.loads(run(json=True))["now"] == "2026-01-05T10:00:00+00:00"
    Workspace.objects.update(synced_at=None)
    with pytest.raises(CommandError, match="never read completely"):
        run()


@pytest.mark.slow
def test_an_empty_database_needs_migrate(tmp_path):
    done = manage(f"sqlite:///{tmp_path}/empty.sqlite3", tmp_path, "run_pass")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "CommandError: The database cannot be read: run `manage.py migrate`"
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["run_pass", "sync", "migrate", "worker"])
def test_a_database_that_is_down_is_reported_in_one_line(tmp_path, arguments):
    done = manage("postgres://mika:s3cret@127.0.0.1:1/hub", tmp_path, arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("The database does not answer: connection failed: ")
    assert done.stderr.endswith("Check that it runs, and DATABASE_URL.\n")
    assert done.stderr.count("\n") == 1 and "s3cret" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "costs",
        "jobs",
        "export new.zip --as mika",
        "mfa_reset mika",
        "probe_model",
        "rotate_keys",
        "sync_schedules",
        "upgrade_check",
    ],
)
def test_a_command_without_a_database_says_what_to_do(arguments):
    def refuse(*_args):
        raise OperationalError("no such table")

    with connection.execute_wrapper(refuse), pytest.raises(CommandError, match="cannot be read"):
        call_command(*arguments.split())


@pytest.mark.parametrize(
    ("arguments", "statement"),
    [
        ("costs price tiny 1 2", "INSERT"),
        ("jobs", 'FROM "memories_job"'),
        ("rotate_keys", 'FROM "memories_slackconnection"'),
        ("sync_schedules", "INSERT"),
    ],
)
def test_another_error_of_the_database_is_not_answered_with_migrate(arguments, statement):
    with refused(statement), pytest.raises(OperationalError, match="locked"):
        call_command(*arguments.split())


def test_pending_migrations_do_not_hide_another_error_of_upgrade_check(monkeypatch):
    monkeypatch.setattr("memories.management.arguments.unapplied_migrations", lambda: 1)
    with refused('FROM "memories_heartbeat"'), pytest.raises(OperationalError, match="locked"):
        call_command("upgrade_check")


def refused(statement):
    """Return a context in which queries with this text find a lock."""

    def refuse(execute, sql, *others):
        if statement in sql:
            raise OperationalError("database is locked")
        return execute(sql, *others)

    return connection.execute_wrapper(refuse)
