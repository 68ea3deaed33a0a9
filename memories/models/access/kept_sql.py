"""SQL that is kept: the same conditions for a reader, without building them again.

A page has about twenty nested rules, and Django takes longer to build them than a database to run them.
So the SQL for a reader is kept. Only the times in it change.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from memories.models.access.readers import Reader

MAX_KEYS = 100
"""Above, a query of all keys is faster than its result in each other query."""

_PLACEHOLDER_TIME = datetime(1970, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def prefetch_keys(reader: Reader, *conditions: Callable[[Reader], QuerySet[Any]]) -> Reader:
    """Return the reader with the keys of each `rows(reader)` that has fewer than `MAX_KEYS`."""
    read = []
    for rows in conditions:
        keys = tuple(sorted(pk for (pk,) in fetch(_first_keys, reader, rows, MAX_KEYS)))
        if len(keys) < MAX_KEYS:
            read.append((rows, keys))
    return replace(reader, prefetched_keys=tuple(read))


def subquery(rows: Callable[[Reader], QuerySet[Any]], reader: Reader) -> Any:
    """Return the keys of `rows(reader)`, for ``__in``."""
    for condition, keys in reader.prefetched_keys:
        if condition is rows:
            return keys
    sql, params = _cached_sql(_keys_of, reader, rows)
    return RawSQL(sql, params) if sql else ()  # noqa: S611


def fetch(
    rows: Callable[..., QuerySet[Any, Any]], reader: Reader, *args: Hashable
) -> list[tuple[Any, ...]]:
    """Return the columns of `rows(reader, *args)` as the database has them."""
    sql, params = _cached_sql(rows, reader, *args)
    if not sql:
        return []
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        columns: list[tuple[Any, ...]] = cursor.fetchall()
        return columns


@lru_cache(maxsize=64)  # a page needs the same ones many times
def _cached_sql(
    rows: Callable[..., QuerySet[Any, Any]], reader: Reader, *args: Hashable
) -> tuple[str, tuple[Any, ...]]:
    kept = replace(reader, now=_PLACEHOLDER_TIME)
    sql, params = _compiled(rows, kept, *args)
    times = {
        connection.ops.adapt_datetimefield_value(old): connection.ops.adapt_datetimefield_value(new)
        for old, new in (
            (kept.now, reader.now),
            (kept.memberships_since, reader.memberships_since),
        )
    }
    return sql, tuple(times.get(param, param) for param in params)


@lru_cache(maxsize=1024)
def _compiled(
    rows: Callable[..., QuerySet[Any, Any]], reader: Reader, *args: Hashable
) -> tuple[str, tuple[Any, ...]]:
    try:
        return rows(reader, *args).query.sql_with_params()
    except EmptyResultSet:
        return "", ()


def _first_keys(
    reader: Reader, rows: Callable[[Reader], QuerySet[Any]], limit: int
) -> QuerySet[Any, Any]:
    return _keys_of(reader, rows)[:limit]


def _keys_of(reader: Reader, rows: Callable[[Reader], QuerySet[Any]]) -> QuerySet[Any, Any]:
    return rows(reader).order_by().values("pk")
