"""A bundle: one workspace as an open zip of JSON and Markdown (docs/bundle.md).

Names of its files; `bundle_text` says how they are written, `pipeline.bundle.records` what they hold.
"""

import re
from collections.abc import Mapping
from typing import Any

from memories.rules.memory.identity import WORKSPACE_SCOPE_ID, MemoryScope, MemoryType
from memories.rules.transfer.schema import Schema, an_object, text, whole

FORMAT = "memory-hub-workspace"

WORKSPACE = "workspace.json"
PEOPLE = "people.jsonl"
CHANNELS = "channels.jsonl"
SEGMENTS = "segments.jsonl"
BACKFILLS = "backfills.jsonl"
GENERATIONS = "jobs.jsonl"
NOTES = "notes.jsonl"
ALWAYS = (WORKSPACE, PEOPLE, CHANNELS, SEGMENTS, BACKFILLS, GENERATIONS, NOTES)

# -- names of files

_SPECIAL = re.compile(r"[^A-Za-z0-9_-]")
_UNSPEAKABLE = re.compile(r"[^\w-]+")


def of_id(slack_id: str) -> str:
    """A Slack id as part of a file's name: what is no letter or digit as ``%`` and its code."""
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):04X}", slack_id)


def messages_file(slack_id: str) -> str:
    return f"messages/{of_id(slack_id)}.jsonl"


def memory_folder(scope: str, memory_type: str, slack_id: str, name: str, thread_ts: str) -> str:
    """``memories/channels/C123-launch/long_term``: the name is for people, the id tells."""
    if scope == MemoryScope.WORKSPACE:
        return f"memories/workspace/{memory_type}"
    spoken = _UNSPEAKABLE.sub("-", name).strip("-")[:40]
    place = f"memories/channels/{of_id(slack_id)}" + (f"-{spoken}" if spoken else "")
    if scope == MemoryScope.THREAD:
        place += f"/threads/{thread_ts}"
    return f"{place}/{memory_type}"


def version_file(folder: str, number: int) -> str:
    return f"{folder}/v{number:04d}.md"


MANIFEST_SHAPE = Schema(
    {
        "prompts": text(64),
        "left_out": Schema({"channels": whole(), "references": whole()}),
        "counts": an_object,
    }
)


def valid_place(memory: Mapping[str, Any]) -> bool:
    """Whether scope, id, type, channel and thread of a memory belong together (S0)."""
    channel, thread_ts = memory["channel"], memory["thread_ts"]
    wanted = {
        MemoryScope.WORKSPACE: WORKSPACE_SCOPE_ID if not channel and not thread_ts else None,
        MemoryScope.CHANNEL: channel if not thread_ts else None,
        MemoryScope.THREAD: f"{channel}:{thread_ts}"
        if channel and thread_ts and memory["memory_type"] == MemoryType.SHORT_TERM
        else None,
    }[MemoryScope(memory["scope"])]
    return wanted is not None and wanted == memory["scope_id"]
