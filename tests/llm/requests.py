"""Factories of requests as the pipeline builds them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import Addition, MemoryLine, MessageLine, Request

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def messages(
    *texts: str, author: str = "Ana", first: int = 1, thread: str = ""
) -> list[MessageLine]:
    """One message a minute from 2026-11-02 09:00 UTC on, refs from ``first``."""
    return [
        MessageLine(ref, START + timedelta(minutes=ref - 1), author, text, thread)
        for ref, text in enumerate(texts, first)
    ]


def memory(*texts: str, first: int = 1) -> list[MemoryLine]:
    """One line a minute from 2026-11-02 09:00 UTC on, refs from ``first``."""
    at_us = to_micros(START)
    return [
        MemoryLine(ref, text, at_us=at_us + ref * 60_000_000)
        for ref, text in enumerate(texts, first)
    ]


def added(*texts: str, title: str = "#general", first: int = 1) -> list[Addition]:
    return [Addition(title, memory(*texts, first=first))]


def make_request(
    scope: MemoryScope, memory_type: MemoryType, *, max_tokens: int = 300, **parts: Any
) -> Request:
    values: dict[str, Any] = {"language": "en", "zone": "UTC", "scope_name": "#general"} | parts
    return Request(scope=scope, memory_type=memory_type, max_tokens=max_tokens, **values)


def short(lines: Sequence[MessageLine] = (), **parts: Any) -> Request:
    """Build a short-term request of a channel."""
    return make_request(MemoryScope.CHANNEL, MemoryType.SHORT_TERM, messages=lines, **parts)


def long(**parts: Any) -> Request:
    """Build a long-term request of a channel, with the seed's limit."""
    return make_request(MemoryScope.CHANNEL, MemoryType.LONG_TERM, **{"max_tokens": 500} | parts)
