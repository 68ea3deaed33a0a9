"""Every measurement by one command: `python -m bench [--bench FOLDER]`, one JSON line each.

FOLDER is the yardstick with a fake model server (see yardstick.py); what cannot be measured
without it is said. Rows are imported and searched (SEARCH_ROWS of them, 20,000 by default) on SQLite,
and on PostgreSQL too when TEST_DATABASE_URL names one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", metavar="FOLDER", type=Path, help="the yardstick's folder")
    folder = parser.parse_args().bench
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        databases = [f"sqlite:///{scratch}/rows.sqlite3", os.environ.get("TEST_DATABASE_URL")]
        for url in databases:
            if url is None:
                say(
                    "not measured: rows/s and searches on PostgreSQL (TEST_DATABASE_URL names no server)"
                )
                continue
            for name in ("import_rows", "search"):
                command = [sys.executable, str(HERE / f"{name}.py")]
                failed |= subprocess.run(command, env=os.environ | {"DATABASE_URL": url}).returncode
    if folder is None:
        say("not measured: calls, tokens and seconds beside the floor (give BENCH=FOLDER)")
    else:
        for name in ("model_cost", "model_faults", "backfill_cost"):
            command = [sys.executable, "-m", f"bench.{name}", str(folder.resolve())]
            failed |= subprocess.run(command, cwd=HERE.parent).returncode
    return 1 if failed else 0


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
