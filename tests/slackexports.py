"""Small Slack exports for tests, as a folder or a zip."""

import json
from pathlib import Path
from typing import Any

from tests.hostilezips import make_zip

DAY = 86_400
START = 1_700_000_000  # 2023-11-14 22:13:20 UTC


def ts(seconds: int, micros: int = 0) -> str:
    """Return a ts this long after START."""
    return f"{START + seconds}.{micros:06d}"


def slack_message(
    seconds: int, text: str, user: str | None = "U1", **fields: Any
) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "message", "ts": ts(seconds), "text": text, "user": user}
    return message | fields


def person(slack_id: str, name: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "id": slack_id,
        "team_id": "T1",
        "name": name or slack_id.lower(),
        "profile": {"display_name": name, "real_name": ""},
    } | fields


def channel(slack_id: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"id": slack_id, "name": name, "members": ["U1", "U2"]} | fields


def export_files(
    days: dict[str, Any] | None = None,
    *,
    people: list[Any] | None = None,
    channels: list[Any] | None = None,
    **lists: Any,
) -> dict[str, bytes]:
    """Return file name → bytes of an export with #general (C1) and two people by default.

    ``days``: ``{"general/2023-11-14": [messages]}``; a str or bytes is written as it is.
    ``lists``: further top files, such as ``groups=[…]``.
    """
    top = {
        "users": [person("U1", "Ann"), person("U2", "Bob")] if people is None else people,
        "channels": [channel("C1", "general")] if channels is None else channels,
    }
    values = top | lists | (days or {})
    return {f"{name}.json": _bytes(value) for name, value in values.items()}


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(make_zip(files))
    return path


def write_folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return path
