"""Run every measurement: `python -m bench [--rows N] [--bench FOLDER]`. Each prints a JSON line.

Imports, searches and pages are measured with N messages (a million by default), on SQLite and, if
TEST_DATABASE_URL is set, on PostgreSQL. Model calls need FOLDER, the yardstick with a fake model server
(see yardstick.py). A measurement that cannot run is named on stderr. day.py takes an hour, so it runs alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", metavar="FOLDER", type=Path, help="the yardstick's folder")
    parser.add_argument("--rows", metavar="N", type=int, default=1_000_000, help="messages")
    options = parser.parse_args()
    folder = options.bench
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        databases = [f"sqlite:///{scratch}/rows.sqlite3", os.environ.get("TEST_DATABASE_URL")]
        for url in databases:
            if url is None:
                warn(
                    "not measured: rows/s, searches and sizes on PostgreSQL (TEST_DATABASE_URL names no server)"
                )
                continue
            failed |= run("import_rows", DATABASE_URL=url)
            failed |= run("search", f"--rows={options.rows}", DATABASE_URL=url)
            failed |= run("sizes", f"--rows={options.rows}", DATABASE_URL=url)
    failed |= run("pages")
    if folder is None:
        warn("not measured: calls, tokens and seconds beside the floor (give BENCH=FOLDER)")
    else:
        for name in ("model_cost", "model_faults", "backfill_cost"):
            failed |= run(name, str(folder.resolve()))
    return 1 if failed else 0


def run(name: str, *arguments: str, **environment: str) -> int:
    command = [sys.executable, "-m", f"bench.{name}", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode


def warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
