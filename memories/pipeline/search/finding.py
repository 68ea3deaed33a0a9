"""Search notes, memories, threads, messages and older versions for a reader.

Only the index of the reader's audiences is read, so neither the time nor the work depends on
unreadable texts. Rows are filtered by `visible_to` before they are counted. The number of queries
does not depend on the number of hits.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Subquery

from memories.models import (
    Channel,
    Line,
    Member,
    MemoryVersion,
    Message,
    Note,
    Reader,
    SearchDocument,
    User,
    Workspace,
)
from memories.models.access.audience import (
    member_channels,
    people_of,
    readable_workspaces,
)
from memories.models.ingest.messages import MessageQuerySet
from memories.models.memory.lines import LineQuerySet
from memories.models.search.documents import MESSAGE, NOTE, VERSION, SearchableQuerySet
from memories.rules import salience
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.memory.identity import MemoryScope
from memories.rules.search import tokenizer
from memories.rules.search.query import Has, Kind, Query, Sort
from memories.rules.search.tokenizer import Audience, audience_key

_WITH_PARTICLE = re.compile("[ぁ-ゖ].|.[はがをにのでともへや]")  # between two words
COUNTED = 500  # larger numbers are shown as "500+"; of so many newest hits the best are shown
QUESTION_HITS = 400  # the newest hits of a question; a context takes QUESTION_BEST of them
QUESTION_BEST = 200
HITS_PER_KIND = 5  # hits of each kind on a page of all kinds
MESSAGE_HITS = 20
PAGE_SIZE = 50  # hits on a page of one kind
LINE_VERSIONS = 200  # the newest versions with the words whose lines are searched
_TEXTS = 5_000  # lines whose tokens a process keeps: searches read the same lines

_LINKS = {Kind.MESSAGES: "<http"}  # Slack's markup; people and models write plain addresses


@dataclass(frozen=True)
class Group:
    """Hits of one kind. ``count`` is exact up to COUNTED; ``below`` begins the next page."""

    kind: Kind
    rows: Sequence[Any]
    count: int
    below: int | None = None

    @property
    def has_more(self) -> bool:
        return self.count > len(self.rows)


@dataclass(frozen=True)
class SearchResults:
    groups: list[Group] = field(default_factory=list)
    unknown: str = ""  # the name of a channel that is unknown or unreadable

    @property
    def count(self) -> int:
        return sum(min(group.count, COUNTED) for group in self.groups)

    @property
    def is_more(self) -> bool:
        """Whether the number of hits exceeds `count`."""
        return any(group.count > COUNTED for group in self.groups)


def find(
    query: Query,
    workspace: Workspace,
    reader: Reader,
    channels: Sequence[Channel],
    *,
    zone: tzinfo = UTC,
    below: int | None = None,
    only_sources: bool = False,
) -> SearchResults:
    """Return the hits, newest first or best first.

    ``channels`` are the readable channels with the name in the query. Days are in ``zone``. With
    ``only_sources`` there are no messages that no summary may use, such as revoked ones.
    """
    if query.is_empty:
        return SearchResults()
    channel = None
    if query.channel:
        channel = _channel(query.channel, channels)
        if channel is None:
            return SearchResults(unknown=query.channel)
    since, before = query.bounds(zone)
    author = _Author.named(query.person, workspace, reader) if query.person else None
    keys = audience_keys(workspace, reader, channel)
    groups = []
    for kind in _kinds(query):
        of_lines = kind is Kind.ARCHIVE or bool(query.line_kind)
        readable = _readable(kind, workspace, reader)
        if only_sources and kind is Kind.MESSAGES:
            readable = readable.rememberable()
        rows = _with_parts(readable, kind, query)
        lines = _lines(kind, query, author, since, before)
        if of_lines:
            rows = rows.filter(Exists(lines.filter(version=OuterRef("pk"))))
        else:
            rows = _written_by(rows, kind, query, author)
        if channel is not None:
            column = "memory__channel" if rows.model is MemoryVersion else "channel"
            rows = rows.filter(**{column: channel})
        matching = rows.matching(
            # An excluded word may be in another line of the version.
            [term for term in query.terms if not (of_lines and term.excluded)],
            keys,
            since_us=None if of_lines else since,
            before_us=None if of_lines else before,
            below=below if query.kind else None,
            few=of_lines or kind is Kind.THREADS,
        )
        if matching.query.is_empty():  # the reader has no audience with texts of this kind
            continue
        if of_lines:
            groups.append(_group_lines(kind, matching, lines, query))
        else:
            groups.append(_group(kind, matching, query, reader))
    return SearchResults([group for group in groups if group.rows])


def audience_keys(workspace: Workspace, reader: Reader, channel: Channel | None) -> list[str]:
    """Return the index keys of the reader's audiences in the workspace or in one channel."""
    own_channels = member_channels(reader).filter(workspace=workspace).order_by("pk")
    if channel is not None:
        own_channels = own_channels.filter(pk=channel.pk)
    channels = list(own_channels.values_list("pk", flat=True))
    if channel is not None:
        open_to = [(Audience.CHANNEL, channel.pk)]
    elif reader.is_narrowed:
        named = Channel.objects.visible_to(reader).filter(workspace=workspace).order_by("pk")
        open_to = [(Audience.CHANNEL, pk) for pk in named.values_list("pk", flat=True)]
    elif readable_workspaces(reader).filter(pk=workspace.pk).exists():
        open_to = [(Audience.WORKSPACE, workspace.pk)]
    else:
        open_to = [(Audience.CHANNEL, pk) for pk in channels]
    kinds = (MESSAGE, VERSION, NOTE)
    open_keys = [audience_key(kind, *audience) for kind in kinds for audience in open_to]
    member_keys = [audience_key(kind, Audience.MEMBERS, pk) for kind in kinds for pk in channels]
    return open_keys + SearchDocument.objects.members_keys_in_use(member_keys)


