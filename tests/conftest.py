"""Fixtures for every test. Tests run on the database of DATABASE_URL.

On SQLite it is a file, as in production, so that threads and other processes use the same locks.
`database_url` is its address for other processes.
"""

import contextlib
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test import TransactionTestCase
from django.utils import translation
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker, Settings
from pytest_django.plugin import blocking_manager_key
from pytest_httpserver import HTTPServer

from tests import chromium, template
from tests.demo.make_demo import MadeDemo, made_demo
from tests.llm.endpoint import FakeEndpoint, use_model
from tests.pipeline.metered import Metered
from tests.processes import clean_environment
from tests.slack.fake_slack import REQUIRED_SCOPES, FakeSlack
from tests.template import RUN

# Deadlines on a busy machine do not measure the code.
hypothesis_settings.register_profile(
    "here",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if os.environ.get("FULL") else 30,  # FULL is of `make nightly`
)
hypothesis_settings.load_profile("here")

DATABASE_FIXTURES = frozenset(
    {
        *("db", "transactional_db", "live_server", "database_url"),
        *("demo", "migrated_urls", "own_database"),
    }
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the settings fit tests: nothing of the developer's own keys or files."""
    workerinput = getattr(config, "workerinput", None)
    run = Path(workerinput["run"] if workerinput else tempfile.mkdtemp(prefix="memoryhub-tests-"))
    config.stash[RUN] = run
    folder = run / (workerinput["workerid"] if workerinput else "main")
    folder.mkdir(mode=0o700)
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
    # After a test with transactions, Django would create permissions and triggers again.
    TransactionTestCase._fixture_teardown = lambda self: template.empty_tables()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name the run's folder to a worker of pytest-xdist."""
    node.workerinput["run"] = str(node.config.stash[RUN])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the run's files and templates after all workers have ended."""
    if not hasattr(config, "workerinput"):
        with config.stash[blocking_manager_key].unblock():
            template.drop_templates(config.stash[RUN])
        shutil.rmtree(config.stash[RUN], ignore_errors=True)


@pytest.hookimpl(trylast=True)  # after the shuffle
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the database at hand has no answer for, and begin with what takes long.

    SQLite runs no test that is marked ``postgres(…, only=True)``. PostgreSQL runs no test that
    uses no database: it would repeat what SQLite's run has shown. Nor one marked ``sqlite(…)``.
    """
    selected, deselected = [], []
    for item in items:
        runs = is_for_sqlite(item) if connection.vendor == "sqlite" else is_for_postgres(item)
        (selected if runs else deselected).append(item)
    items[:] = long_ones_first(selected, getattr(config, "workerinput", {}).get("workercount", 1))
    if deselected:
        config.hook.pytest_deselected(items=deselected)


def long_ones_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Put the tests that start processes first in each worker's share, which is one stretch of the
    list (`--dist=worksteal`): at the end of a run others would wait for them."""
    long = [item for item in items if item.get_closest_marker("cluster")]
    short = [item for item in items if not item.get_closest_marker("cluster")]
    share = -(-len(items) // workers)
    ordered = []
    for worker in range(workers):
        first = long[worker::workers]
        ordered += first + short[: share - len(first)]
        del short[: share - len(first)]
    return ordered + short


def is_for_sqlite(item: pytest.Item) -> bool:
    return not any(mark.kwargs.get("only") for mark in item.iter_markers("postgres"))


def is_for_postgres(item: pytest.Item) -> bool:
    return uses_database(item) and item.get_closest_marker("sqlite") is None


def uses_database(item: pytest.Item) -> bool:
    """Through Django's connection, or by processes of its own."""
    marked = any(item.get_closest_marker(name) for name in ("django_db", "cluster"))
    return marked or not DATABASE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes make poor names, and a compressed file even holds the time it was made at."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def django_db_setup(
    pytestconfig: pytest.Config, django_test_environment: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """This process's own copy of a migrated database, which one process of the run migrates."""
    run = pytestconfig.stash[RUN]
    name = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with contextlib.ExitStack() as stack:
        with django_db_blocker.unblock():
            template.make_migrated(run)
            stack.enter_context(template.connected_to_copy(run, name, "migrated"))
            # Django asks SQLite for this once a process: not within a test that counts queries.
            assert connection.features.supports_json_field
        yield  # while tests without a database have none
        with django_db_blocker.unblock():
            stack.close()


@pytest.fixture
def migrated_urls(
    pytestconfig: pytest.Config, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[Iterator[str]]:
    """The DATABASE_URLs of migrated databases for other processes, as many as are taken."""
    run = pytestconfig.stash[RUN]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    made: list[str] = []

    def make() -> Iterator[str]:
        for number in itertools.count():
            made.append(f"{worker}-{number}")
            template.create(run, made[-1], "migrated")
            yield template.database_url(template.database_name(run, made[-1]))

    with django_db_blocker.unblock():
        yield make()
        for name in made:
            template.drop(run, name)


@pytest.fixture
def own_database(
    pytestconfig: pytest.Config, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """A migrated database that the test may migrate or break. Use no `db` beside it."""
    run = pytestconfig.stash[RUN]
    name = "own-" + os.environ.get("PYTEST_XDIST_WORKER", "main")
    with django_db_blocker.unblock(), template.connected_to_copy(run, name, "migrated"):
        yield


@pytest.fixture
def demo(
    pytestconfig: pytest.Config, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[MadeDemo]:
    """The demo as `make demo` made it, in a database of the test's own. Use no `db` beside it."""
    run = pytestconfig.stash[RUN]
    name = "demo-" + os.environ.get("PYTEST_XDIST_WORKER", "main")
    with django_db_blocker.unblock():
        made = made_demo(run)
        with template.connected_to_copy(run, name, "demo"):
            yield made


@pytest.fixture(scope="module")
def module_transaction(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A transaction around all tests of a module; each test has a savepoint in it.

    A fixture of the module makes rows in it once. No test of the module may be transactional.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


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
    return template.database_url()


@pytest.fixture
def process_environment(database_url: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a child process that works on this test's database, offline."""
    yield clean_environment("PYTEST_") | {
        "DATABASE_URL": database_url,
        "MEMORYHUB_VAR": str(tmp_path / "var"),
        "SECRET_KEY": settings.SECRET_KEY,
        "MEMORYHUB_LOG_FORMAT": "json",
    }


@pytest.fixture
def endpoint(httpserver: HTTPServer) -> FakeEndpoint:
    return FakeEndpoint(httpserver)


@pytest.fixture
def model(httpserver: HTTPServer, settings: Settings) -> Metered:
    """The model of the settings: it answers with a part of each prompt, and counts tokens."""
    use_model(settings, httpserver)
    return Metered(httpserver)


@pytest.fixture
def bare_slack(settings: Settings) -> Iterator[FakeSlack]:
    """A Slack that holds nothing and grants as few rights as possible."""
    with FakeSlack() as fake:
        settings.SLACK_BASE_URL = fake.url
        fake.scopes = {*REQUIRED_SCOPES}
        yield fake


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Drive the system's Chromium, which root may only run without its sandbox."""
    path = chromium.find()
    if path is None:
        pytest.fail("no Chromium in PATH: `make test` installs it, or run with -m 'not browser'")
    # Playwright keeps an event loop in this thread; the tests themselves are synchronous.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    return {**browser_type_launch_args, "executable_path": path, "args": flags}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the collector from walking through thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # a page makes many objects and few cycles


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure at once: a run that is ended from outside prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nfailed in {report.when}: {report.nodeid}\n{report.longreprtext}", flush=True)  # noqa: T201
