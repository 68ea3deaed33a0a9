"""The migrations of a database and of this program, and the tables that they create."""

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
    """Return the migrations that this program does not have. A newer one made them."""
    migrations = MigrationLoader(None, ignore_no_migrations=True).graph.nodes
    return sorted(name for name in names if name not in migrations)


def models_after(names: Collection[Migration]) -> list[type[Model]]:
    """Return the models after these migrations, including many-to-many tables."""
    state = MigrationLoader(None, ignore_no_migrations=True).project_state(_last(names))
    return [
        model
        for model in state.apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    ]


def create_tables(names: Collection[Migration]) -> None:
    """Create the tables of these migrations in an empty database."""
    MigrationExecutor(connection).migrate(_last(names))


def migrate() -> int:
    """Run the missing migrations and return their number."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    call_command("migrate", interactive=False, verbosity=0)
    return len(plan)


def _last(names: Collection[Migration]) -> list[Migration]:
    """Return the last migrations of each app."""
    nodes = MigrationLoader(None, ignore_no_migrations=True).graph.node_map
    return [
        name
        for name in names
        if not any(child.key in names and child.key[0] == name[0] for child in nodes[name].children)
    ]
