"""Values from JSON of somebody else, which may have any type: as the expected type, else empty."""

from collections.abc import Iterator
from typing import Any


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_dicts(value: object) -> Iterator[dict[str, Any]]:
    """Yield the objects in a value that may be a list."""
    return (item for item in as_list(value) if isinstance(item, dict))
