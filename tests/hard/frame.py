"""Which hard tests there are, a fresh database for each, and a process for each to run in."""

import ast
import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from tests.databases import beside_it, connect
from tests.hard.model_client import ROOT
from tests.postgres import temporary_server
from tests.processes import clean_environment, descendants

BARS = Path(__file__).parent
PATIENCE = {False: 600, True: 4 * 3600}  # seconds for one hard test, small and full
# What the hard tests have in common; their own ENVIRONMENT comes on top.
ENVIRONMENT = {
    "MEMORYHUB_LEASE": "2",
    "MEMORYHUB_HEARTBEAT": "1",
    "MEMORYHUB_POLL": "0.2",
    "MEMORYHUB_LLM_TIMEOUT": "1",
    "MEMORYHUB_BACK_OFF": "0.2",
    "MEMORYHUB_WORKERS": "2",
    "MEMORYHUB_LOG_FORMAT": "plain",
    "MEMORYHUB_LOG_LEVEL": "WARNING",
    "SECRET_KEY": "not a secret: loopback only, and gone after the run",
}
# Small runs share a busy machine. A cluster is taken for hung after one and a half heartbeats, and each
# new cluster loads everything anew. A lease or an answer that ends because a process had to wait for a
# core costs another call, and the number of calls is judged.
SMALL_ENVIRONMENT = {
    "MEMORYHUB_HEARTBEAT": "3",
    "MEMORYHUB_LEASE": "8",
    "MEMORYHUB_LLM_TIMEOUT": "6",
}

STOPPED = threading.Event()
RUNNING: set[subprocess.Popen[bytes]] = set()
COLLECT = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
django.setup()
from memoryhub.static import collect_static_when_changed
collect_static_when_changed()
"""


@dataclass(frozen=True)
class Bar:
    stem: str
    name: str
    databases: tuple[str, ...]
    small_databases: tuple[str, ...]  # where a small run is made
    environment: dict[str, str]
    is_timed: bool = False  # a full run judges seconds, so no other hard test runs beside it

    def matches(self, selected: list[str]) -> bool:
        """By its file's name, its word or its number."""
        names = {self.stem, self.stem.removeprefix("bar_"), *self.name.split()}
        return bool(names & set(selected))


def bars() -> list[Bar]:
    loaded = [_bar(path.stem) for path in BARS.glob("bar_*.py")]
    return sorted(loaded, key=lambda bar: (len(bar.name.split()[0]), bar.name))


def _bar(stem: str) -> Bar:
    constants = _constants(BARS / f"{stem}.py")
    databases = tuple(constants.get("DATABASES", ("sqlite", "postgresql")))
    return Bar(
        stem=stem,
        name=str(constants.get("NAME", stem)),
        databases=databases,
        small_databases=tuple(constants.get("SMALL_DATABASES", databases)),
        environment=constants.get("ENVIRONMENT", {}),
        is_timed=constants.get("IS_TIMED", False),
    )


def _constants(path: Path) -> dict[str, Any]:
    """A hard test's literals, read without Django, which each process sets up for one database."""
    constants = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                constants[node.targets[0].id] = ast.literal_eval(node.value)
    return constants


@dataclass(frozen=True)
class Database:
    """A kind of database, with a migrated template to copy."""

    name: str
    template: str  # a file, or the URL of the server

    def fresh(self, work: Path, name: str) -> str:
        """The DATABASE_URL of a new migrated database."""
        if self.name == "sqlite":
            shutil.copy(self.template, work / "db.sqlite3")
            return f"sqlite:///{work / 'db.sqlite3'}"
        name = f"hard_{os.getpid()}_{name}"
        _sql(self.template, f'CREATE DATABASE "{name}" TEMPLATE "{_template_name()}"')
        return beside_it(self.template, name)

    def drop(self, url: str) -> None:
        if self.name != "sqlite":
            name = urlsplit(url).path.lstrip("/")
            _sql(self.template, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextlib.contextmanager
def databases(work: Path) -> Iterator[list[Database]]:
    """SQLite and PostgreSQL, or the one that DATABASES names. Their templates are made side by side."""
    names = os.environ.get("DATABASES", "sqlite,postgresql").split(",")
    with contextlib.ExitStack() as stack:
        # Collected once here, not once in each hard test.
        preparations: list[Callable[[], None]] = [
            lambda: _run("-c", COLLECT, url="sqlite:///:memory:", work=work)
        ]
        templates = []
        if "sqlite" in names:
            file = work / "template.sqlite3"
            preparations.append(lambda: _make_sqlite_template(file, work))
            templates.append(Database("sqlite", str(file)))
        if "postgresql" in names:
            url = os.environ.get("TEST_DATABASE_URL") or stack.enter_context(temporary_server())
            _sql(url, f'CREATE DATABASE "{_template_name()}"')
            stack.callback(_sql, url, f'DROP DATABASE IF EXISTS "{_template_name()}" WITH (FORCE)')
            preparations.append(lambda: _migrate(beside_it(url, _template_name()), work))
            templates.append(Database("postgresql", url))
        with ThreadPoolExecutor() as pool:
            for preparation in [pool.submit(prepare) for prepare in preparations]:
                preparation.result()
        yield templates


def _make_sqlite_template(file: Path, work: Path) -> None:
    _migrate(f"sqlite:///{file}", work)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _template_name() -> str:
    return f"hard_{os.getpid()}_template"


def _sql(url: str, statement: str) -> None:
    with contextlib.closing(connect(url)) as server:
        server.execute(statement.encode())


def _environment(url: str, work: Path, **more: str) -> dict[str, str]:
    own = {"DATABASE_URL": url, "MEMORYHUB_VAR": str(work / "var")}
    return clean_environment() | ENVIRONMENT | own | more


def _migrate(url: str, work: Path) -> None:
    _run("manage.py", "migrate", "--verbosity", "0", url=url, work=work)


def _run(*arguments: str, url: str, work: Path) -> None:
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, env=_environment(url, work), check=True)


