"""Input keys: equal inputs have an equal key, so that no output is paid for twice."""

import hashlib
import json
from collections.abc import Iterable

from memories.models import Memory, MemoryVersion, Segment
from memories.rules.generate.prompt_texts import TEXTS

PROMPTS = hashlib.sha256(repr(TEXTS).encode()).hexdigest()[:12]

BaseKey = tuple[int, int]  # a version's number and revision


def input_key(*parts: object) -> str:
    return hashlib.sha256(json.dumps([PROMPTS, *parts], default=str).encode()).hexdigest()


def segment_key(memory: Memory, segment: Segment, messages: Iterable[tuple[str, str]]) -> str:
    """``messages``: the ts and edited ts of each."""
    window = f"segment {segment.number} {segment.first_us}-{segment.last_us}"
    return input_key(memory.pk, window, list(messages))


def provisional_key(memory: Memory) -> str:
    """Each memory has one provisional job, whatever it reads."""
    return input_key(memory.pk, "provisional", [])


def thread_key(
    memory: Memory, base: BaseKey | None, messages: Iterable[tuple[str, str, str]]
) -> str:
    """``messages``: the ts, edited ts and state of each that waits."""
    return input_key(memory.pk, "thread", base, list(messages))


def merge_key(memory: Memory, base: BaseKey | None, read: Iterable[tuple[int, int]]) -> str:
    """``read``: the key and revision of each version."""
    return input_key(memory.pk, "merge", base, list(read))


def base_key(version: MemoryVersion | None, memory: Memory) -> BaseKey | None:
    """Return the part of an input key that identifies the base of a merge.

    A memory whose versions are all withheld starts anew, perhaps with the inputs of an earlier
    merge. The number of its newest version makes that key a new one.
    """
    if version is not None:
        return version.number, version.revision
    return (memory.head, -1) if memory.head else None
