"""What every test may use.

Tests run on the database of DATABASE_URL. On SQLite it is a file, as in production, so that
threads and other processes meet the same locks; `database_url` tells other processes where.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import translation
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests import chromium, long
from tests.processes import clean_environment

# How fast a busy machine is says nothing about the code.
hypothesis_settings.register_profile(
    "here", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("here")

DATABASE_FIXTURES = frozenset({"db", "transactional_db", "live_server", "database_url"})

LONG = long.listed()

_folder = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the settings fit tests: nothing of the developer's own keys or files."""
    folder = Path(tempfile.mkdtemp(prefix="memoryhub-tests-"))
    config.stash[_folder] = folder
    settings.MEMORYHUB_VAR = folder
    settings.STATIC_ROOT = folder / "static"
    settings.STATIC_ROOT.mkdir()
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.STORAGES["staticfiles"]["BACKEND"] = (
        "django.contrib.staticfiles.storage.StaticFilesStorage"
    )
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = settings.MEMORYHUB_MODEL = ""
    settings.SLACK_BOT_TOKEN = settings.SLACK_BASE_URL = ""
    settings.SLACK_SIGNING_SECRET = settings.SLACK_APP_TOKEN = ""
    # A name of its own for each run: two may share a server.
    connection.settings_dict["TEST"]["NAME"] = (
        str(folder / "test.sqlite3")
        if connection.vendor == "sqlite"
        else f"test_memoryhub_{os.getpid()}"
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_folder], ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    if long.name_of(item.nodeid) in LONG:
        item.add_marker(pytest.mark.long)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On each database only what asks it something: what only PostgreSQL can answer is left out on
    SQLite, and what asks no database at all runs there alone."""
    on_sqlite = connection.vendor == "sqlite"
    left_out = [
        item
        for item in items
        if (item.get_closest_marker("postgres_only") if on_sqlite else not asks_a_database(item))
    ]
    gone = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in gone]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def asks_a_database(item: pytest.Item) -> bool:
    """Through Django's connection, or by processes of its own."""
    marked = any(item.get_closest_marker(name) for name in ("django_db", "cluster"))
    return marked or not DATABASE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes make poor names, and a compressed file even holds the time it was made at."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def language() -> Iterator[None]:
    """Each test begins in English: a request leaves its person's language behind in the thread."""
    with translation.override("en"):
        yield


@pytest.fixture
def tasks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tasks where they are queued; an error of one is the caller's.

    Commit callbacks still wait: use `django_capture_on_commit_callbacks(execute=True)`.
    """
    from django_q.conf import Conf

    monkeypatch.setattr(Conf, "SYNC", True)


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """The DATABASE_URL under which another process reaches this test's database."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    host = database["HOST"] or database["OPTIONS"].get("host", "")
    login = ":".join(part for part in (database["USER"], database["PASSWORD"]) if part)
    port = f"&port={database['PORT']}" if database["PORT"] else ""
    return f"postgres://{login}@/{database['NAME']}?host={host}{port}"


@pytest.fixture
def process_environment(database_url: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a child process that works on this test's database, offline."""
    yield clean_environment("PYTEST_") | {
        "DATABASE_URL": database_url,
        "MEMORYHUB_VAR": str(tmp_path / "var"),
        "SECRET_KEY": settings.SECRET_KEY,
        "MEMORYHUB_LOG_FORMAT": "json",
    }


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Drive the system's Chromium, which root may only run without its sandbox."""
    path = chromium.find()
    if path is None:
        pytest.fail("no Chromium in PATH: `make test` installs it, or run with -m 'not browser'")
    # Playwright keeps an event loop in this thread; the tests themselves are synchronous.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {**browser_type_launch_args, "executable_path": path, "args": flags}
