"""What must hold once everything is at rest, told from the rows and the ledger alone."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection

from memories.models import Line, Memory, MemoryVersion
from tests.hard.fake_model import WORD
from tests.hard.model_client import RecordedCall

MARK = re.compile(r"\ban(\d{6})x")


def verdict(words: Mapping[int, Iterable[str]], ledger: Iterable[RecordedCall]) -> dict[str, Any]:
    """Counts of everything that must not be; all are 0 when nothing is wrong.

    ``words``: of each channel (row id), the words of its messages.
    """
    rows = {row.n: row for row in ledger}
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    long_term: dict[int, set[str]] = defaultdict(set)
    marks: Counter[int] = Counter()
    foreign = 0
    versions = MemoryVersion.objects.select_related("memory", "base").order_by("pk")
    for version in versions.iterator():
        memory = version.memory
        if memory.scope != "channel" or memory.channel_id not in words:
            continue
        words_in_memory = WORD.findall(version.content)
        calls = _calls(version.content)
        foreign += not _is_of_an_answer(version, rows)
        if memory.memory_type == "short_term":
            counts[memory.channel_id].update(words_in_memory)
            marks.update(calls)
        elif memory.current_id == version.pk:
            archived = Line.objects.archived().filter(version__memory=memory)
            kept = [version.content, *archived.values_list("text", flat=True)]
            long_term[memory.channel_id].update(WORD.findall("\n".join(kept)))
    expected = {(channel, word) for channel, its in words.items() for word in its}
    return {
        "lost": sum(not counts[channel][word] for channel, word in expected),
        "duplicate": sum(counts[channel][word] > 1 for channel, word in expected),
        "astray": sum((c, w) not in expected for c in counts for w in counts[c]),
        "not_in_long_term": sum(word not in long_term[channel] for channel, word in expected),
        "answers_used_twice": sum(count > 1 for count in marks.values()),
        "not_an_answer": foreign,
        **numbers(),
        "integrity": integrity(),
    }


def _calls(text: str) -> list[int]:
    return [int(n) for n in MARK.findall(text)]


def _is_of_an_answer(version: MemoryVersion, rows: Mapping[int, RecordedCall]) -> bool:
    """What a text does not carry on from its base comes of one good answer, and says what that call
    was asked about."""
    base = version.base.content if version.base else ""
    calls = set(_calls(version.content)) - set(_calls(base))
    added = set(WORD.findall(version.content)) - set(WORD.findall(base))
    if not calls and version.is_by_person:
        return not added
    if len(calls) != 1 or not calls <= rows.keys():
        return False
    call = rows[calls.pop()]
    return not call.fault and added <= set(call.words)


def numbers() -> dict[str, int]:
    """Memories whose versions do not count from 1 without a gap, or whose head is not the last."""
    seen: dict[int, list[int]] = defaultdict(list)
    newest: dict[int, int] = {}
    for memory_id, number, pk in MemoryVersion.objects.order_by("number").values_list(
        "memory", "number", "pk"
    ):
        seen[memory_id].append(number)
        newest[memory_id] = pk
    gaps = heads = 0
    for memory in Memory.objects.all():
        of_it = seen[memory.pk]
        gaps += of_it != list(range(1, len(of_it) + 1))
        heads += memory.head != len(of_it) or memory.current_id != newest.get(memory.pk)
    return {"gaps": gaps, "wrong_heads": heads}


def integrity() -> int:
    """Lines of complaint of the database about itself."""
    if connection.vendor != "sqlite":
        return 0
    with connection.cursor() as cursor:
        checked = [row[0] for row in cursor.execute("PRAGMA integrity_check").fetchall()]
        foreign = cursor.execute("PRAGMA foreign_key_check").fetchall()
    return len(foreign) + (checked != ["ok"])


def is_clean(figures: Mapping[str, Any]) -> bool:
    return not any(figures.values())
