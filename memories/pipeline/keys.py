"""Input keys: the same wanted output has the same key, so it is never paid for twice."""

import hashlib
import json
from collections.abc import Iterable

from memories.models import Memory, MemoryVersion
from memories.rules.prompt_texts import TEXTS

PROMPTS = hashlib.sha256(repr(TEXTS).encode()).hexdigest()[:12]


def input_key(*parts: object) -> str:
    return hashlib.sha256(json.dumps([PROMPTS, *parts], default=str).encode()).hexdigest()


def messages_key(memory: Memory, what: str, messages: Iterable[tuple[str, str]]) -> str:
    """``messages``: (ts, edited ts) of each."""
    return input_key(memory.pk, what, list(messages))


def merge_key(memory: Memory, base: MemoryVersion | None, inputs: Iterable[MemoryVersion]) -> str:
    return input_key(
        memory.pk,
        "merge",
        base and (base.number, base.revision),
        [(version.pk, version.revision) for version in inputs],
    )
