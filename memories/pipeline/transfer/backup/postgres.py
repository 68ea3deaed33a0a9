"""Backups of a PostgreSQL database: the rows of each table by COPY, in one snapshot."""

import secrets
from collections.abc import Callable, Iterable

from django.db import DatabaseError, connection, transaction
from django.db.models import Model

from memories.pipeline.transfer.archive import ArchiveError, ArchiveWriter
from memories.pipeline.transfer.backup import migrations
from memories.pipeline.transfer.backup.archive import (
    DERIVED,
    LEFT_OUT,
    Archive,
    Migration,
    Progress,
    Table,
)

LOCK_SECONDS = 30


def write_to(
    archive: ArchiveWriter, on_progress: Progress
) -> tuple[dict[str, Table], list[Migration]]:
    """Add the rows of all tables at one moment to the archive, while others use the database."""
    tables: dict[str, Table] = {}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SET LOCAL datestyle TO 'ISO, YMD'")
        applied = migrations.applied()
        models = _copied(migrations.models_after(applied))
        for i, model in enumerate(models, 1):
            name, columns = model._meta.db_table, _columns(model)
            rows = 0
            statement = f"COPY {_names([name])} ({_names(columns)}) TO STDOUT"
            with (
                archive.add(_member(name)) as add,
                connection.wrap_database_errors,
                cursor.copy(statement) as copy,
            ):
                for block in copy:
                    add(bytes(block))
                    rows += bytes(block).count(b"\n")  # line breaks in a text are escaped
            tables[name] = Table(rows, columns, _sequence(name))
            on_progress("tables copied", i, len(models))
    return tables, applied


def load(archive: Archive, *, keep: bool, finish: Callable[[], None], on_progress: Progress) -> int:
    """Create the tables, fill them and migrate, in one transaction.

    Without ``keep`` this happens in another schema and is rolled back, so a check does the same as
    a restore. ``finish`` runs at the end and may raise. Return the number of migrations that ran.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout TO '{LOCK_SECONDS}s'")
        cursor.execute("SET LOCAL datestyle TO 'ISO, YMD'")
        if keep:
            _drop_tables()
        else:
            schema = f"memoryhub_check_{secrets.token_hex(4)}"
            cursor.execute(f"CREATE SCHEMA {schema}")
            cursor.execute(f"SET LOCAL search_path TO {schema}")
        _fill(archive, on_progress)
        ran = migrations.migrate()
        finish()
        transaction.set_rollback(not keep)
    return ran


def _fill(archive: Archive, on_progress: Progress) -> None:
    """Create the tables with the migrations of the backup, and copy its rows."""
    manifest = archive.manifest
    models = migrations.models_after(manifest.migrations)
    if {model._meta.db_table for model in _copied(models)} != set(manifest.tables):
        raise ArchiveError("The tables of this backup do not match its migrations.")
    migrations.create_tables(manifest.migrations)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # or TRUNCATE meets pending checks
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(f"TRUNCATE {_names(model._meta.db_table for model in models)}")
        for i, model in enumerate(_copied(models), 1):
            _fill_table(archive, model._meta.db_table, _columns(model))
            on_progress("tables filled", i, len(manifest.tables))
        try:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except DatabaseError as error:
            raise ArchiveError("In this backup rows refer to rows that do not exist.") from error


def _fill_table(archive: Archive, name: str, columns: list[str]) -> None:
    table = archive.manifest.tables[name]
    if sorted(table.columns) != sorted(columns):
        raise ArchiveError(f"In this backup {name} has columns that do not match its migrations.")
    try:
        with connection.cursor() as cursor:
            statement = f"COPY {_names([name])} ({_names(table.columns)}) FROM STDIN"
            with connection.wrap_database_errors, cursor.copy(statement) as copy:
                for block in archive.blocks(_member(name)):
                    copy.write(block)
            if cursor.rowcount != table.rows:
                raise ArchiveError("The number of rows in this backup differs from its manifest.")
            if table.sequence is not None:
                column, last_value, is_called = table.sequence
                cursor.execute(
                    "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)",
                    [_names([name]), column, last_value, is_called],
                )
    except (DatabaseError, TypeError, ValueError) as error:
        raise ArchiveError(f"In this backup the rows of {name} cannot be read.") from error


def _drop_tables() -> None:
    """Drop the tables of this program. Fails if a view uses one of them."""
    models = migrations.models_after(migrations.applied())
    names = {model._meta.db_table for model in models} | {"django_migrations"}
    existing = names & set(connection.introspection.table_names())
    if existing:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {_names(sorted(existing))}")


def _copied(models: Iterable[type[Model]]) -> list[type[Model]]:
    """Return the models whose tables belong in a backup, by table name."""
    by_table = {model._meta.db_table: model for model in models}
    return [
        by_table[name]
        for name in sorted(by_table)
        if name not in LEFT_OUT and not name.startswith(DERIVED)
    ]


def _columns(model: type[Model]) -> list[str]:
    return [f.column for f in model._meta.local_concrete_fields if not f.generated and f.column]


def _sequence(table: str) -> list[object] | None:
    """Return the state of the table's sequence, so that no id is used twice."""
    with connection.cursor() as cursor:
        sequences = connection.introspection.get_sequences(cursor, table)
        if not sequences:
            return None
        cursor.execute(f"SELECT last_value, is_called FROM {_names([sequences[0]['name']])}")
        return [sequences[0]["column"], *cursor.fetchone()]


def _member(table: str) -> str:
    return f"tables/{table}.copy"


def _names(names: Iterable[str]) -> str:
    return ", ".join(connection.ops.quote_name(name) for name in names)
