"""Databases of their own for child processes: empty ones, beside the one that a URL names."""

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import environ
import psycopg

from tests.processes import clean_environment

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def fresh_database(beside: str = "") -> Iterator[str]:
    """The DATABASE_URL of an empty database: an SQLite file, or on the same PostgreSQL server."""
    if not beside.startswith("postgres"):
        with tempfile.TemporaryDirectory(prefix="memoryhub-database-") as folder:
            yield f"sqlite:///{folder}/fresh.sqlite3"
        return
    name = f"memoryhub_{os.getpid()}_{secrets.token_hex(4)}"
    with contextlib.closing(connect(beside)) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield beside_it(beside, name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def beside_it(url: str, name: str) -> str:
    """The DATABASE_URL of another database on the same server."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def connect(url: str) -> psycopg.Connection:
    """A connection of our own to a PostgreSQL DATABASE_URL, each statement for itself."""
    parts = environ.Env.db_url_config(url)
    options = parts.get("OPTIONS", {})
    return psycopg.connect(
        host=parts["HOST"] or options.get("host"),
        port=parts["PORT"] or options.get("port"),
        user=parts["USER"] or None,
        password=parts["PASSWORD"] or None,
        dbname=parts["NAME"],
        autocommit=True,
        connect_timeout=60,
    )


def environment(url: str, var: Path) -> dict[str, str]:
    """Return environment variables for a child process on this database, offline and without
    logs.
    """
    return clean_environment("PYTEST_") | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
        "MEMORYHUB_VAR": str(var),
        "MEMORYHUB_LOG_LEVEL": "WARNING",
        "SECRET_KEY": "of-tests",
    }


# Migrates an empty database to a migration that the squashed one replaces.
MIGRATE_TO = """
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
executor = MigrationExecutor(connection)
executor.loader = MigrationLoader(connection, replace_migrations=False)
others = [name for name in executor.loader.graph.leaf_nodes() if name[0] != "memories"]
executor.migrate([*others, ("memories", "%s")])
"""


def manage(url: str, var: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours on this database, with further environment variables."""
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment(url, var) | variables,
        capture_output=True,
        text=True,
    )