def question_words(question: str) -> list[str]:
    """Return the tokens that a search for a question looks up.

    Japanese pairs with a particle are in too many texts.
    """
    words = salience.content_words(question)
    content = [word for word in words if not _WITH_PARTICLE.fullmatch(word)]
    return tokenizer.index_words(content or words)


def question_hits(
    question: str, messages: MessageQuerySet, keys: Sequence[str], until_us: int
) -> Any:
    """Return the newest of the messages with a form of any word of a question, with their `tokens`.

    ``keys`` are those of the reader's audiences. No message after ``until_us`` is looked at.
    """
    newest = SearchDocument.objects.newest_messages(
        question_words(question), keys, until_us, QUESTION_HITS
    )
    tokens = SearchDocument.objects.filter(message=OuterRef("pk")).values("tokens")
    return messages.filter(pk__in=newest).annotate(tokens=Subquery(tokens))


def most_relevant(question: str, hits: Iterable[tuple[int, int, str]]) -> list[int]:
    """Return the keys of the messages that are most about a question, best first.

    ``hits`` are (key, time, tokens) of `question_hits`.
    """
    hits = list(hits)
    texts = [
        frozenset(map(tokenizer.stem_of, tokenizer.without_stems(tokens))) for _, _, tokens in hits
    ]
    scores = salience.bm25_scores(salience.stems(question), texts, salience.word_rarity(texts))
    ranked = sorted(zip(scores, hits, strict=True), key=lambda hit: (-hit[0], -hit[1][1]))
    return [key for _, (key, _, _) in ranked[:QUESTION_BEST]]


def _kinds(query: Query) -> list[Kind]:
    """Return the kinds that can have hits."""
    kinds = [query.kind] if query.kind else list(Kind)
    if query.writer:
        kinds = [kind for kind in kinds if kind not in (Kind.NOTES, Kind.MESSAGES)]
    if query.has & {Has.FILE, Has.THREAD}:
        kinds = [kind for kind in kinds if kind is Kind.MESSAGES]
    if query.line_kind:
        kinds = [k for k in kinds if k in (Kind.MEMORIES, Kind.THREADS, Kind.ARCHIVE)]
    return kinds


