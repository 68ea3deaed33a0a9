"""The hits of a search on the page: place, time, author and excerpt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memories.models import Channel, Line, MemoryVersion, Message, Note, Person
from memories.models.access.users import user_name
from memories.models.ingest.names import Names
from memories.pipeline.search.finding import COUNTED, Group, SearchResults
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.markup import render_plain
from memories.rules.memory.lines import strip_bullet
from memories.rules.search.query import Kind, Query, Sort, as_fields
from memories.rules.search.snippet import Piece, snippet
from memories.views import paths
from memories.views.access.access import WorkspaceAccess, format_count
from memories.views.ingest.messages import names_in
from memories.views.memory.display import author_kind, who_wrote


@dataclass(frozen=True)
class Hit:
    """A hit on the page. Only versions have an ``author_kind``, a ``number`` and ``older`` versions."""

    href: str
    where: str
    at: datetime | int
    who: str
    pieces: Sequence[Piece]
    is_private: bool = False
    author_kind: str = ""
    number: int = 0
    older: Sequence["Hit"] = ()

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True)
class HitGroup:
    """Hits of a kind. ``more`` is the address of all its hits, or of the next page."""

    kind: str
    title: str
    hits: list[Hit]
    count: str
    more: str
    is_folded: bool


def hit_groups(
    results: SearchResults, query: Query, access: WorkspaceAccess, parameters: QueryDict
) -> list[HitGroup]:
    """Return the hits of each kind. One query reads the names that messages mention.

    Older versions are folded behind the current version of their memory, if that is a hit too.
    """
    rows = {group.kind: group.rows for group in results.groups}
    current = {
        row.memory_id
        for kind in (Kind.MEMORIES, Kind.THREADS)
        for row in rows.get(kind, ())
        if isinstance(row, MemoryVersion)
    }
    older: dict[int, list[Hit]] = {}
    for row in rows.get(Kind.OLDER, ()):
        if row.memory_id in current:
            older.setdefault(row.memory_id, []).append(_version(row, query, {}))
    texts = [row.text for group in results.groups for row in group.rows if isinstance(row, Message)]
    names = names_in(texts, access)
    return [
        HitGroup(
            group.kind,
            _title(group.kind),
            [
                _hit(row, query, access, names, older)
                for row in group.rows
                if group.kind is not Kind.OLDER or row.memory_id not in older
            ],
            format_count(group.count, COUNTED),
            _more(group, query, parameters),
            group.kind is Kind.OLDER or (group.kind is Kind.ARCHIVE and len(results.groups) > 1),
        )
        for group in results.groups
    ]


@dataclass(frozen=True)
class Filter:
    """An active filter as words, and the query without it."""

    words: str
    without: Query


def filters_of(query: Query, access: WorkspaceAccess) -> list[Filter]:
    channel = access.find_channels([query.channel]).get(query.channel)
    writers = {
        "model": _("written by the model"),
        "person": _("written by a person"),
        "restore": _("restored"),
    }
    has = {
        "link": _("with a link"),
        "file": _("with a file"),
        "code": _("with code"),
        "thread": _("with replies"),
    }
    filters: list[Filter] = []
    if query.kind:
        words = _("only %(kind)s") % {"kind": _title(query.kind)}
        filters.append(Filter(words, replace(query, kind=None)))
    if query.channel:
        words = _("in #%(name)s") % {"name": channel.name if channel else query.channel}
        filters.append(Filter(words, replace(query, channel="")))
    if query.person:
        words = _("by %(name)s") % {"name": query.person}
        filters.append(Filter(words, replace(query, person="")))
    if query.writer:
        filters.append(Filter(writers[query.writer], replace(query, writer="")))
    if query.line_kind:
        words = _("only %(kind)s") % {"kind": line_kind_words()[query.line_kind]}
        filters.append(Filter(words, replace(query, line_kind="")))
    if query.since:
        words = _("from %(day)s") % {"day": _day(query.since)}
        filters.append(Filter(words, replace(query, since=None)))
    if query.until:
        words = _("until %(day)s") % {"day": _day(query.until)}
        filters.append(Filter(words, replace(query, until=None)))
    for feature in sorted(query.has):
        filters.append(Filter(has[feature], replace(query, has=query.has - {feature})))
    return filters


def _day(day: date) -> str:
    return date_format(day, _("j M Y"))


def wider_searches(query: Query, filters: Sequence[Filter], path: str) -> list[tuple[str, str]]:
    """Return wider searches as (words, address).

    They leave out all filters or one of them. Without filters each word is searched alone.
    """
    words = [word for word in query.words if not word.startswith("-")]
    if filters:
        steps = [
            (_("Remove filter: %(filter)s") % {"filter": applied.words}, applied.without)
            for applied in filters
        ]
        links = [(label, f"{path}?{urlencode(as_fields(step))}") for label, step in steps]
        everywhere = (_("Search everywhere"), f"{path}?{urlencode({'q': ' '.join(words)})}")
        if len(filters) == 1:
            return [everywhere] if words else []
        return [everywhere, *links] if words else links
    if len(words) < 2 and words == list(query.words):
        return []
    return [
        (_("Only “%(word)s”") % {"word": word.strip('"')}, f"{path}?{urlencode({'q': word})}")
        for word in words
    ]


def _title(kind: Kind) -> str:
    return {
        Kind.NOTES: _("Notes"),
        Kind.MEMORIES: _("Memories"),
        Kind.OLDER: _("Older versions"),
        Kind.ARCHIVE: _("Archive"),
        Kind.THREADS: _("Threads"),
        Kind.MESSAGES: _("Messages"),
    }[kind]


def line_kind_words() -> dict[str, str]:
    """Return the kinds of lines with their names."""
    return {
        "decision": _("decisions"),
        "task": _("tasks"),
        "question": _("open questions"),
        "status": _("status"),
        "event": _("events"),
    }


def name_links(
    rows: Iterable[Channel | Note | Person], access: WorkspaceAccess, path: str
) -> list[tuple[str, str]]:
    """Return channels, notes and people as (name, address). A person's is a search by author."""
    links = []
    for row in rows:
        if isinstance(row, Channel):
            links.append((f"#{row.name}", paths.channel_path(access.workspace.slug, row.slack_id)))
        elif isinstance(row, Note):
            href = reverse("notes-detail", args=[access.workspace.slug, row.pk])
            links.append((strip_invisible(row.title), href))
        else:
            query = urlencode({"q": f'from:"{row.name}"'})
            links.append((_("Texts by %(name)s") % {"name": row.name}, f"{path}?{query}"))
    return links


