"""Landed migrations never change. A data migration changes the rows of its task."""

from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission

from memories.models import Line, User
from tests import landed
from tests.factories import ChannelFactory, UserFactory, make_channel_memory


def test_landed_migrations_are_unedited() -> None:
    now = landed.present()
    edited = [name for name, sha256 in landed.landed().items() if now.get(name) != sha256]
    assert not edited, "put the change into a new migration"


def test_every_migration_is_on_the_list() -> None:
    missing = landed.present().keys() - landed.landed().keys()
    assert not missing, "run `make landed` before you commit a migration"


@pytest.mark.django_db
def test_the_migration_of_proposals_sets_the_authors_of_lines() -> None:
    """A line of a person has the author of its first version; a line of a model has none."""
    anna, ben = UserFactory(username="anna"), UserFactory(username="ben")
    memory = make_channel_memory(channel=ChannelFactory(), texts=["- Of the model."])
    memory.revise("- Of the model.\n- Of Anna.", by=anna, based_on=1)
    memory.revise("- Of the model.\n- Of Anna.\n- Of Ben.", by=ben, based_on=2)
    Line.objects.update(author=None)
    import_module("memories.migrations.0006_proposals").set_authors(apps, None)
    lines = memory.versions.get(number=3).lines.order_by("position")
    assert list(lines.values_list("author", flat=True)) == [None, anna.pk, ben.pk]


@pytest.mark.django_db
def test_the_migration_of_budgets_keeps_the_rights_of_accounts() -> None:
    mo = UserFactory(username="mo", is_superuser=False)
    permission = Permission.objects.get(codename="change_budget")
    mo.user_permissions.add(permission)
    migration = import_module("memories.migrations.0024_budget")
    migration.restore_permissions(apps, None)
    permission.refresh_from_db()
    assert permission.codename == "change_cap"
    migration.rename_permissions(apps, None)
    assert User.objects.get(pk=mo.pk).has_perm("memories.change_budget")
