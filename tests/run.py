"""Run the tests: `python -m tests.run {check,test,nightly} [PART …]`.

check    what is fast, on SQLite
test     everything that is not marked nightly: on SQLite with a browser, on PostgreSQL what is
         marked postgres, and the kills and freezes of tests/hard at small size
nightly  everything, on both databases, in every look and at full size

A run has parts; it ends with a table of them. But for `nightly` two parts run at a time, since
many tests wait; the name of its part stands before each line. Names of parts select these alone,
so that a nightly run can go on where it stopped: its table holds what earlier runs of the same
commit have shown.
PostgreSQL comes from TEST_DATABASE_URL, else from a server that is started for the run.
With CI=true a test that could not run is a failure.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg

from tests import chromium
from tests.databases import connect
from tests.hard.frame import bars
from tests.postgres import NoPostgresError, temporary_server
from tests.processes import clean_environment

ROOT = Path(__file__).resolve().parent.parent
NIGHTLY = ROOT / "var" / "nightly.json"  # commit → part → its row of the table
PRODUCTION = {"MEMORYHUB_URL": "https://memory.example.com"}

# How pytest and tests.hard begin a line about what failed. The end of a run repeats these lines.
FAILURES = ("FAILED ", "ERROR ", "!!! MISSED ")

Row = dict[str, Any]  # tests: int, seconds: float, failed: bool, not_run: list[str]


class Run:
    """One run of the parts of a level: check, test or nightly."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.stack = ExitStack()
        self.rows: dict[str, Row] = {}
        self.failures: list[str] = []
        self.commands: list[subprocess.Popen[str]] = []  # those that run now
        self.is_stopped = False

    def parts(self) -> dict[str, Callable[[], Row]]:
        full = self.level == "nightly"
        less = "" if full else " and not nightly"
        parts = {"checks": self.checks}
        if self.level == "check":
            parts["sqlite"] = lambda: self.suite(
                "sqlite", f"not slow and not browser and not cluster{less}"
            )
            return parts
        # A test that starts processes and is marked postgres runs there alone, but for nightly.
        once = "" if full else " and not (cluster and postgres)"
        parts["sqlite"] = lambda: self.suite("sqlite", f"not browser{less}{once}")
        parts["postgresql"] = lambda: self.postgresql(
            "not browser" if full else "postgres and not nightly"
        )
        parts["browser"] = lambda: self.browser(f"browser{less}")
        parts["bars"] = lambda: self.bars(full=full)
        return parts

    def run(self, selected: list[str]) -> int:
        """Run the parts, print the table, and return the exit status."""
        parts = self.parts()
        if unknown := [name for name in selected if name not in parts]:
            print(f"No such part: {', '.join(unknown)}. There are: {', '.join(parts)}.")
            return 2
        started = time.monotonic()
        with self.stack, ThreadPoolExecutor(1 if self.level == "nightly" else 2) as pool:
            list(pool.map(lambda name: self.run_part(name, parts[name]), selected or parts))
        earlier = kept() if self.level == "nightly" else {}
        status = summarize(list(parts), earlier | self.rows)
        print("".join(self.failures), end="")
        print(f"This run took {time.monotonic() - started:.0f} s.")
        return 143 if self.is_stopped else status

    def stop(self, *_: object) -> None:
        """End the commands that run, and begin no other."""
        self.is_stopped = True
        for command in self.commands:
            command.terminate()

    def run_part(self, name: str, part: Callable[[], Row]) -> None:
        if self.is_stopped:
            return
        print(f"\n=== {name}", flush=True)
        started = time.monotonic()
        row = part()
        if self.is_stopped:
            return
        self.rows[name] = row | {"seconds": round(time.monotonic() - started)}
        if self.level == "nightly":
            keep(name, self.rows[name])

    def checks(self) -> Row:
        manage = [sys.executable, "-W", "error::RuntimeWarning", "manage.py"]
        check = [*manage, "check", "--fail-level", "WARNING"]
        failed = self.execute("checks", [*manage, "makemigrations", "--check", "--dry-run"])
        failed |= self.execute("checks", check)
        failed |= self.execute("checks", [*check, "--deploy"], PRODUCTION)
        return {"tests": 3, "failed": failed, "not_run": []}

    def suite(self, name: str, marks: str, files: Sequence[str] = (), **variables: str) -> Row:
        """Run the tests with these marks, of all files or these. Collecting the rest takes long."""
        results = ROOT / "var" / f"tests-{name}.xml"
        results.parent.mkdir(exist_ok=True)
        results.unlink(missing_ok=True)
        cores = min(4, os.cpu_count() or 2)
        # Tests on PostgreSQL wait for most of their time. `test` runs another part beside.
        more = {"sqlite": 1, "postgresql": 2}.get(name, 0)
        workers = {"check": cores, "test": cores + more, "nightly": 2 * cores}
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers[self.level])]
        command += ["--dist=worksteal", f"--junitxml={results}", "-m", marks, *files]
        if self.level == "nightly":
            variables["FULL"] = "1"
            # Some tests take half an hour.
            command += ["-o", "timeout=3600", "-o", "faulthandler_timeout=7200"]
        failed = self.execute(name, command, variables)
        tests, not_run = read_results(results)
        return {"tests": tests, "failed": failed, "not_run": not_run}

    def browser(self, marks: str) -> Row:
        if reason := chromium.install():
            return {"tests": 0, "failed": False, "not_run": [f"browser tests: {reason}"]}
        return self.suite("browser", marks, ["tests/browser"])

    def postgresql(self, marks: str) -> Row:
        try:
            url = self.postgres_url()
        except (NoPostgresError, psycopg.OperationalError) as error:
            return {"tests": 0, "failed": False, "not_run": [f"PostgreSQL: {error}"]}
        files = [] if self.level == "nightly" else marked_postgres()
        return self.suite("postgresql", marks, files, DATABASE_URL=url)

    def bars(self, *, full: bool) -> Row:
        """The hard tests. Small ones run on PostgreSQL alone."""
        not_run = []
        variables = {"DATABASES": "postgresql"}
        if full:  # takes hours; a later run of this commit goes on after the hard tests that passed
            variables = {"FULL": "1", "RESULTS": str(ROOT / "var" / f"bars-{commit()}.jsonl")}
        try:
            variables["TEST_DATABASE_URL"] = self.postgres_url()
        except (NoPostgresError, psycopg.OperationalError) as error:
            not_run = [f"bars on PostgreSQL: {error}"]
            if not full:
                return {"tests": 0, "failed": False, "not_run": not_run}
            variables["DATABASES"] = "sqlite"
        failed = self.execute("bars", [sys.executable, "-m", "tests.hard"], variables)
        tests = sum(full or bool(bar.small_databases) for bar in bars())
        return {"tests": tests, "failed": failed, "not_run": not_run}

    def postgres_url(self) -> str:
        """The DATABASE_URL of a server that answers; psycopg's error, or NoPostgresError."""
        if "TEST_DATABASE_URL" not in os.environ:
            os.environ["TEST_DATABASE_URL"] = self.stack.enter_context(temporary_server())
        url = os.environ["TEST_DATABASE_URL"]
        connect(url).close()
        return url

    def execute(
        self, part: str, command: list[str], variables: dict[str, str] | None = None
    ) -> bool:
        """Run a command without the developer's own options; True if it failed."""
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=clean_environment() | (variables or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            self.commands.append(process)
            assert process.stdout is not None
            for line in process.stdout:
                labelled = f"{part:<11}| {line}"
                print(labelled, end="", flush=True)
                if line.startswith(FAILURES):
                    self.failures.append(labelled)
            self.commands.remove(process)
        return process.returncode != 0


def marked_postgres() -> list[str]:
    """The files with tests that are marked postgres."""
    paths = sorted(ROOT.glob("tests/**/test_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if "mark.postgres(" in path.read_text()]


def read_results(results: Path) -> tuple[int, list[str]]:
    """The number of tests in a junit file, and the skipped ones with their reasons."""
    if not results.exists():
        return 0, ["no results were written"]
    cases = list(ElementTree.parse(results).iter("testcase"))
    return len(cases), [
        f"{case.get('classname')}.{case.get('name')}: {skip.get('message')}"
        for case in cases
        for skip in case.iter("skipped")
    ]


def summarize(parts: list[str], rows: dict[str, Row]) -> int:
    """Print a row for each part, and what could not run; the exit status."""
    strict = os.environ.get("CI", "").lower() in ("1", "true", "yes")
    print(f"\n{'part':<12}{'tests':>7}{'seconds':>9}  result")
    for name in parts:
        row = rows.get(name)
        if row is None:
            print(f"{name:<12}{'':>16}  not run")
            continue
        result = "FAILED" if row["failed"] else "passed"
        if row["not_run"]:
            result += f", {len(row['not_run'])} could not run"
        print(f"{name:<12}{row['tests']:>7}{row['seconds']:>9}  {result}")
    for row in rows.values():
        for line in row["not_run"]:
            print(f"!!! could not run: {line}")
    bad = any(row["failed"] or (strict and row["not_run"]) for row in rows.values())
    passed = "Passed." if rows.keys() >= set(parts) else "Passed, as far as it ran."
    print(f"\n{'Failed.' if bad else passed}")
    return 1 if bad else 0


def commit() -> str:
    """The checked-out commit, with a mark if files differ from it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return described.stdout.strip()


def kept() -> dict[str, Row]:
    """What nightly runs of this commit have shown, by part."""
    if not NIGHTLY.exists():
        return {}
    rows: dict[str, dict[str, Row]] = json.loads(NIGHTLY.read_text())
    return rows.get(commit(), {})


def keep(name: str, row: Row) -> None:
    NIGHTLY.parent.mkdir(exist_ok=True)
    NIGHTLY.write_text(json.dumps({commit(): kept() | {name: row}}))


def main() -> int:
    level, *selected = sys.argv[1:] or [""]
    if level not in ("check", "test", "nightly"):
        print(__doc__)
        return 2
    run = Run(level)
    signal.signal(signal.SIGTERM, run.stop)
    return run.run(selected)


if __name__ == "__main__":
    sys.exit(main())
