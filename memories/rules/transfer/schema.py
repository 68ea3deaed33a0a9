"""What a value from outside must look like: small checks that say what is wrong, and where.

A check takes a value that came out of JSON and returns it as our columns want it, or raises
`Wrong`. Nothing passes that a database would refuse: no NUL, no half of a surrogate pair, no
number that its column cannot hold.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from memories.rules.ingest.timestamps import micros

Check = Callable[[Any], Any]

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class SchemaError(ValueError):
    """A value that is not what was promised; the text names it."""


@dataclass(frozen=True)
class Schema:
    """An object with exactly these keys."""

    checks: Mapping[str, Check]

    def __call__(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise SchemaError("is no object")
        for key in self.checks:
            if key not in value:
                raise SchemaError(f"has no {key!r}")
        for key in value:
            if key not in self.checks:
                raise SchemaError(f"has an unknown key {key[:60]!r}")
        read = {}
        for key, check in self.checks.items():
            try:
                read[key] = check(value[key])
            except SchemaError as error:
                raise SchemaError(f"{key}: {error}") from error
        return read


def text(most: int | None = None, *, least: int = 0) -> Check:
    """A text of so many characters."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise SchemaError("is no text")
        if len(value) < least or (most is not None and len(value) > most):
            raise SchemaError(
                f"has {len(value)} characters, not {least} to {most or 'any number of'}"
            )
        if _UNSTORABLE.search(value):
            raise SchemaError("holds a character that cannot be stored")
        return value

    return check


def pattern(expression: str) -> Check:
    """A text that is wholly like this."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(expression, value):
            raise SchemaError(f"is not like {expression}")
        return value

    return check


def one_of(words: Iterable[str]) -> Check:
    known = tuple(str(word) for word in words)

    def check(value: Any) -> str:
        if value not in known:
            raise SchemaError(f"is none of {', '.join(word or '(empty)' for word in known)}")
        return str(value)

    return check


def whole(least: int = 0, most: int = 2**63 - 1) -> Check:
    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise SchemaError(f"is no whole number from {least} to {most}")
        return value

    return check


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise SchemaError("is neither true nor false")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError("is no number")
    try:
        read = float(value)
    except OverflowError as error:
        raise SchemaError("is out of range") from error
    if not isfinite(read):
        raise SchemaError("is out of range")
    return read


def maybe(inner: Check) -> Check:
    """Or null."""
    return lambda value: None if value is None else inner(value)


def many(inner: Check, most: int | None = None) -> Check:
    """A list of them."""

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise SchemaError("is no list")
        if most is not None and len(value) > most:
            raise SchemaError(f"has more than {most} items")
        read = []
        for i, item in enumerate(value):
            try:
                read.append(inner(item))
            except SchemaError as error:
                raise SchemaError(f"item {i}: {error}") from error
        return read

    return check


def row(*inner: Check) -> Check:
    """A list of so many items, each of its own kind."""

    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(inner):
            raise SchemaError(f"is no list of {len(inner)}")
        return tuple(one(item) for one, item in zip(inner, value, strict=True))

    return check


def ts(value: Any) -> str:
    """A Slack ts of at most twenty characters."""
    try:
        micros(value if isinstance(value, str) else "")
    except ValueError as error:
        raise SchemaError("is no Slack ts") from error
    return str(value)


def ts_or_none(value: Any) -> str:
    return "" if value == "" else ts(value)


def anything(value: Any) -> Any:
    """Any JSON whose texts can be stored."""
    if isinstance(value, str):
        return text()(value)
    if isinstance(value, list):
        return [anything(item) for item in value]
    if isinstance(value, dict):
        return {text()(key): anything(inner) for key, inner in value.items()}
    return number(value) if isinstance(value, float) else value


def an_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError("is no object")
    read: dict[str, Any] = anything(value)
    return read
