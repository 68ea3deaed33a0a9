"""How a bundle's objects and versions are written: lines of JSON, and Markdown with a front."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from memories.rules.transfer.schema import Check, SchemaError, text


def plain(value: Any) -> Any:
    """A column's value as JSON has it: moments in UTC, amounts as text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:.2f}"
    return value


def as_json(value: Any) -> str:
    """One line of JSON, the same for the same values; half a surrogate pair becomes ``?``."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False, default=plain)
    return line.encode("utf-8", "replace").decode()


def from_json(line: str) -> Any:
    """Raises Wrong for what is no JSON, or no JSON that others could read."""
    try:
        return json.loads(line, parse_constant=_refuse, object_pairs_hook=_object)
    except SchemaError:
        raise
    except (ValueError, RecursionError) as error:
        raise SchemaError("is no JSON") from error


def _refuse(word: str) -> Any:
    raise SchemaError(f"holds {word}, which is no JSON")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise SchemaError("holds a key twice")
    return read


def version_text(front: Mapping[str, Any], content: str) -> str:
    """A version as people read it: a front of ``key: JSON``, then the text word for word."""
    fields = [f"{key}: {as_json(front[key])}" for key in front if key != "lines"]
    lines = [f"- {as_json(line)}" for line in front["lines"]]
    return "\n".join(["---", *fields, "lines:", *lines, "---", content]) + "\n"


def read_version(data: str, shape: Check) -> tuple[dict[str, Any], str]:
    """(front, text) of a version's file, its front as the shape reads it. Raises Wrong with the line."""
    head, mark, content = data.partition("\n---\n")
    begin, *rows = head.split("\n")
    if not mark or begin != "---" or not content.endswith("\n"):
        raise SchemaError("is no front between two lines of --- and a text")
    front: dict[str, Any] = {}
    for i, line in enumerate(rows, start=2):
        try:
            _read_field(front, line)
        except SchemaError as error:
            raise SchemaError(f"line {i}: {error}") from error
    return shape(front), text(least=1)(content[:-1])


def _read_field(front: dict[str, Any], line: str) -> None:
    if line == "lines:" and "lines" not in front:
        front["lines"] = []
    elif "lines" in front:
        if not line.startswith("- "):
            raise SchemaError("is no line of the text's lines")
        front["lines"].append(from_json(line[2:]))
    else:
        key, mark, value = line.partition(": ")
        if not mark or key in front:
            raise SchemaError("is no new key and its value")
        front[key] = from_json(value)
