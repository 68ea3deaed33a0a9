"""The migrations of a database and of this program, and the tables that they create."""

from collections.abc import Collection

from django.core.management import call_command
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from memories.pipeline.transfer.backup.archive import Migration


def applied() -> list[Migration]:
    return list(MigrationRecorder(connection).applied_migrations())


def unknown(names: Collection[Migration]) -> list[Migration]:
    """Return the migrations that this program does not have. A newer one made them."""
    migrations = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    return sorted(name for name in names if name not in migrations)


def models_after(names: Collection[Migration]) -> list[type[Model]]:
    """Return the models after these migrations, including many-to-many tables."""
    loader = _loader(names)
    state = loader.project_state(_last(loader, names))
    return [
        model
        for model in state.apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    ]


def create_tables(names: Collection[Migration]) -> None:
    """Create the tables of these migrations in an empty database."""
    executor = MigrationExecutor(connection)
    executor.loader = _loader(names, connection)
    executor.migrate(_last(executor.loader, names))


def migrate() -> int:
    """Run the missing migrations and return their number."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    call_command("migrate", interactive=False, verbosity=0)
    return len(plan)


def _loader(
    names: Collection[Migration], connection: BaseDatabaseWrapper | None = None
) -> MigrationLoader:
    """Return a loader whose graph has these migrations.

    A squashed migration stands for those that it replaces, unless only some of these ran.
    """
    loader = MigrationLoader(connection, ignore_no_migrations=True)
    ran = (
        [name in names for name in squashed.replaces] for squashed in loader.replacements.values()
    )
    if any(any(each) and not all(each) for each in ran):
        return MigrationLoader(connection, ignore_no_migrations=True, replace_migrations=False)
    return loader


def _last(loader: MigrationLoader, names: Collection[Migration]) -> list[Migration]:
    """Return the last migrations of each app."""
    nodes = {name: loader.graph.node_map[name] for name in names if name in loader.graph.nodes}
    return [
        name
        for name, node in nodes.items()
        if not any(child.key in nodes and child.key[0] == name[0] for child in node.children)
    ]
