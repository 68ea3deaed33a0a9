"""Migrations: what landed stays as it was, and what an earlier database holds is carried over."""

import pytest
from django_test_migrations.migrator import Migrator

from tests import landed


def test_landed_migrations_are_unedited() -> None:
    now = landed.present()
    edited = [name for name, digest in landed.landed().items() if now.get(name) != digest]
    assert not edited, "put the change into a new migration"


def test_every_migration_is_on_the_list() -> None:
    missing = landed.present().keys() - landed.landed().keys()
    assert not missing, "run `make landed` before you commit a migration"


@pytest.mark.django_db(transaction=True)
def test_the_first_database_is_carried_over(migrator: Migrator) -> None:
    """From the first migration with rows in it to the newest: the rows are there."""
    first = migrator.apply_initial_migration(("memories", "0001_initial")).apps
    workspace = first.get_model("memories", "Workspace").objects.create(slug="acme", name="Acme")
    channel = first.get_model("memories", "Channel").objects.create(
        workspace=workspace, slack_id="C1", name="general"
    )
    first.get_model("memories", "Message").objects.create(
        channel=channel, ts="1700000000.123456", micros=1700000000123456, text="hello"
    )
    first.get_model("memories", "User").objects.create(username="alice")

    newest = max(landed.present())
    now = migrator.apply_tested_migration(("memories", newest)).apps
    message = now.get_model("memories", "Message").objects.select_related("channel").get()
    assert (message.ts, message.micros, message.text) == (
        "1700000000.123456",
        1700000000123456,
        "hello",
    )
    assert (message.channel.slack_id, message.channel.name) == ("C1", "general")
    assert now.get_model("memories", "Workspace").objects.get().slug == "acme"
    assert now.get_model("memories", "User").objects.get().username == "alice"
