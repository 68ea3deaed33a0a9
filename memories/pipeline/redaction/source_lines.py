"""The lines of memories that have removed messages as sources."""

from collections.abc import Iterable

from django.db import models

from memories.models import Line
from memories.rules.batches import in_batches


def lines_with_source(
    lines: "models.QuerySet[Line]", messages: Iterable[int]
) -> dict[tuple[int, int], int]:
    """Return (line, message) → version for the lines that have one of the messages as a source."""
    through = Line.sources.through.objects.filter(line__in=lines)
    matches = {}
    for keys in in_batches(messages):
        rows = through.filter(message_id__in=keys)
        for *pair, version in rows.values_list("line_id", "message_id", "line__version_id"):
            matches[pair[0], pair[1]] = version
    return matches


def texts_with_source(messages: Iterable[int]) -> set[str]:
    """Return the texts of the lines that have one of the messages as a source."""
    texts: set[str] = set()
    for keys in in_batches(messages):
        lines = Line.objects.filter(sources__in=keys, redacted=False)
        texts.update(lines.values_list("text", flat=True))
    return texts