def _more(group: Group, query: Query, parameters: QueryDict) -> str:
    """Return the address of all hits of the kind, or of the next page; "" without more hits.

    The best hits have no next page. All hits of the kind are listed newest first.
    """
    if not group.has_more:
        return ""
    fields = parameters.copy()
    fields["in"] = group.kind
    fields.pop("below", None)
    if query.kind and query.sort is Sort.BEST:
        fields["sort"] = Sort.NEWEST
    elif query.kind and group.below is not None:
        fields["below"] = str(group.below)
    return f"?{fields.urlencode()}"


def _hit(
    row: Any, query: Query, access: WorkspaceAccess, names: Names, older: dict[int, list[Hit]]
) -> Hit:
    if isinstance(row, Message):
        return _message(row, query, access, names)
    if isinstance(row, Line):
        return _line(row, query)
    if isinstance(row, Note):
        return _note(row, query, access)
    return _version(row, query, older)


def _message(row: Message, query: Query, access: WorkspaceAccess, names: Names) -> Hit:
    text = render_plain(strip_invisible(row.text), names)
    return Hit(
        paths.message_path(access.workspace.slug, row),
        f"#{row.channel.name}",
        row.micros,
        row.author_name,
        snippet(text, query.terms),
        is_private=not row.channel.is_public,
    )


def _version(row: MemoryVersion, query: Query, older: dict[int, list[Hit]]) -> Hit:
    memory = row.memory
    is_current = memory.current_id == row.pk
    return Hit(
        paths.card_path(memory) if is_current else reverse("versions-detail", args=[row.pk]),
        f"{paths.scope_name(memory)}: {paths.type_name(memory)}",
        row.created_at,
        who_wrote(row),
        snippet(strip_invisible(row.content), query.terms),
        is_private=memory.channel is not None and not memory.channel.is_public,
        author_kind=author_kind(row),
        number=row.number,
        older=older.get(memory.pk, []) if is_current else [],
    )


def _line(row: Line, query: Query) -> Hit:
    memory = row.version.memory
    is_archived = row.outcome == Line.Outcome.ARCHIVED
    archive = f"{reverse('archive-index', args=[memory.pk])}?line={row.pk}"
    return Hit(
        archive if is_archived else paths.card_path(memory),
        f"{paths.scope_name(memory)}: {paths.type_name(memory)}",
        row.at_us,
        user_name(row.author),
        snippet(strip_invisible(strip_bullet(row.text)), query.terms),
        is_private=memory.channel is not None and not memory.channel.is_public,
    )


def _note(row: Note, query: Query, access: WorkspaceAccess) -> Hit:
    tags = f" ({', '.join(row.tags)})" if row.tags else ""
    text = row.content if row.content.startswith(row.title[:20]) else f"{row.title}: {row.content}"
    return Hit(
        reverse("notes-detail", args=[access.workspace.slug, row.pk]),
        str(row.channel) if row.channel else _("whole workspace"),
        row.created_at,
        user_name(row.author),
        snippet(strip_invisible(text + tags), query.terms),
        is_private=row.channel is not None and not row.channel.is_public,
    )
