"""Run the tests and say what could not run: `python -m tests.run [--fast | --browser] [pytest
arguments]`.

Whole: everything on SQLite, then everything but the browser on PostgreSQL (TEST_DATABASE_URL, or a
server of its own), then `make hard` at its small size. Fast: on SQLite what is short and needs
neither a browser nor processes. Both begin with Django's checks. Browser: what drives Chromium.
With CI=true whatever did not run is a failure.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

import psycopg

from tests import chromium
from tests.databases import connect
from tests.postgres import NoPostgresError, temporary_server
from tests.processes import clean_environment

ROOT = Path(__file__).resolve().parent.parent
PRODUCTION = {"MEMORYHUB_URL": "https://memory.example.com"}


class Report:
    """What failed and what could not run."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.not_run: list[str] = []

    def run(self, title: str, command: list[str], variables: dict[str, str] | None = None) -> None:
        """Run one part in an environment without the developer's own options."""
        started = time.monotonic()
        print(f"\n=== {title}", flush=True)
        done = subprocess.run(command, cwd=ROOT, env=clean_environment() | (variables or {}))
        word = "FAILED" if done.returncode else "done"
        print(f"=== {title}: {word} in {time.monotonic() - started:.0f} s", flush=True)
        if done.returncode:
            self.failed.append(title)

    def pytest(self, name: str, marks: str, arguments: list[str], **variables: str) -> None:
        """Run the suite on one database, three tests at a time or as many as there are cores."""
        results = ROOT / "var" / f"tests-{name}.xml"
        results.parent.mkdir(exist_ok=True)
        results.unlink(missing_ok=True)
        workers = min(4, max(3, os.cpu_count() or 3))  # many of them wait for something
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist=worksteal"]
        command += [f"--junitxml={results}", "-m", marks, *arguments]
        self.run(f"tests on {name}", command, variables)
        self.not_run += [f"{name}: {test}" for test in skipped_tests(results)]

    def close(self) -> int:
        """Print the end, loudly; the exit status."""
        strict = os.environ.get("CI", "").lower() in ("1", "true", "yes")
        if self.not_run:
            print(f"\n!!! COULD NOT RUN ({len(self.not_run)}):")
            for line in self.not_run:
                print(f"!!!   {line}")
            if strict:
                print("!!! With CI=true this is a failure.")
        if self.failed:
            print("\n!!! FAILED: " + ", ".join(self.failed))
        bad = bool(self.failed or (strict and self.not_run))
        if not bad:
            print("\nAll that ran has passed." if self.not_run else "\nAll ran, all passed.")
        return 1 if bad else 0


def skipped_tests(results: Path) -> list[str]:
    """The skipped tests that a junit file names, with their reasons."""
    if not results.exists():
        return ["no results were written"]
    return [
        f"{case.get('classname')}.{case.get('name')}: {skip.get('message')}"
        for case in ElementTree.parse(results).iter("testcase")
        for skip in case.iter("skipped")
    ]


def checks(report: Report) -> None:
    manage = [sys.executable, "-W", "error::RuntimeWarning", "manage.py"]
    report.run("migrations are complete", [*manage, "makemigrations", "--check", "--dry-run"])
    report.run("Django's checks", [*manage, "check", "--fail-level", "WARNING"])
    deploy = [*manage, "check", "--deploy", "--fail-level", "WARNING"]
    report.run("Django's checks for production", deploy, PRODUCTION)


def fast(report: Report, arguments: list[str]) -> None:
    checks(report)
    report.pytest("sqlite", "not browser and not cluster and not long", arguments)


def browser(report: Report, arguments: list[str]) -> None:
    if reason := chromium.install():
        report.not_run.append(f"browser tests: {reason}")
    else:
        report.pytest("sqlite", "browser", ["tests/browser", *arguments])


def whole(report: Report, arguments: list[str]) -> None:
    checks(report)
    marks = ""
    if reason := chromium.install():
        marks = "not browser"
        report.not_run.append(f"browser tests: {reason}")
    report.pytest("sqlite", marks, arguments)
    with ExitStack() as stack:
        try:
            url = os.environ.get("TEST_DATABASE_URL") or stack.enter_context(temporary_server())
            must_answer(url)
        except (NoPostgresError, psycopg.OperationalError) as error:
            report.not_run.append(f"everything on PostgreSQL: {error}")
            hard(report, DATABASES="sqlite")
        else:
            report.pytest("postgresql", "not browser", arguments, DATABASE_URL=url)
            hard(report, TEST_DATABASE_URL=url)


def hard(report: Report, **variables: str) -> None:
    """The small run of `make hard`."""
    report.run("what must hold", [sys.executable, "-m", "tests.hard"], variables)


def must_answer(url: str) -> None:
    """Raise psycopg's error when nobody answers at this DATABASE_URL."""
    connect(url).close()


def main() -> int:
    arguments = sys.argv[1:]
    part = whole
    for name, other in (("--fast", fast), ("--browser", browser)):
        if name in arguments:
            arguments.remove(name)
            part = other
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report()
    started = time.monotonic()
    part(report, arguments)
    print(f"\nTook {time.monotonic() - started:.0f} s.")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
