"""JSON of exports and backups: how it is written, and checks of what is read.

A check takes a parsed value and returns it as a column stores it, or raises `SchemaError`. It
accepts nothing that a database refuses: NUL, half of a surrogate pair, a number out of range.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from memories.rules.ingest.characters import is_storable
from memories.rules.ingest.timestamps import micros

Check = Callable[[Any], Any]


class SchemaError(ValueError):
    """A value fails its check. The text says which one and why."""


# JSON


def to_json(value: Any) -> str:
    """Return one line of JSON: sorted keys, times in UTC, half a surrogate pair as ``?``."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False, default=_encode)
    return line.encode("utf-8", "replace").decode()


def _encode(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:.2f}"
    raise TypeError(f"{type(value).__name__} is not JSON")


def parse_json(line: str) -> Any:
    """Return the value. Raises `SchemaError`, also for NaN and for an object with a key twice."""
    try:
        return json.loads(line, parse_constant=_refuse, object_pairs_hook=_unique_keys)
    except SchemaError:
        raise
    except (ValueError, RecursionError) as error:
        raise SchemaError("is no JSON") from error


def _refuse(constant: str) -> Any:
    raise SchemaError(f"holds {constant}, which is no JSON")


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise SchemaError("holds a key twice")
    return values


# Checks


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
        return {key: _checked(key, check, value[key]) for key, check in self.checks.items()}


def _checked(key: str, check: Check, value: Any) -> Any:
    """Return the checked value. An error names the key."""
    try:
        return check(value)
    except SchemaError as error:
        raise SchemaError(f"{key}: {error}") from error


def text(max_length: int | None = None, *, min_length: int = 0) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise SchemaError("is no text")
        if len(value) < min_length or (max_length is not None and len(value) > max_length):
            raise SchemaError(
                f"has {len(value)} characters, not {min_length} to {max_length or 'any number of'}"
            )
        if not is_storable(value):
            raise SchemaError("holds a character that cannot be stored")
        return value

    return check


def pattern(expression: str) -> Check:
    """A text that the regular expression matches completely."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(expression, value):
            raise SchemaError(f"is not like {expression}")
        return value

    return check


def one_of(choices: Iterable[str]) -> Check:
    names = tuple(map(str, choices))

    def check(value: Any) -> str:
        if value not in names:
            raise SchemaError(f"is none of {', '.join(name or '(empty)' for name in names)}")
        return str(value)

    return check


def integer(minimum: int = 0, maximum: int = 2**63 - 1) -> Check:
    def check(value: Any) -> int:
        if type(value) is not int or not minimum <= value <= maximum:
            raise SchemaError(f"is no whole number from {minimum} to {maximum}")
        return value

    return check


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise SchemaError("is neither true nor false")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError("is no number")
    try:
        result = float(value)
    except OverflowError as error:
        raise SchemaError("is out of range") from error
    if not isfinite(result):
        raise SchemaError("is out of range")
    return result


def nullable(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def list_of(check: Check) -> Check:
    def check_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise SchemaError("is no list")
        return [_checked(f"item {i}", check, item) for i, item in enumerate(value)]

    return check_list


def tuple_of(*checks: Check) -> Check:
    """A list with one item for each check."""

    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(checks):
            raise SchemaError(f"is no list of {len(checks)}")
        return tuple(check(item) for check, item in zip(checks, value, strict=True))

    return check


def ts(value: Any) -> str:
    """A Slack ts of at most twenty characters."""
    try:
        micros(value if isinstance(value, str) else "")
    except ValueError as error:
        raise SchemaError("is no Slack ts") from error
    return str(value)


def ts_or_empty(value: Any) -> str:
    return "" if value == "" else ts(value)


def json_value(value: Any) -> Any:
    """Any JSON whose texts can be stored."""
    if isinstance(value, str):
        return text()(value)
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {text()(key): json_value(item) for key, item in value.items()}
    return number(value) if isinstance(value, float) else value


def json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError("is no object")
    try:
        checked: dict[str, Any] = json_value(value)
    except RecursionError as error:
        raise SchemaError("is nested too deeply") from error
    return checked
