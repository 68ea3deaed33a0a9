"""Databases of their own for child processes: empty ones, beside the one that a URL names."""

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import environ
import psycopg

ROOT = Path(__file__).resolve().parent.parent
OURS = ("MEMORYHUB_", "OPENAI_", "SLACK_", "PYTEST_", "Q_CLUSTER_NAME", "DATABASE_URL")


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
            yield urlunsplit(urlsplit(beside)._replace(path=f"/{name}"))
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


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
    )


def environment(url: str, var: Path) -> dict[str, str]:
    """What a child process needs to work on this database, offline and quiet."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return clean | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
        "MEMORYHUB_VAR": str(var),
        "MEMORYHUB_LOG_LEVEL": "WARNING",
        "SECRET_KEY": "of-tests",
    }


def manage(url: str, var: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours on this database."""
    command = [sys.executable, "manage.py", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment(url, var), capture_output=True, text=True
    )