def _visible(kind: Kind, reader: Reader) -> Any:
    """Return the notes, messages or versions that the reader may read, with rows for the page."""
    if kind is Kind.NOTES:
        return Note.objects.visible_to(reader).select_related("author")
    if kind is Kind.MESSAGES:
        return Message.objects.visible_to(reader).select_related("channel", "author")
    versions = MemoryVersion.objects.visible_to(reader).with_text()
    related = ("memory__channel", "memory__workspace", "author", "job")
    return versions.select_related(*related).defer("job__reply", "job__reply_sources")


def _readable(kind: Kind, workspace: Workspace, reader: Reader) -> Any:
    """Return the rows of a kind in the workspace that the reader may read."""
    visible = _visible(kind, reader)
    if kind is Kind.NOTES:
        return visible.in_use(workspace)
    if kind is Kind.MESSAGES:
        return visible.filter(channel__workspace=workspace)
    versions = visible.filter(memory__workspace=workspace)
    if kind is Kind.OLDER:
        return versions.not_current()
    if kind is Kind.ARCHIVE:
        return versions
    of_thread = Q(memory__scope=MemoryScope.THREAD)
    return versions.current().filter(of_thread if kind is Kind.THREADS else ~of_thread)


def _with_parts(rows: SearchableQuerySet[Any], kind: Kind, query: Query) -> SearchableQuerySet[Any]:
    text = "text" if kind is Kind.MESSAGES else "content"
    if Has.LINK in query.has:
        rows = rows.containing(text, _LINKS.get(kind, "://"))
    if Has.CODE in query.has:
        rows = rows.containing(text, "`")
    if Has.FILE in query.has:
        rows = rows.containing("raw", '"files"')
    if Has.THREAD in query.has:
        rows = rows.filter(thread_ts=F("ts"), reply_count__gt=0)
    return rows


def _written_by(
    rows: SearchableQuerySet[Any], kind: Kind, query: Query, author: "_Author | None"
) -> SearchableQuerySet[Any]:
    if query.writer:
        rows = rows.filter(origin=query.writer)
    if author is not None:
        rows = rows.filter(author.of_message if kind is Kind.MESSAGES else author.of_text)
    return rows


def _group(kind: Kind, matching: Any, query: Query, reader: Reader) -> Group:
    limit = PAGE_SIZE if query.kind else MESSAGE_HITS if kind is Kind.MESSAGES else HITS_PER_KIND
    if query.sort is Sort.BEST and not all(term.excluded for term in query.terms):
        return _best(kind, matching, query, reader, limit)
    hits = matching.newest(limit + 1)
    rows = _load([pk for pk, _ in hits[:limit]], kind, reader)
    if len(hits) <= limit:
        return Group(kind, rows, len(hits))
    return Group(kind, rows, matching.count_up_to(COUNTED + 1), below=hits[limit - 1][1])


def _lines(
    kind: Kind, query: Query, author: "_Author | None", since: int | None, before: int | None
) -> LineQuerySet:
    """Return the archived lines or those in force, with the kind, author and days of the query."""
    lines = Line.objects.archived() if kind is Kind.ARCHIVE else Line.objects.in_force()
    if query.line_kind:
        lines = lines.filter(kind=query.line_kind)
    if query.writer:
        lines = lines.filter(origin=query.writer)
    if author is not None:
        lines = lines.filter(author.of_text)
    if since is not None:
        lines = lines.filter(at_us__gte=since)
    return lines if before is None else lines.filter(at_us__lt=before)


