"""Show what an upgrade would do to the database, and what speaks against it now."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.operations.models import CreateModel
from django.db.models import Model
from django.utils import timezone

from memories.management import arguments
from memories.models import AuditEvent, Heartbeat
from memories.pipeline.transfer.backup import migrations
from memories.rules.transfer.upgrade import find_upgrade_problems
from memoryhub import __version__


class Command(BaseCommand):
    help = (
        "Show which migrations an upgrade would run, on how many rows, the space, the age of the last"
        " backup, and whether a worker runs. Status 1: something speaks against it now. Nothing is changed."
    )
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        with arguments.needs_database():
            executor = MigrationExecutor(connection)
        plan = [step for step, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
        tables = set(connection.introspection.table_names())
        self.stdout.write(f"Memory Hub {__version__}")
        self.stdout.write(f"Migrations to run: {len(plan)}")
        for migration in plan:
            rows = sum(_count(model) for model in _changed_models(executor, migration, tables))
            self.stdout.write(f"  {migration}: {rows:,} rows in the tables that it changes")
        size, free = _space()
        self.stdout.write(f"Size of the database: {size:,} bytes")
        if free is not None:
            self.stdout.write(f"Free space beside it: {free:,} bytes")
        last_backup = last_beat = None
        if Heartbeat._meta.db_table in tables:
            last_beat = Heartbeat.objects.last_beat()
        if AuditEvent._meta.db_table in tables:
            backups = AuditEvent.objects.filter(action="backup").order_by("-pk")
            last_backup = backups.values_list("at", flat=True).first()
        self.stdout.write(f"Last backup: {last_backup or 'none'}")
        problems = find_upgrade_problems(
            timezone.now(),
            unknown=migrations.unknown(migrations.applied()),
            pending=len(plan) if tables else 0,
            database_bytes=size,
            free_bytes=free,
            last_backup=last_backup,
            last_beat=last_beat,
        )
        if problems:
            raise CommandError("\n".join(problems))
        self.stdout.write("Ready: run `migrate`." if plan else "Nothing to do.")


def _changed_models(
    executor: MigrationExecutor, migration: Migration, tables: set[str]
) -> Iterator[type[Model]]:
    """Return the models with a table that the migration changes, as they are before it."""
    names = {
        str(getattr(operation, "model_name", None) or getattr(operation, "name", "")).lower()
        for operation in migration.operations
        if not isinstance(operation, CreateModel)
    }
    nodes = executor.loader.graph.nodes  # without those that a squashed migration replaced
    state = executor.loader.project_state(
        [name for name in executor.loader.applied_migrations if name in nodes]
    )
    for name in sorted(names):
        if (migration.app_label, name) in state.models:
            model = state.apps.get_model(migration.app_label, name)
            if model._meta.db_table in tables:
                yield model


def _count(model: type[Model]) -> int:
    return model._base_manager.count()


def _space() -> tuple[int, int | None]:
    """Return the bytes of the database, and the free bytes beside it if it is a file."""
    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        if path.is_file():
            return path.stat().st_size, shutil.disk_usage(path.parent).free
        return 0, None
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0]), None
