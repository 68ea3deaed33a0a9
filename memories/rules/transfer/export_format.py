"""The format of an exported workspace: names of its files, and text of a version (docs/export.md)."""

import re
from collections.abc import Mapping
from typing import Any

from memories.rules.memory.identity import WORKSPACE_SCOPE_ID, MemoryScope, MemoryType
from memories.rules.transfer.schema import (
    Check,
    Schema,
    SchemaError,
    integer,
    json_object,
    parse_json,
    text,
    to_json,
)

FORMAT = "memory-hub-workspace"
FORMAT_VERSION = 3

WORKSPACE = "workspace.json"
PEOPLE = "people.jsonl"
CHANNELS = "channels.jsonl"
SEGMENTS = "segments.jsonl"
BACKFILLS = "backfills.jsonl"
JOBS = "jobs.jsonl"
NOTES = "notes.jsonl"
REQUIRED = (WORKSPACE, PEOPLE, CHANNELS, SEGMENTS, BACKFILLS, JOBS, NOTES)

MANIFEST_SCHEMA = Schema(
    {
        "prompts": text(64),
        "left_out": Schema({"channels": integer(), "references": integer()}),
        "counts": json_object,
    }
)

# Names of files


def quote_id(slack_id: str) -> str:
    """Return the id for a file name: ``%`` and a code for all but letters, digits, _ and -."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda match: f"%{ord(match[0]):04X}", slack_id)


def messages_path(slack_id: str) -> str:
    return f"messages/{quote_id(slack_id)}.jsonl"


def memory_folder(scope: str, memory_type: str, slack_id: str, name: str, thread_ts: str) -> str:
    """Return for example ``memories/channels/C123-launch/long_term``. Readers ignore the name."""
    if scope == MemoryScope.WORKSPACE:
        return f"memories/workspace/{memory_type}"
    short_name = re.sub(r"[^\w-]+", "-", name).strip("-")[:40]
    folder = f"memories/channels/{quote_id(slack_id)}" + (f"-{short_name}" if short_name else "")
    if scope == MemoryScope.THREAD:
        folder += f"/threads/{thread_ts}"
    return f"{folder}/{memory_type}"


def version_path(folder: str, number: int) -> str:
    return f"{folder}/v{number:04d}.md"


def has_consistent_scope(memory: Mapping[str, Any]) -> bool:
    """Return if scope, id, type, channel and thread of a memory belong together (S0)."""
    channel, thread_ts = memory["channel"], memory["thread_ts"]
    match MemoryScope(memory["scope"]):
        case MemoryScope.WORKSPACE:
            scope_id = WORKSPACE_SCOPE_ID if not channel and not thread_ts else None
        case MemoryScope.CHANNEL:
            scope_id = None if thread_ts else channel
        case MemoryScope.THREAD:
            is_thread = channel and thread_ts and memory["memory_type"] == MemoryType.SHORT_TERM
            scope_id = f"{channel}:{thread_ts}" if is_thread else None
    return scope_id is not None and scope_id == memory["scope_id"]


# Text of a version


def format_version(front: Mapping[str, Any], content: str) -> str:
    """Return a front of ``key: JSON`` lines, its ``lines`` last, followed by the content."""
    fields = [f"{key}: {to_json(front[key])}" for key in front if key != "lines"]
    lines = [f"- {to_json(line)}" for line in front["lines"]]
    return "\n".join(["---", *fields, "lines:", *lines, "---", content]) + "\n"


def parse_version(data: str, schema: Check) -> tuple[dict[str, Any], str]:
    """Return the checked front and the content. Raises `SchemaError`, which names the line."""
    head, mark, content = data.partition("\n---\n")
    begin, *rows = head.split("\n")
    if not mark or begin != "---" or not content.endswith("\n"):
        raise SchemaError("is no front between two lines of --- and a text")
    front: dict[str, Any] = {}
    for i, line in enumerate(rows, start=2):
        try:
            _parse_field(front, line)
        except SchemaError as error:
            raise SchemaError(f"line {i}: {error}") from error
    return schema(front), text(min_length=1)(content[:-1])


def _parse_field(front: dict[str, Any], line: str) -> None:
    if line == "lines:" and "lines" not in front:
        front["lines"] = []
    elif "lines" in front:
        if not line.startswith("- "):
            raise SchemaError("is no line of the text's lines")
        front["lines"].append(parse_json(line[2:]))
    else:
        key, mark, value = line.partition(": ")
        if not mark or key in front:
            raise SchemaError("is no new key and its value")
        front[key] = parse_json(value)
