"""How long a search takes in the database, newest first, beside LIKE over the same rows in the same run.

    python -m bench.search [--rows 1000000] [--times 20]

Works in a test database of its own on the server of DATABASE_URL (a SQLite file by default). For each
kind of question it asks several, in turns, each several times. What is measured is the time of the
statements that `finding.find` sends for a page of all kinds of texts: the newest hits that a reader
with some private channels may see, and their number, exact up to 1,000; and of LIKE what finds the
same messages and counts them as far. Prints a table and a line of JSON: milliseconds in the middle
and at the 95th percentile. To hold: no kind takes more than MAX_MS at the 95th percentile, and the
statements of a context with a question take no more than MAX_CONTEXT_MS.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.database import empty_database

MAX_MS = {"sqlite": 10.0, "postgresql": 40.0}
MAX_CONTEXT_MS, BUDGET = 50.0, 2_000  # tokens
COLUMNS = ("p50_ms", "p95_ms", "like_p50_ms", "like_p95_ms")

Statement = tuple[str, Any]  # SQL and its parameters


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    with empty_database():
        result = measure(options.rows, options.times)
    print(json.dumps(result, ensure_ascii=False))
    return 0 if result["holds"] else 1


def measure(rows: int, times: int) -> dict[str, Any]:
    from django.db import connection

    from bench.search_kinds import kinds_of
    from bench.search_rows import fill

    began = time.perf_counter()
    filled = fill(rows)
    seconds = time.perf_counter() - began
    index_mb = round(index_bytes() / 10**6, 1)
    kinds = {}
    limit = MAX_MS[connection.vendor]
    print(f"{connection.vendor}, {rows:,} messages: milliseconds, at most {limit:g} at p95")
    print(f"index: {index_mb:,} MB")
    print(f"{'':32}{'hits':>12}{'p50':>9}{'p95':>9}{'LIKE p50':>10}{'LIKE p95':>10}")
    for name, typed in kinds_of(filled).items():
        kinds[name] = compare(filled, typed, times)
        show(name, kinds[name], limit)
    contexts = measure_contexts(filled, times)
    print(f"context with a question: {contexts}, at most {MAX_CONTEXT_MS:g} at p95")
    return {
        "bench": "search",
        "database": connection.vendor,
        "rows": rows,
        "seconds_to_fill": round(seconds),
        "index_mb": index_mb,
        "most_ms": limit,
        "kinds": kinds,
        "contexts": contexts,
        "holds": all(kind["p95_ms"] <= limit for kind in kinds.values())
        and contexts["p95_ms"] <= MAX_CONTEXT_MS,
    }


def index_bytes() -> int:
    """Return the size of the index, without the stored tokens."""
    from django.db import connection

    from memories.models.search.documents import WORDS

    size = f"SELECT sum(length(block)) FROM {WORDS}_data"  # noqa: S608
    if connection.vendor == "postgresql":
        size = f"SELECT pg_relation_size('{WORDS}')"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(size)
        [[count]] = cursor.fetchall()
    return int(count)


def compare(filled: Any, questions: Sequence[str], times: int) -> dict[str, Any]:
    """Run each query ``times`` with the index, and once with LIKE."""
    from bench.search_kinds import by_like, by_search

    index_ms: list[float] = []
    like_ms: list[float] = []
    hits = []
    for typed in questions:
        index_statements, count = record(lambda typed=typed: by_search(filled, typed))
        like_statements, _ = record(lambda typed=typed: by_like(filled, typed))
        hits.append(count)
        index_ms += [run_ms(index_statements) for _ in range(times)]
        like_ms.append(run_ms(like_statements))
    return {
        "hits": [min(hits), max(hits)],
        **dict(
            zip(
                COLUMNS,
                (percentile(v, s) for v in (index_ms, like_ms) for s in (0.5, 0.95)),
                strict=True,
            )
        ),
    }


def measure_contexts(filled: Any, times: int) -> dict[str, float]:
    """Run the statements of contexts with a question, of the workspace and of a channel."""
    from django.utils import timezone

    from bench.search_kinds import context_questions
    from memories.pipeline.context.build import build_context

    values = []
    for typed, channel in context_questions(filled):
        options = {"question": typed, "channel": channel, "budget": BUDGET, "with_notes": True}
        statements, _ = record(
            lambda options=options: len(
                build_context(filled.workspace, filled.reader, now=timezone.now(), **options).text
            )
        )
        values += [run_ms(statements) for _ in range(times)]
    return {"p50_ms": percentile(values, 0.5), "p95_ms": percentile(values, 0.95)}


def record(search: Callable[[], int]) -> tuple[list[Statement], int]:
    """Return the statements of a search but those of its transaction, and its result."""
    from django.db import connection

    sent: list[Statement] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001
        if not sql.startswith(("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")):
            sent.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        return sent, search()


def run_ms(statements: Sequence[Statement]) -> float:
    """Run the statements, and return the milliseconds until all rows are read."""
    from django.db import connection

    with connection.cursor() as cursor:
        began = time.perf_counter()
        for sql, params in statements:
            cursor.execute(sql, params)
            cursor.fetchall()
        return (time.perf_counter() - began) * 1000


def percentile(values: Sequence[float], share: float) -> float:
    return round(sorted(values)[min(len(values) - 1, int(len(values) * share))], 2)


def show(name: str, kind: dict[str, Any], limit: float) -> None:
    hits = "–".join(str(n) for n in dict.fromkeys(kind["hits"]))
    p50, p95, like50, like95 = (kind[column] for column in COLUMNS)
    late = " *" if p95 > limit else ""
    print(f"{name:32}{hits:>12}{p50:9.2f}{p95:9.2f}{like50:10.1f}{like95:10.1f}{late}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
