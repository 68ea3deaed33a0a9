"""The revision changes with each change of data that a context shows, and with no other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from memories.models import (
    Channel,
    ChannelMember,
    Heartbeat,
    Message,
    Person,
    Revision,
    SlackConnection,
    User,
    Workspace,
)
from memories.models.context import revision_triggers as triggers
from memories.models.context.revisions import MAX_ROWS
from memories.models.search.search_triggers import existing_triggers
from memories.pipeline.transfer.backup.migrations import migrate
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    WorkspaceFactory,
    make_channel_memory,
)

pytestmark = pytest.mark.postgres("triggers")


def revision() -> Any:
    """The revision, as the authentication of a request reads it."""
    [value] = Workspace.objects.values_list(Revision.objects.current(), flat=True)
    return value


@pytest.fixture
def workspace(db: None) -> Workspace:
    now = timezone.now()
    channel = ChannelFactory(workspace=WorkspaceFactory(connected_at=now))
    MessageFactory(channel=channel, author=PersonFactory(workspace=channel.workspace))
    ChannelMember.objects.create(channel=channel, person=Person.objects.get())
    SlackConnection.objects.create(workspace=channel.workspace)
    MemberFactory(workspace=channel.workspace)
    make_channel_memory(channel=channel)
    return channel.workspace


@pytest.mark.django_db
@pytest.mark.parametrize(
    "model, values, counts",
    [
        (Message, {"text": "edited"}, True),
        (Message, {"state": "deleted"}, True),
        (Message, {"reply_count": 5}, False),
        (Message, {"text": "message"}, False),  # what it was
        (Channel, {"name": "renamed"}, True),
        (Channel, {"topic": "renamed"}, False),
        (Person, {"is_guest": True}, True),
        (Person, {"link_valid_until": timezone.now()}, True),
        (SlackConnection, {"state": "revoked"}, True),
        (SlackConnection, {"checked_at": timezone.now()}, False),
        (User, {"first_name": "Mika"}, True),
        (User, {"last_login": timezone.now()}, False),
        (Workspace, {"settings": {"merge_mode": "rewrite"}}, True),
        (Workspace, {"synced_at": timezone.now(), "next_sync_at": timezone.now()}, False),
    ],
)
def test_an_update_counts_if_a_context_can_show_it(
    workspace: Workspace, model: Any, values: dict[str, Any], counts: bool
) -> None:
    Message.objects.update(text="message")
    before = revision()
    assert revision() == before
    assert model.objects.update(**values) == 1
    assert (revision() != before) is counts


@pytest.mark.parametrize(
    "old, new, counts",
    [
        (2, 0, False),
        (22, 0, False),
        (25, 0, True),
        (None, 0, True),
        (0, None, True),
        (0, 25, True),
        (25, 25, False),
        (None, None, False),
    ],
)
@pytest.mark.parametrize("name", triggers.LISTED)
def test_a_list_that_becomes_fresh_or_stale_counts(
    workspace: Workspace, name: str, old: int | None, new: int | None, counts: bool
) -> None:
    now = timezone.now()
    model: Any = Workspace if name == "listed_at" else Channel

    def update(hours: int | None) -> None:
        model.objects.update(**{name: None if hours is None else now - timedelta(hours=hours)})

    update(old)
    before = revision()
    update(new)
    assert (revision() != before) is counts


@pytest.mark.django_db
def test_rows_that_come_and_go_count(workspace: Workspace) -> None:
    seen = {revision()}
    message = MessageFactory(channel=Channel.objects.get(), author=None)
    seen.add(revision())
    message.delete()
    seen.add(revision())
    Message.objects.bulk_create([message], ignore_conflicts=True)
    seen.add(revision())
    assert len(seen) == 4
    Heartbeat.objects.beat("worker", timezone.now())
    assert revision() in seen


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres("several writers at a time", only=True)
def test_a_writer_that_began_earlier_and_commits_later_is_noticed(workspace: Workspace) -> None:
    """Its row has a lower id. No writer waits for another one."""
    with another_connection() as first, another_connection() as second:
        seen = {revision()}
        first("BEGIN")
        first("UPDATE memories_message SET text = 'first'")
        second("UPDATE memories_channel SET name = 'second'")
        seen.add(revision())
        Revision.objects.filter(pk__gte=0).delete()
        Revision.objects.create(number=1)  # as `prune` does
        seen.add(revision())
        first("COMMIT")
        seen.add(revision())
        assert len(seen) == 4


@contextmanager
def another_connection() -> Iterator[Callable[[str], None]]:
    """A function that executes a statement on another connection."""
    separate = connections.create_connection("default")
    separate.settings_dict = connection.settings_dict
    try:
        with separate.cursor() as cursor:
            yield cursor.execute
    finally:
        separate.close()


@pytest.mark.django_db(transaction=True)
def test_a_transaction_adds_one_row_and_none_if_it_is_rolled_back(workspace: Workspace) -> None:
    before, rows = revision(), Revision.objects.count()
    with transaction.atomic():
        Message.objects.update(text="rolled back")
        transaction.set_rollback(True)
    assert (revision(), Revision.objects.count()) == (before, rows)
    with transaction.atomic():
        for number in range(3):
            with transaction.atomic():
                Message.objects.update(text=f"rolled back {number}")
                transaction.set_rollback(True)
            Message.objects.update(text=f"{number}")
    assert revision() != before
    assert Revision.objects.count() == rows + (connection.vendor == "postgresql")


@pytest.mark.django_db
def test_a_prune_leaves_few_rows_and_no_earlier_revision(workspace: Workspace) -> None:
    assert not Revision.objects.prune()
    seen = set()
    for _ in range(3):
        Revision.objects.bulk_create(Revision(number=0) for _ in range(MAX_ROWS))
        seen.add(revision())
        assert Revision.objects.prune()
        seen.add(revision())
        assert Revision.objects.count() == 1
    assert len(seen) == 4


@pytest.mark.django_db
def test_without_a_row_a_change_counts(workspace: Workspace) -> None:
    Revision.objects.all().delete()
    before = revision()
    Message.objects.update(text="edited")
    assert revision() != before


@pytest.mark.slow
@pytest.mark.usefixtures("own_database")
def test_migrations_run_without_the_triggers_and_create_them_again() -> None:
    def names() -> set[str]:
        return {name for name in existing_triggers(connection) if name.startswith("revision_of_")}

    WorkspaceFactory()
    created, before = names(), revision()
    assert len(created) == 3 * len(triggers.TABLES)
    assert migrate() == 0
    assert (names(), revision()) == (created, before)
    call_command("migrate", "memories", "0016", verbosity=0)
    assert names() == set()
    assert migrate() > 0
    assert names() == created
    triggers.remove(connection)
    assert migrate() == 0
    assert names() == created
    assert revision() != before
