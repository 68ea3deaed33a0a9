"""Backups of a PostgreSQL database: the rows of each table, of one moment, by COPY."""

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
    Table,
    Tell,
)

LOCK_SECONDS = 30


def write_to(archive: ArchiveWriter, tell: Tell) -> tuple[dict[str, Table], list[Migration]]:
    """Copy all tables as they are at one moment, while others work."""
    tables: dict[str, Table] = {}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SET LOCAL datestyle TO 'ISO, YMD'")
        applied = migrations.applied()
        models = _copied(migrations.models_after(applied))
        for i, model in enumerate(models, 1):
            name, columns = model._meta.db_table, _columns(model)
            rows = 0
            order = f"COPY {_names([name])} ({_names(columns)}) TO STDOUT"
            with (
                archive.add(_member(name)) as add,
                connection.wrap_database_errors,
                cursor.copy(order) as copy,
            ):
                for block in copy:
                    add(bytes(block))
                    rows += bytes(block).count(b"\n")  # those within a text are escaped
            tables[name] = Table(rows, columns, _sequence(name))
            tell("tables copied", i, len(models))
    return tables, applied


def take_in(archive: Archive, *, keep: bool, finish: Callable[[], None], tell: Tell) -> int:
    """Make the tables anew, fill them and migrate, in one transaction; without ``keep`` in a
    schema of its own, and undone at the end: what is checked is what a restore does.

    ``finish`` has the last look at what would be kept, and may raise. The answer is the number of
    migrations that were run.
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
        _fill(archive, tell)
        ran = migrations.forward()
        finish()
        transaction.set_rollback(not keep)
    return ran


def _fill(archive: Archive, tell: Tell) -> None:
    """The tables as the backup's migrations had them, with its rows."""
    manifest = archive.manifest
    models = migrations.models_after(manifest.migrations)
    if {model._meta.db_table for model in _copied(models)} != set(manifest.tables):
        raise ArchiveError("This backup has other tables than its migrations make.")
    migrations.up_to(manifest.migrations)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # or what follows meets pending checks
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(f"TRUNCATE {_names(model._meta.db_table for model in models)}")
        for i, model in enumerate(_copied(models), 1):
            _fill_table(archive, model._meta.db_table, _columns(model))
            tell("tables filled", i, len(manifest.tables))
        try:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except DatabaseError as error:
            raise ArchiveError("In this backup rows point to rows that are not there.") from error


def _fill_table(archive: Archive, name: str, columns: list[str]) -> None:
    table = archive.manifest.tables[name]
    if sorted(table.columns) != sorted(columns):
        raise ArchiveError(f"In this backup {name} has other columns than its migrations make.")
    try:
        with connection.cursor() as cursor:
            order = f"COPY {_names([name])} ({_names(table.columns)}) FROM STDIN"
            with connection.wrap_database_errors, cursor.copy(order) as copy:
                for block in archive.blocks(_member(name)):
                    copy.write(block)
            if cursor.rowcount != table.rows:
                raise ArchiveError("This backup does not hold the rows that its manifest counts.")
            if table.sequence is not None:
                column, last, used = table.sequence
                cursor.execute(
                    "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)",
                    [_names([name]), column, last, used],
                )
    except (DatabaseError, TypeError, ValueError) as error:
        raise ArchiveError(f"In this backup the rows of {name} cannot be read.") from error


def _drop_tables() -> None:
    """Ours alone; a view on one of them makes this fail."""
    models = migrations.models_after(migrations.applied())
    names = {model._meta.db_table for model in models} | {"django_migrations"}
    there = names & set(connection.introspection.table_names())
    if there:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {_names(sorted(there))}")


def _copied(models: Iterable[type[Model]]) -> list[type[Model]]:
    stored_models = [
        model
        for model in models
        if model._meta.db_table not in LEFT_OUT and not model._meta.db_table.startswith(DERIVED)
    ]
    return sorted(stored_models, key=lambda model: model._meta.db_table)


def _columns(model: type[Model]) -> list[str]:
    return [f.column for f in model._meta.local_concrete_fields if not f.generated and f.column]


def _sequence(table: str) -> list[object] | None:
    """Where its keys go on, so that none is ever used again."""
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
