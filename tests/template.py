"""Databases that one process of a run makes and the others copy: a migrated one, and the demo's.

They belong to the run's folder, which all its processes share.
"""

import contextlib
import fcntl
import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.cache import cache
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent
RUN = pytest.StashKey[Path]()  # of pytest's config: the folder of the run


def make_once(run: Path, name: str, make: Callable[[], None]) -> None:
    """Call ``make`` in the first process of the run that comes here; the others wait for it."""
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (run / f"{name}.made").exists():
            make()
            (run / f"{name}.made").touch()


def make_migrated(run: Path) -> None:
    """The template ``migrated``: every table, and no row of ours.

    On SQLite it is a copy of a file in var/, which lasts until the program changes.
    """

    def migrate() -> None:
        create(run, "migrated")
        with connected(run, "migrated"):
            call_command("migrate", verbosity=0, interactive=False)

    def copy_migrated() -> None:
        kept = ROOT / "var" / "migrated"
        kept.mkdir(parents=True, exist_ok=True)
        file = kept / f"{hash_program()}.sqlite3"
        with (kept / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                migrate()
                for old in kept.glob("*.sqlite3"):
                    old.unlink()
                shutil.copyfile(database_name(run, "migrated"), kept / "draft")
                (kept / "draft").rename(file)
            shutil.copyfile(file, database_name(run, "migrated"))

    make_once(run, "migrated", copy_migrated if connection.vendor == "sqlite" else migrate)


def hash_program() -> str:
    """A hash of the code, the settings and the dependencies, which decide what `migrate` does."""
    program_hash = hashlib.sha256(sqlite3.sqlite_version.encode())
    paths = [path for name in ("memories", "memoryhub") for path in (ROOT / name).rglob("*.py")]
    for path in (ROOT / "requirements.lock", *sorted(paths)):
        program_hash.update(f"{path}\0".encode() + path.read_bytes())
    return program_hash.hexdigest()[:16]


@contextlib.contextmanager
def connected(run: Path, name: str) -> Iterator[None]:
    """Point Django's connection at a database of the run."""
    before = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = database_name(run, name)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = before


@contextlib.contextmanager
def connected_to_copy(run: Path, name: str, template: str) -> Iterator[None]:
    """Point Django's connection at a copy of a template, which is dropped afterwards."""
    create(run, name, template)
    with connected(run, name):
        yield
    drop(run, name)


def database_name(run: Path, name: str) -> str:
    """The path of an SQLite file, or a name on the PostgreSQL server."""
    if connection.vendor == "sqlite":
        return str(run / f"{name}.sqlite3")
    return f"{run.name}-{name}"


def database_url(name: str | None = None) -> str:
    """The DATABASE_URL under which other processes reach a database, else the connected one."""
    database = connection.settings_dict
    name = name or str(database["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    host = database["HOST"] or database["OPTIONS"].get("host", "")
    login = ":".join(part for part in (database["USER"], database["PASSWORD"]) if part)
    port = f"&port={database['PORT']}" if database["PORT"] else ""
    return f"postgres://{login}@/{name}?host={host}{port}"


def create(run: Path, name: str, template: str = "") -> None:
    """Create a database of the run: empty, or a copy of a template that nobody is connected to."""
    new, old = database_name(run, name), database_name(run, template)
    if connection.vendor != "sqlite":
        execute(f'CREATE DATABASE "{new}"' + (f' TEMPLATE "{old}"' if template else ""))
    elif template:
        shutil.copyfile(old, new)


def drop(run: Path, name: str) -> None:
    if connection.vendor != "sqlite":
        execute(f'DROP DATABASE IF EXISTS "{database_name(run, name)}" WITH (FORCE)')


def drop_templates(run: Path) -> None:
    for made in run.glob("*.made"):
        drop(run, made.stem)


def empty_tables() -> None:
    """Delete all rows of the connected database and its cache, except those `migrate` creates."""
    created = {ContentType._meta.db_table, Permission._meta.db_table}
    tables = set(connection.introspection.django_table_names(only_existing=True)) - created
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), sorted(tables)))
    cache.clear()  # its table has no model


def execute(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
