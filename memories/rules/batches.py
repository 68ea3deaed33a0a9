"""Batches: rows in memory, or keys in a query, are limited to some at a time."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def in_batches(items: Iterable[Item], size: int = 500) -> Iterator[list[Item]]:
    """Yield lists of at most ``size`` items. They are read as needed."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