@dataclass(frozen=True)
class Job:
    """One hard test on one database."""

    bar: Bar
    database: Database
    full: bool
    seed: int
    work: Path


def run_job(job: Job) -> dict[str, Any]:
    """Run the hard test in a process of its own; its figures, or why there are none."""
    var = job.work / "var"  # of this hard test alone: on SQLite a workspace's lock is a file in it
    var.mkdir(parents=True)
    (var / "static").symlink_to(job.work.parent / "var" / "static")
    url = job.database.fresh(job.work, job.bar.stem)
    began = time.monotonic()
    try:
        figures = run_apart(job.bar.stem, url, job.work, full=job.full, seed=job.seed,
                            environment={})  # fmt: skip
    finally:
        job.database.drop(url)
    if "not_run" in figures:
        figures["pass"] = os.environ.get("CI", "").lower() not in ("1", "true", "yes")
    head = {"bar": job.bar.name, "database": job.database.name, "pass": False, "seed": job.seed}
    return head | figures | {"seconds": round(time.monotonic() - began, 1)}


def run_apart(
    stem: str,
    url: str,
    work: Path,
    *,
    full: bool,
    seed: int,
    environment: dict[str, str],
    var_of: Path | None = None,
) -> dict[str, Any]:
    """``run`` of a hard test's module, in a process with Django set up on that database. ``var_of``:
    the folder of the hard test whose var/ it uses; its own by default."""
    if STOPPED.is_set():
        return {"pass": False, "error": "stopped"}
    of_size = {} if full else SMALL_ENVIRONMENT
    environment = {**of_size, **_bar(stem).environment, **environment}
    answer = work / "answer.json"
    file = BARS / f"{stem}.py"
    command = [sys.executable, "-m", "tests.hard.frame", file, work, str(seed), str(int(full))]
    with (work / "output.log").open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment(url, var_of or work, **environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        RUNNING.add(process)
        try:
            process.wait(timeout=PATIENCE[full])
        except subprocess.TimeoutExpired:
            return {"pass": False, "error": f"no end after {PATIENCE[full]} s"}
        finally:
            _end(process)
            RUNNING.discard(process)
    if not answer.exists():
        return {"pass": False, "error": _last_line(work / "output.log")}
    figures: dict[str, Any] = json.loads(answer.read_text())
    return figures


def stop_all() -> None:
    """Ask every hard test that runs to end, and start no other; each takes its own trees down."""
    STOPPED.set()
    for process in list(RUNNING):
        process.terminate()


def _end(process: subprocess.Popen[bytes]) -> None:
    """With SIGTERM it takes its trees down; then whatever is left below it is killed."""
    below = descendants(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=30)
    for child in below:
        with contextlib.suppress(Exception):  # psutil knows a pid that was given to another
            child.kill()
    process.kill()
    process.wait()


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def run_here(file: Path, work: Path, *, full: bool, seed: int) -> None:
    """In the hard test's own process."""
    signal.signal(signal.SIGTERM, _exit)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    import django

    django.setup()
    package = "tests.hard."
    if file.parent != BARS:
        sys.path.append(os.fspath(file.parent))
        package = ""
    bar: ModuleType = importlib.import_module(f"{package}{file.stem}")
    figures = bar.run(full=full, seed=seed, work=work, database_url=os.environ["DATABASE_URL"])
    figures["cpu_seconds"] = round(_cpu_seconds(), 1)
    (work / "answer.json").write_text(json.dumps(figures))


def _exit(*_: object) -> None:
    stop_all()
    sys.exit(143)


def _cpu_seconds() -> float:
    """Processor time of this process and of all its children that have ended, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    from tests.hard import frame  # this process's hard tests start others by this module, too

    frame.run_here(
        Path(sys.argv[1]), Path(sys.argv[2]), seed=int(sys.argv[3]), full=sys.argv[4] == "1"
    )
