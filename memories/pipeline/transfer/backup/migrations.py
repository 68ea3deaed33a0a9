"""Which migrations a database has, which this code knows, and the tables that they make."""

from collections.abc import Collection

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from memories.pipeline.transfer.backup.archive import Migration


def applied() -> list[Migration]:
    return list(MigrationRecorder(connection).applied_migrations())


def unknown(names: Collection[Migration]) -> list[Migration]:
    """Those that this code does not have: they come from a newer one."""
    migrations = MigrationLoader(None, ignore_no_migrations=True).graph.nodes
    return sorted(name for name in names if name not in migrations)


def models_after(names: Collection[Migration]) -> list[type[Model]]:
    """The models, those of many-to-many tables too, as they are after these migrations."""
    state = MigrationLoader(None, ignore_no_migrations=True).project_state(_last(names))
    return [
        model
        for model in state.apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    ]


def up_to(names: Collection[Migration]) -> None:
    """Make the tables of an empty database as these migrations had them."""
    MigrationExecutor(connection).migrate(_last(names))


def forward() -> int:
    """Run what this code has and the database has not; the number of migrations."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    call_command("migrate", interactive=False, verbosity=0)
    return len(plan)


def _last(names: Collection[Migration]) -> list[Migration]:
    """Of each app the migrations that no other of it follows."""
    nodes = MigrationLoader(None, ignore_no_migrations=True).graph.node_map
    return [
        name
        for name in names
        if not any(child.key in names and child.key[0] == name[0] for child in nodes[name].children)
    ]