def _group_lines(kind: Kind, matching: Any, lines: LineQuerySet, query: Query) -> Group:
    """Return those of the lines that match the terms, of the newest versions that do."""
    versions = matching.newest(LINE_VERSIONS + 1)
    keys = [pk for pk, _ in versions[:LINE_VERSIONS]]
    lines = lines.filter(version__in=keys).newest_first()
    hits = [
        (pk, text)
        for pk, text in lines.values_list("pk", "text")
        if tokenizer.matches_terms(_tokens_of(text), query.terms)
        and (Has.LINK not in query.has or "://" in text)
        and (Has.CODE not in query.has or "`" in text)
    ]
    if query.sort is Sort.BEST:
        hits.sort(key=lambda hit: -tokenizer.score(_tokens_of(hit[1]), query.terms))
    shown = [pk for pk, _ in (hits if query.kind else hits[:HITS_PER_KIND])]
    related = ("author", "version__memory__channel", "version__memory__workspace")
    by_key = lines.select_related(*related).in_bulk(shown)
    rows = [by_key[pk] for pk in shown if pk in by_key]
    if not query.kind:
        return Group(kind, rows, len(hits))
    has_more = len(versions) > LINE_VERSIONS
    below = versions[LINE_VERSIONS - 1][1] if has_more else None
    return Group(kind, rows, len(hits) + has_more, below)


@lru_cache(maxsize=_TEXTS)
def _tokens_of(text: str) -> str:
    return tokenizer.tokenize_with_stems(strip_invisible(text))


def _best(kind: Kind, matching: Any, query: Query, reader: Reader, limit: int) -> Group:
    """Return the newest hits by relevance, then newest first."""
    hits = matching.newest_with_tokens(COUNTED + 1)
    ranked = sorted(hits, key=lambda hit: (-tokenizer.score(hit[2], query.terms), -hit[1]))
    return Group(kind, _load([pk for pk, _, _ in ranked[:limit]], kind, reader), len(hits))


def _load(keys: Sequence[int], kind: Kind, reader: Reader) -> list[Any]:
    """Return the visible rows of hits in the order of their keys.

    The hits themselves are found without related rows, which a database would join to all matches.
    """
    by_key = {row.pk: row for row in _visible(kind, reader).filter(pk__in=keys)}
    return [by_key[key] for key in keys if key in by_key]


def _channel(name: str, channels: Sequence[Channel]) -> Channel | None:
    """Return the channel by id or name; of several with the name, the first."""
    folded_name = name.casefold()
    named = [c for c in channels if c.slack_id == name or c.name.casefold() == folded_name]
    return named[0] if named else None


@dataclass(frozen=True)
class _Author:
    """The people and accounts with a name. Bots match by the name of their messages."""

    name: str
    people: tuple[int, ...]
    users: tuple[int, ...]

    @classmethod
    def named(cls, name: str, workspace: Workspace, reader: Reader) -> "_Author":
        if name.casefold() == "me" and reader.user_id is not None:
            own_people = people_of(reader).filter(workspace=workspace).values_list("pk", flat=True)
            return cls("", tuple(own_people), (reader.user_id,))
        term = tokenizer.parse_term(name)
        if term is None:
            return cls(name, (), ())
        people: list[int] = []
        users: list[int | None] = []
        of_people = workspace.people.values_list("pk", "user", "name", "real_name", "slack_id")
        for pk, user, *names in of_people:
            if any(tokenizer.matches_terms(tokenizer.tokenize(text), [term]) for text in names):
                people.append(pk)
                users.append(user)
        members = Member.objects.filter(workspace=workspace).values("user")
        for account in User.objects.filter(pk__in=members):
            names = [account.username, account.get_full_name()]
            if any(tokenizer.matches_terms(tokenizer.tokenize(text), [term]) for text in names):
                users.append(account.pk)
        return cls(name, tuple(people), tuple(user for user in users if user is not None))

    @property
    def of_text(self) -> Q:
        return Q(author__in=self.users)

    @property
    def of_message(self) -> Q:
        by_name = Q(username=self.name) if self.name else Q(pk__in=())
        return Q(author__in=self.people) | by_name
