"""The texts of memories and the facts of their lines, for a context."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Aggregate, Case, F, JSONField, OuterRef, Subquery, Value, When
from django.db.models.functions import Coalesce, Concat, JSONArray, NullIf, Trim

from memories.models import EarlierWording, Line, MemoryVersion, User
from memories.models.access.users import user_name
from memories.rules.context.material import (
    ARCHIVE,
    LONG_TERM,
    SHORT_TERM,
    THREAD,
    WORKSPACE,
    LineFacts,
    MemoryText,
)
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import (
    WORKSPACE_SCOPE_ID,
    MemoryScope,
    MemoryType,
    parse_thread_scope_id,
)
from memories.rules.memory.lines import Origin, strip_bullet
from memories.rules.settings import MemorySettings

MAX_KEYS = 30_000  # SQLite's limit of parameters in a query, rounded down
ARCHIVED = 1_000  # lines of the archive in a context

_KINDS = {MemoryType.LONG_TERM: LONG_TERM, MemoryType.SHORT_TERM: SHORT_TERM}
_ORDER = (LONG_TERM, ARCHIVE, SHORT_TERM, THREAD)


class JSONAgg(Aggregate):
    """The values of a group as a JSON array."""

    function = "JSON_GROUP_ARRAY"
    output_field = JSONField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return self.as_sql(compiler, connection, function="JSONB_AGG", **options)


_FACTS = ("position", "text", "origin", "pinned", "kind", "at_us", "outcome")

# The name of a line's author, "" for a line of a model.
AUTHOR_NAME = Coalesce(
    NullIf(Trim(Concat("author__first_name", Value(" "), "author__last_name")), Value("")),
    "author__username",
    Value(""),
)


def line_rows(at_us: int | None) -> Subquery:
    """Return the facts of the lines of a version, for `line_facts`, in the query of the versions.

    With ``at_us`` a line has no outcome that was decided later.
    """
    outcome: Any = F("outcome")
    if at_us is not None:
        outcome = Case(When(outcome_us__gt=at_us, then=Value("")), default=outcome)
    return Subquery(
        Line.objects.filter(version=OuterRef("pk"), redacted=False)
        .order_by()
        .values("version")
        .annotate(rows=JSONAgg(JSONArray(*_FACTS[:-1], outcome, AUTHOR_NAME)))
        .values("rows")
    )


def published(versions: Sequence[MemoryVersion], settings: MemorySettings) -> list[MemoryVersion]:
    """Return the versions that may be in contexts.

    Summaries are never reviewed. They stay out where the merges of channels are reviewed.
    """
    return [
        version
        for version in versions
        if not settings.reviews_channels
        or version.memory.memory_type == MemoryType.LONG_TERM
        or version.is_by_person
        or (version.memory.scope == MemoryScope.WORKSPACE and settings.reviews_workspace)
    ]


def apply_earlier_wordings(versions: list[MemoryVersion], at: datetime) -> list[MemoryVersion]:
    """Give the versions the text and the line facts that they had at a time. Two queries."""
    EarlierWording.objects.load_into(versions, at)
    lines_then = [line for version in versions for line in version.lines_then or ()]
    authors = User.objects.in_bulk({line.author_id for line in lines_then if line.author_id})
    at_us = to_micros(at)

    for version in versions:
        if version.lines_then is not None:
            lines = [line for line in version.lines_then if not line.redacted]
            for line in lines:
                if line.outcome_us > at_us:
                    line.outcome = ""  # decided between that time and the change in place
            version.line_rows = [  # type: ignore[attr-defined]
                [
                    *(getattr(line, name) for name in _FACTS),
                    user_name(authors.get(line.author_id or 0)),
                ]
                for line in lines
            ]
    return versions


def archived_lines(versions: Sequence[Any], at_us: int | None) -> list[Line]:
    """Return the newest archived lines of these long-term memories, oldest first.

    With ``at_us`` these are the lines that were archived at that time and still are.
    """
    memories = [x.memory_id for x in versions if x.memory.memory_type == MemoryType.LONG_TERM]
    rows = Line.objects.archived().filter(version__memory__in=memories[:MAX_KEYS])
    if at_us is not None:
        rows = rows.filter(outcome_us__lte=at_us)
    return list(reversed(rows.select_related("version__memory").newest_first()[:ARCHIVED]))


def memory_texts(
    versions: Sequence[Any], archive: Sequence[Line], channels: Sequence[str]
) -> list[MemoryText]:
    """Return the texts of the workspace, then of each channel, then of threads by ts."""
    texts = []
    for version in versions:
        memory = version.value
        kind, scope_key = _KINDS[memory.memory_type], memory.scope_id
        if memory.scope is MemoryScope.WORKSPACE:
            scope_key = WORKSPACE
        elif memory.scope is MemoryScope.THREAD:
            kind, scope_key = THREAD, parse_thread_scope_id(scope_key)[1]
        text = MemoryText(kind, memory.content, scope_key, version=version.pk)
        if kind == THREAD or (kind == SHORT_TERM and scope_key != WORKSPACE):
            text = replace(text, number=version.number, until_us=version.until_us)
        texts.append(text)
    archives: dict[str, list[str]] = {}
    for line in archive:
        archives.setdefault(line.version.memory.scope_id, []).append(line.text)
    for scope_id, lines in archives.items():
        scope_key = WORKSPACE if scope_id == WORKSPACE_SCOPE_ID else scope_id
        texts.append(MemoryText(ARCHIVE, "\n".join(lines), scope_key))
    order = {key: i for i, key in enumerate([WORKSPACE, *channels])}

    def position(text: MemoryText) -> tuple[int, str, int, int, int]:
        is_thread = text.kind == THREAD
        index = len(order) if is_thread else order[text.scope_key]
        thread = text.scope_key if is_thread else ""
        return (index, thread, _ORDER.index(text.kind), text.until_us, text.number)

    return sorted(texts, key=position)


def line_facts(versions: Sequence[Any], archive: Sequence[Line]) -> dict[str, LineFacts]:
    """Return the facts of lines by their words. Equal lines share the newest time.

    Whether they are replaced is decided by the long-term memory of a channel, else by the newest.
    """
    facts: dict[str, LineFacts] = {}
    states: dict[str, tuple[bool, int, bool]] = {}
    rows = [(*row, version) for version in versions for row in version.line_rows or ()]
    rows.sort(key=lambda row: (row[0], row[-1].pk))
    for _, text, origin, is_pinned, kind, at_us, outcome, author, version in rows:
        words = strip_bullet(text)
        before = facts.get(words, LineFacts())
        memory = version.memory
        is_long_term = memory.memory_type == MemoryType.LONG_TERM and memory.channel_id is not None
        is_replaced = outcome == Line.Outcome.SUPERSEDED
        state = (is_long_term, at_us or version.until_us, is_replaced)
        states[words] = max(states.get(words, state), state)
        facts[words] = LineFacts(
            max(before.at_us, at_us or version.until_us),
            before.is_protected or bool(is_pinned or author) or origin == Origin.PERSON,
            kind or before.kind,
            states[words][2],
            author or before.author,
        )
    for line in archive:
        facts[strip_bullet(line.text)] = LineFacts(line.at_us)
    return facts
