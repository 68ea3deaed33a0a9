"""Milliseconds of every page of a large workspace, beside the same pages at a tenth of the size.

    python -m bench.sizes [--rows 1000000]

Works in two test databases of its own on the server of DATABASE_URL (SQLite files by default). With
N messages a workspace has N / 200 failed jobs, a memory with N / 200 versions, N * 3 / 1000 channels and
N / 100 people with accounts. An operator, and an editor who is in three private channels, ask for
each page by Django's test client: once to warm up, then five times in each database, in turns. Prints
a table of the best times and of the queries of a page, and a line of JSON. The times are the processor's,
which other work on the machine disturbs less. The PostgreSQL server has to run on this machine, a Linux.

To hold: no page takes longer than a second, nor longer than 1.5 times what it takes at a tenth of the
size; a page within 20 ms is fast enough. Exits with 1 when a page misses that.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.database import empty_database

TIMES = 5  # the best is the one that other work of the machine disturbed least
MAX_MS, MAX_GROWTH, FAST_MS = 1000.0, 1.5, 20.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="messages (1,000,000)")
    options = parser.parse_args()
    with empty_database(), database_in_use() as tenth, empty_database(), database_in_use() as full:
        from bench.sizes_rows import Size, fill
        from memoryhub.static import collect_static_when_changed

        collect_static_when_changed()
        tenth()
        fill(Size(options.rows // 10))
        full()
        fill(Size(options.rows))
        result = measure(tenth, full)
    print(json.dumps({"rows": options.rows, **result}))
    return 0 if result["holds"] else 1


@contextmanager
def database_in_use() -> Iterator[Callable[[], None]]:
    """A function that connects to the database that is in use now."""
    from django.db import connection

    name = connection.settings_dict["NAME"]

    def connect() -> None:
        if connection.settings_dict["NAME"] != name:
            connection.close()
            connection.settings_dict["NAME"] = name

    yield connect
    connect()


def measure(tenth: Callable[[], None], full: Callable[[], None]) -> dict[str, Any]:
    """Each page in turns, as each reader."""
    from django.db import connection

    from bench.sizes_pages import pages_of

    print(f"{connection.vendor:40}{'tenth ms':>10}{'full ms':>10}{'times':>8}{'queries':>9}")
    pages: dict[str, dict[str, Any]] = {}
    for reader in ("operator", "member"):
        found = {}
        for connect in (tenth, full):
            connect()
            client, paths = pages_of(reader)
            found[connect] = client, paths
        for name in found[full][1]:
            queries, times = 0, {tenth: [], full: []}
            for turn in range(TIMES + 1):
                for connect in (tenth, full):
                    connect()
                    client, paths = found[connect]
                    if turn == 0:
                        queries = client.queries_of(paths[name])
                    else:
                        times[connect].append(milliseconds(client, paths[name]))
            row = judged(min(times[tenth]), min(times[full]), queries)
            pages[f"{reader}: {name}"] = row
            show(f"{reader}: {name}", row)
    return {
        "bench": "sizes",
        "database": connection.vendor,
        "pages": pages,
        "holds": all(row["holds"] for row in pages.values()),
    }


def milliseconds(client: Any, path: str) -> float:
    began = processor_seconds()
    client.ask(path)
    return 1000 * (processor_seconds() - began)


def processor_seconds() -> float:
    """Return the processor's time of this process and of its session in a PostgreSQL server here."""
    from django.db import connection

    own_seconds = time.process_time()
    if connection.vendor == "sqlite":
        return own_seconds
    connection.ensure_connection()
    session = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    return own_seconds + int(session.read_text().split()[0]) / 1e9


def judged(tenth_ms: float, ms: float, queries: int) -> dict[str, Any]:
    grows = ms / tenth_ms
    return {
        "tenth_ms": round(tenth_ms, 1),
        "ms": round(ms, 1),
        "times": round(grows, 2),
        "queries": queries,
        "holds": ms <= MAX_MS and (grows <= MAX_GROWTH or ms <= FAST_MS),
    }


def show(name: str, row: dict[str, Any]) -> None:
    print(
        f"{name:40}{row['tenth_ms']:10.1f}{row['ms']:10.1f}{row['times']:8.2f}{row['queries']:9}"
        f"  {'holds' if row['holds'] else 'MISSED'}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
