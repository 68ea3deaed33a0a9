"""Input keys: the same wanted output has the same key, so it is never paid for twice."""

import hashlib
import json
from collections.abc import Iterable

from memories.models import Memory, MemoryVersion, Segment
from memories.rules.generate.prompt_texts import TEXTS

PROMPTS = hashlib.sha256(repr(TEXTS).encode()).hexdigest()[:12]

Numbered = tuple[int, int]  # a version's number and revision: its wording


def input_key(*parts: object) -> str:
    return hashlib.sha256(json.dumps([PROMPTS, *parts], default=str).encode()).hexdigest()


def segment_key(memory: Memory, segment: Segment, messages: Iterable[tuple[str, str]]) -> str:
    """``messages``: (ts, edited ts) of each."""
    what = f"segment {segment.number} {segment.first_us}-{segment.last_us}"
    return input_key(memory.pk, what, list(messages))


def provisional_key(memory: Memory) -> str:
    """There is one for each memory, whatever it reads."""
    return input_key(memory.pk, "provisional", [])


def thread_key(
    memory: Memory, base: Numbered | None, messages: Iterable[tuple[str, str, str]]
) -> str:
    """``messages``: (ts, edited ts, state) of each that waits."""
    return input_key(memory.pk, "thread", base, list(messages))


def merge_key(memory: Memory, base: Numbered | None, read: Iterable[tuple[int, int]]) -> str:
    """``read``: (row id of a version, its revision) of each."""
    return input_key(memory.pk, "merge", base, list(read))


def numbered(version: MemoryVersion | None, memory: Memory) -> Numbered | None:
    """The base of a merge. A memory whose versions are all withheld begins anew, once for each
    version that was withheld: with the same inputs as long ago, perhaps, and yet wanted."""
    if version is not None:
        return version.number, version.revision
    return (memory.head, -1) if memory.head else None
