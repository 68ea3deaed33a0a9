"""Landed migrations never change, and data migrations copy every value in both directions."""

import json
from pathlib import Path

import pytest

from tests import landed
from tests.databases import fresh_database, manage


def test_landed_migrations_are_unedited() -> None:
    now = landed.present()
    edited = [name for name, digest in landed.landed().items() if now.get(name) != digest]
    assert not edited, "put the change into a new migration"


def test_every_migration_is_on_the_list() -> None:
    missing = landed.present().keys() - landed.landed().keys()
    assert not missing, "run `make landed` before you commit a migration"


# A channel with another value in each field of its sync state, and a channel without a row.
CREATE = """
from datetime import UTC, datetime
from memories.models import Channel, ChannelSync, Workspace
team = Workspace.objects.create(slug="team", name="team")
synced, unsynced = (Channel.objects.create(workspace=team, slack_id=key) for key in ("C1", "C2"))
fields = [f for f in ChannelSync._meta.fields if f.name not in ("id", "channel")]
moments = {f.name: datetime(2026, 1, i, tzinfo=UTC) for i, f in enumerate(fields, 1) if f.null}
texts = {f.name: f.name[:20] for f in fields if not f.null}
ChannelSync.objects.create(channel=synced, **moments, **texts)
"""
READ_NEW = """
import json
from memories.models import ChannelSync
rows = ChannelSync.objects.values()
print(json.dumps([{k: v for k, v in row.items() if k != "id"} for row in rows], default=str))
"""
READ_OLD = """
import json
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT walk_top_ts, sync_text, turn_at FROM memories_channel ORDER BY slack_id")
    print(json.dumps(cursor.fetchall(), default=str))
"""


@pytest.mark.slow
@pytest.mark.postgres("it changes a table after it reads it")
def test_sync_state_moves_to_a_table_of_its_own_and_back(tmp_path: Path, database_url: str) -> None:
    with fresh_database(database_url) as url:

        def run(*words: str) -> str:
            done = manage(url, tmp_path, *words)
            assert done.returncode == 0, done.stderr
            return done.stdout

        run("migrate")
        run("shell", "-v0", "-c", CREATE)
        before = json.loads(run("shell", "-v0", "-c", READ_NEW))
        run("migrate", "memories", "0001")
        synced, unsynced = json.loads(run("shell", "-v0", "-c", READ_OLD))
        run("migrate", "memories")
        after = json.loads(run("shell", "-v0", "-c", READ_NEW))
    assert len(before) == 1 and after == before
    assert synced[:2] == ["history_newest_ts", "error_text"] and synced[2].startswith("2026-01-")
    assert unsynced == ["", "", None]
