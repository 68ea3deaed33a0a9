"""Migrations: what landed stays as it was, and what an earlier database holds is carried over."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.utils import timezone
from django_test_migrations.migrator import Migrator

from memories.models import memory_triggers, search_triggers
from tests import landed

pytestmark = pytest.mark.postgres("migrations")


def test_landed_migrations_are_unedited() -> None:
    now = landed.present()
    edited = [name for name, digest in landed.landed().items() if now.get(name) != digest]
    assert not edited, "put the change into a new migration"


def test_every_migration_is_on_the_list() -> None:
    missing = landed.present().keys() - landed.landed().keys()
    assert not missing, "run `make landed` before you commit a migration"


@pytest.fixture
def triggers(transactional_db: None) -> Iterator[None]:
    """Make the triggers anew when the migrator is done: it sends no signal that does."""
    yield
    search_triggers.install(connection)
    memory_triggers.install(connection)


@pytest.mark.slow
@pytest.mark.usefixtures("triggers")
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


@pytest.mark.slow
@pytest.mark.nightly("a landed migration does not change")
@pytest.mark.usefixtures("triggers")
@pytest.mark.django_db(transaction=True)
def test_a_link_that_an_operator_made_before_opens_no_private_channel(migrator: Migrator) -> None:
    """Until its person signs in with Slack; links that were proven stay. Nor does an address open one
    that somebody verified in the admin."""
    tables = [
        ("memories", "0016_search_keys"),
        ("account", "0009_emailaddress_unique_primary_email"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
    ]
    before = migrator.apply_initial_migration(tables).apps
    workspaces = before.get_model("memories", "Workspace").objects
    person = before.get_model("memories", "Person").objects
    users = before.get_model("memories", "User").objects
    alice, eve = users.create(username="alice"), users.create(username="eve")
    before.get_model("socialaccount", "SocialAccount").objects.create(
        user=alice, provider="slack", uid="U-acme-slack"
    )
    for user in (alice, eve):
        before.get_model("account", "EmailAddress").objects.create(
            user=user, email=f"{user.username}@example.com", verified=True
        )
    workspaces.create(slug="acme", name="Acme", connected_at=timezone.now())
    for slug, linked_by, user in (
        *(("acme", "", alice), ("acme", "slack", alice), ("acme", "email", alice)),
        *(("demo", "", alice), ("imported", "email", alice), ("acme", "email", eve)),
    ):
        workspace, _ = workspaces.get_or_create(slug=slug, defaults={"name": slug})
        slack_id = f"U-{slug}-{linked_by}" if user == alice else "U-eve"
        person.create(
            workspace=workspace, slack_id=slack_id, name="a", user=user, linked_by=linked_by
        )
    person.create(workspace=workspaces.get(slug="acme"), slack_id="U-nobody", name="b")
    now = migrator.apply_tested_migration(("memories", "0019_link_proof_constraint")).apps
    rows = now.get_model("memories", "Person").objects.order_by("slack_id")
    found = {row.slack_id: (row.linked_by, row.opens_until is None) for row in rows}
    assert found == {
        "U-acme-": ("", False),
        "U-acme-email": ("email", True),
        "U-acme-slack": ("slack", True),
        "U-demo-": ("demo", True),
        "U-eve": ("", False),
        "U-imported-email": ("email", False),
        "U-nobody": ("", True),
    }
    addresses = now.get_model("account", "EmailAddress").objects
    assert [row.email for row in addresses.filter(verified=True)] == ["alice@example.com"]
