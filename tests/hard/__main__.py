"""`python -m tests.hard [BAR …]`: what must hold, on SQLite and on PostgreSQL, and what was found.

BAR is the number or a word of a hard test. FULL=1 is the whole number (a fifth of it on SQLite). Else
each kind of fault, role and point comes about once, and each hard test runs on its SMALL_DATABASES, if
any, unless it is named: then on both. SEED chooses another run of chance; DATABASES=sqlite or
postgresql only one of them. PostgreSQL comes from TEST_DATABASE_URL, else from a server of its own.
Prints one line of JSON for each hard test and database, and `PASS n/n`; the exit status is 1 when one
misses. Hard tests run side by side, the longest first. A hard test that judges seconds does so at full
size only, and runs alone then. A failed run keeps its folder with all logs; so does KEEP=1.
RESULTS=FILE keeps the lines of hard tests that pass. A later run with the same file takes these lines
instead of running the hard tests again.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.hard.frame import Job, bars, databases, run_job, stop_all

RESULTS = os.environ.get("RESULTS", "")
POOLS: list[ThreadPoolExecutor] = []
# Most hard tests wait for processes, leases and answers for about half of their time.
SIDE_BY_SIDE = 2 * min(2, os.cpu_count() or 2)
# The others take less time, and follow in the order of their numbers.
LONGEST_FIRST = (
    "bar_orders",
    "bar_leaks",
    "bar_redis_kill",
    "bar_kill",
    "bar_redis",
    "bar_faults",
    "bar_poison",
    "bar_freeze",
    "bar_events",
    "bar_backup",
    "bar_edits",
)


def main() -> int:
    names = sys.argv[1:]
    for name in names:
        if not any(bar.matches([name]) for bar in bars()):
            say(f"No such hard test: {name}. There are: {', '.join(bar.stem for bar in bars())}.")
            return 2
    full = os.environ.get("FULL", "") not in ("", "0")
    seed = int(os.environ.get("SEED", "") or 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    work = Path(tempfile.mkdtemp(prefix="memoryhub-hard-"))
    results: list[dict[str, Any]] = []
    began = time.monotonic()
    with ExitStack() as stack:
        available = stack.enter_context(databases(work))
        chosen = [bar for bar in bars() if not names or bar.matches(names)]
        jobs = [
            Job(bar, database, full=full, seed=seed, work=work / f"{bar.stem}-{database.name}")
            for bar in chosen
            for database in available
            if database.name in (bar.databases if full or names else bar.small_databases)
        ]
        earlier = earlier_results()
        results += [
            earlier[key] for job in jobs if (key := (job.bar.name, job.database.name)) in earlier
        ]
        jobs = [job for job in jobs if (job.bar.name, job.database.name) not in earlier]
        jobs.sort(key=lambda job: _rank(job.bar.stem))
        alone = [job for job in jobs if full and job.bar.is_timed or os.environ.get("BENCH")]
        together = [job for job in jobs if job not in alone]
        for group, side_by_side in ((together, SIDE_BY_SIDE), (alone, 1)):
            with ThreadPoolExecutor(side_by_side) as pool:
                POOLS.append(pool)
                for future in as_completed([pool.submit(run_job, job) for job in group]):
                    result = future.result()
                    say(json.dumps(result))
                    results.append(result)
                    if RESULTS and result["pass"] and "not_run" not in result:
                        with Path(RESULTS).open("a") as file:
                            file.write(f"{json.dumps(result)}\n")
    for result in results:
        if "not_run" in result:
            say(f"!!! COULD NOT RUN {result['bar']} on {result['database']}: {result['not_run']}")
    passed = sum(result["pass"] for result in results)
    for result in results:
        if not result["pass"]:
            say(f"!!! MISSED {json.dumps(result)}")
    say(f"{'PASS' if passed == len(results) else 'MISSED'} {passed}/{len(results)}"
        f" in {time.monotonic() - began:.0f} s")  # fmt: skip
    passes = bool(results) and passed == len(results)
    if passes and not os.environ.get("KEEP"):
        shutil.rmtree(work, ignore_errors=True)
    else:
        say(f"Logs and databases: {work}")
    return 0 if passes else 1


def earlier_results() -> dict[tuple[str, str], dict[str, Any]]:
    """What the file of results has, by hard test and database."""
    if not RESULTS or not Path(RESULTS).exists():
        return {}
    rows = map(json.loads, Path(RESULTS).read_text().splitlines())
    return {(row["bar"], row["database"]): row for row in rows}


def _rank(stem: str) -> int:
    return LONGEST_FIRST.index(stem) if stem in LONGEST_FIRST else len(LONGEST_FIRST)


def stop(number: int, frame: object) -> None:
    """What waits is left out, what runs is ended."""
    for pool in POOLS:
        pool.shutdown(wait=False, cancel_futures=True)
    stop_all()
    sys.exit(128 + number)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
