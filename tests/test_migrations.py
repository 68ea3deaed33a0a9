"""Landed migrations never change, and data migrations copy every value in both directions."""

from datetime import UTC, datetime

import pytest
from django.core.management import call_command
from django.db import connection

from memories.models import ChannelSync
from tests import landed
from tests.factories import ChannelFactory


def test_landed_migrations_are_unedited() -> None:
    now = landed.present()
    edited = [name for name, digest in landed.landed().items() if now.get(name) != digest]
    assert not edited, "put the change into a new migration"


def test_every_migration_is_on_the_list() -> None:
    missing = landed.present().keys() - landed.landed().keys()
    assert not missing, "run `make landed` before you commit a migration"


@pytest.mark.nightly("a landed migration does not change")
def test_sync_state_moves_to_a_table_of_its_own_and_back(own_database: None) -> None:
    """Of a channel with another value in each field, and of one without a row."""
    synced, _ = (ChannelFactory(slack_id=slack_id) for slack_id in ("C1", "C2"))
    fields = [field for field in ChannelSync._meta.fields if field.name not in ("id", "channel")]
    values = {
        field.name: datetime(2026, 1, day, tzinfo=UTC) if field.null else field.name[:20]
        for day, field in enumerate(fields, 1)
    }
    ChannelSync.objects.create(channel=synced, **values)
    call_command("migrate", "memories", "0001", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT walk_top_ts, sync_text, turn_at FROM memories_channel ORDER BY slack_id"
        )
        [(*texts, turn_at), unsynced] = cursor.fetchall()
    assert texts == ["history_newest_ts", "error_text"]
    assert str(turn_at).startswith("2026-01-") and unsynced == ("", "", None)
    call_command("migrate", "memories", verbosity=0)
    assert ChannelSync.objects.values(*values).get(channel=synced) == values
    assert ChannelSync.objects.count() == 1
