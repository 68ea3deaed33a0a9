"""Measure the work of a database for a call. It is the same in every run, unlike the time."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


def work_of(call: Callable[[], Any]) -> int:
    """Return SQLite's virtual machine steps, or the pages that PostgreSQL reads."""
    return pages_of(call) if connection.vendor == "postgresql" else steps_of(call)


@contextmanager
def counted_steps() -> Iterator[list[int]]:
    """Count SQLite's virtual machine steps."""
    steps = [0]

    def count() -> None:
        steps[0] += 1

    connection.ensure_connection()
    connection.connection.set_progress_handler(count, 1)
    try:
        yield steps
    finally:
        connection.connection.set_progress_handler(None, 0)


def steps_of(call: Callable[[], Any]) -> int:
    with counted_steps() as steps:
        call()
    return steps[0]


def pages_of(call: Callable[[], Any]) -> int:
    """Return the pages that PostgreSQL reads for the SELECT statements of a call."""
    statements: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001
        statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        call()
    pages = 0
    with connection.cursor() as cursor:
        for sql, params in statements:
            if sql.startswith("SELECT"):
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
                [[response]] = cursor.fetchall()
                [explained] = json.loads(response) if isinstance(response, str) else response
                plan = explained["Plan"]
                pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return pages
