"""A query → what its reader may see of it: notes, memories, older versions, threads and messages.

The index is read for the reader's audiences alone, so neither its time nor its work depends on a text
that is not theirs. `visible_to` is asked before anything is counted, so a number does not either.
The number of questions to the database is the same for ten hits and for a million.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
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
    fetch_keys,
    member_channels,
    people_of,
    readable_workspaces,
)
from memories.models.ingest.messages import MessageQuerySet
from memories.models.search.documents import MESSAGE, NOTE, VERSION, SearchableQuerySet
from memories.rules.generate import salience
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.memory.identity import MemoryScope
from memories.rules.search import tokenizer
from memories.rules.search.query import Has, Kind, Query, Sort
from memories.rules.search.tokenizer import Audience, audience_key

COUNTED = 1_000  # beyond it the number is "1,000+"
RANKED = 10_000  # the newest hits, of which the best are chosen
QUESTION_HITS = 3_000  # the newest hits of a question, of which QUESTION_BEST go into a context
QUESTION_BEST = 200
IN_EACH = 5  # hits of a kind, where all kinds are shown
OF_MESSAGES = 20
OF_ONE = 50  # where one kind is asked for
ARCHIVES = 200  # the newest versions with the words in which archived lines are looked for

_LINKS = {Kind.MESSAGES: "<http"}  # as Slack writes it; people and models write the address alone


@dataclass(frozen=True)
class Group:
    """Hits of one kind. ``count`` stops at COUNTED; ``below`` is where the next ones begin."""

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
    unknown: str = ""  # the channel that was named, and which the reader cannot mean

    @property
    def count(self) -> int:
        return sum(min(group.count, COUNTED) for group in self.groups)

    @property
    def is_more(self) -> bool:
        """Whether there are more than `count`."""
        return any(group.count > COUNTED for group in self.groups)


def find(
    query: Query,
    workspace: Workspace,
    reader: Reader,
    channels: Sequence[Channel],
    *,
    zone: tzinfo = UTC,
    below: int | None = None,
) -> SearchResults:
    """What matches, newest first or best first; ``channels`` are all that the reader may read
    and that the query may name; a day is one of ``zone``."""
    if query.is_empty:
        return SearchResults()
    reader = fetch_keys(reader)
    channel = None
    if query.channel:
        channel = _channel(query.channel, channels)
        if channel is None:
            return SearchResults(unknown=query.channel)
    since, before = query.bounds(zone)
    who = _Who.named(query.person, workspace, reader) if query.person else None
    keys = keys_of(workspace, reader, channel)
    groups = []
    for kind in _kinds(query):
        rows = _narrowed(_readable(kind, workspace, reader), kind, query, who)
        if channel is not None:
            place = "memory__channel" if rows.model is MemoryVersion else "channel"
            rows = rows.filter(**{place: channel})
        of_archive = kind is Kind.ARCHIVE
        matching = rows.matching(
            # What a line must not say, another line of its version may.
            [term for term in query.terms if not (of_archive and term.excluded)],
            keys,
            since_us=since,
            before_us=before,
            below=below if query.kind else None,
        )
        groups.append(_archived(matching, query) if of_archive else _group(kind, matching, query))
    return SearchResults([group for group in groups if group.rows])


def keys_of(workspace: Workspace, reader: Reader, channel: Channel | None) -> list[str]:
    """The keys of the audiences that the reader is in, of the whole workspace or of one channel."""
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
    of_all = [audience_key(kind, *audience) for kind in kinds for audience in open_to]
    of_mine = [audience_key(kind, Audience.MEMBERS, pk) for kind in kinds for pk in channels]
    return of_all + SearchDocument.objects.members_keys_in_use(of_mine)


def question_hits(question: str, messages: MessageQuerySet, keys: Sequence[str]) -> Any:
    """Return the newest messages with any word of a question, annotated with their `tokens`.

    ``keys`` are those of the reader's audiences.
    """
    newest = messages.matching_any(sorted(salience.content_words(question)), keys)[:QUESTION_HITS]
    tokens = SearchDocument.objects.filter(message=OuterRef("pk")).values("tokens")
    hits = Message.objects.filter(pk__in=newest.values("pk"))
    return hits.annotate(tokens=Subquery(tokens))


def most_relevant(question: str, hits: Iterable[tuple[int, int, str]]) -> list[int]:
    """Return the keys of the messages that are most about a question, best first.

    ``hits`` are (key, time, tokens) of `question_hits`.
    """
    hits = list(hits)
    texts = [frozenset(tokens.split()) for _, _, tokens in hits]
    scores = salience.bm25_scores(
        salience.content_words(question), texts, salience.word_rarity(texts)
    )
    ranked = sorted(zip(scores, hits, strict=True), key=lambda hit: (-hit[0], -hit[1][1]))
    return [key for _, (key, _, _) in ranked[:QUESTION_BEST]]


def _kinds(query: Query) -> list[Kind]:
    """Those in which there can be any hit."""
    kinds = [query.kind] if query.kind else list(Kind)
    if query.writer:
        kinds = [kind for kind in kinds if kind not in (Kind.NOTES, Kind.MESSAGES)]
    if query.person:  # nobody is known to have said or written a single line
        kinds = [kind for kind in kinds if kind is not Kind.ARCHIVE]
    if query.has & {Has.FILE, Has.THREAD}:
        kinds = [kind for kind in kinds if kind is Kind.MESSAGES]
    return kinds


def _readable(kind: Kind, workspace: Workspace, reader: Reader) -> SearchableQuerySet[Any]:
    """All of a kind that this reader may read, with what is shown of it."""
    if kind is Kind.NOTES:
        return Note.objects.visible_to(reader).in_use(workspace).select_related("author")
    if kind is Kind.MESSAGES:
        messages = Message.objects.visible_to(reader).filter(channel__workspace=workspace)
        return messages.select_related("channel", "author")
    versions = MemoryVersion.objects.visible_to(reader).with_text()
    versions = versions.filter(memory__workspace=workspace).select_related(
        "memory__channel", "memory__workspace", "author", "job"
    )
    versions = versions.defer("job__reply", "job__cites")
    if kind is Kind.OLDER:
        return versions.not_current()
    if kind is Kind.ARCHIVE:
        return versions.filter(Exists(Line.objects.archived().filter(version=OuterRef("pk"))))
    of_thread = Q(memory__scope=MemoryScope.THREAD)
    return versions.current().filter(of_thread if kind is Kind.THREADS else ~of_thread)


def _narrowed(
    rows: SearchableQuerySet[Any], kind: Kind, query: Query, who: "_Who | None"
) -> SearchableQuerySet[Any]:
    text = "text" if kind is Kind.MESSAGES else "content"
    if Has.LINK in query.has:
        rows = rows.holding(text, _LINKS.get(kind, "://"))
    if Has.CODE in query.has:
        rows = rows.holding(text, "`")
    if Has.FILE in query.has:
        rows = rows.holding("raw", '"files"')
    if Has.THREAD in query.has:
        rows = rows.filter(thread_ts=F("ts"), reply_count__gt=0)
    if query.writer and kind is not Kind.ARCHIVE:
        rows = rows.filter(origin=query.writer)
    if who is not None:
        rows = rows.filter(who.wrote_message if kind is Kind.MESSAGES else who.wrote)
    return rows


def _group(kind: Kind, matching: Any, query: Query) -> Group:
    most = OF_ONE if query.kind else OF_MESSAGES if kind is Kind.MESSAGES else IN_EACH
    if query.sort is Sort.BEST and query.terms:
        return _best(kind, matching, query, most)
    rows = list(matching[: most + 1])
    count = len(rows)
    if count > most:
        count = matching.counted(COUNTED + 1)
    below = rows[most - 1].found_at if len(rows) > most else None
    return Group(kind, rows[:most], count, below)


def _archived(matching: Any, query: Query) -> Group:
    """Archived lines that hold the words by themselves, of the newest versions that do."""
    versions = list(matching[: ARCHIVES + 1])
    found_at = {version.pk: version.found_at for version in versions[:ARCHIVES]}
    lines = Line.objects.archived().filter(version__in=found_at)
    rows = [
        line
        for line in lines.select_related("version__memory__channel", "version__memory__workspace")
        if tokenizer.holds(tokenizer.stored(strip_invisible(line.text)), query.terms)
        and query.writer in ("", line.origin)
        and (Has.LINK not in query.has or "://" in line.text)
        and (Has.CODE not in query.has or "`" in line.text)
    ]
    rows.sort(key=lambda line: (-found_at[line.version_id], line.position))
    if not query.kind:
        return Group(Kind.ARCHIVE, rows[:IN_EACH], len(rows))
    has_more = len(versions) > ARCHIVES
    below = versions[ARCHIVES - 1].found_at if has_more else None
    return Group(Kind.ARCHIVE, rows, len(rows) + has_more, below)


def _best(kind: Kind, matching: Any, query: Query, most: int) -> Group:
    """Of the newest hits those that say the words most; of equals the newer first."""
    hits = list(matching.tokens_found()[:RANKED])
    ranked = sorted(hits, key=lambda hit: (-tokenizer.score(hit[2], query.terms), -hit[1]))
    keys = [pk for pk, _, _ in ranked[:most]]
    by_key = {row.pk: row for row in matching.filter(pk__in=keys)}
    rows = [by_key[key] for key in keys if key in by_key]
    return Group(kind, rows, min(len(hits), COUNTED + 1))


def _channel(name: str, channels: Sequence[Channel]) -> Channel | None:
    """By its id, or by its name: of several, the one in use."""
    folded_name = name.casefold()
    named = [c for c in channels if c.slack_id == name or c.name.casefold() == folded_name]
    return named[0] if named else None


@dataclass(frozen=True)
class _Who:
    """People and accounts of a name; bots by the name that their messages came with."""

    name: str
    people: tuple[int, ...]
    users: tuple[int, ...]

    @classmethod
    def named(cls, name: str, workspace: Workspace, reader: Reader) -> "_Who":
        if name.casefold() == "me" and reader.user_id is not None:
            own_people = people_of(reader).filter(workspace=workspace).values_list("pk", flat=True)
            return cls("", tuple(own_people), (reader.user_id,))
        term = tokenizer.term(name)
        if term is None:
            return cls(name, (), ())
        people: list[int] = []
        users: list[int | None] = []
        of_people = workspace.people.values_list("pk", "user", "name", "real_name", "slack_id")
        for pk, user, *names in of_people:
            if any(tokenizer.holds(tokenizer.stored(text), [term]) for text in names):
                people.append(pk)
                users.append(user)
        members = Member.objects.filter(workspace=workspace).values("user")
        for account in User.objects.filter(pk__in=members):
            names = [account.username, account.get_full_name()]
            if any(tokenizer.holds(tokenizer.stored(text), [term]) for text in names):
                users.append(account.pk)
        return cls(name, tuple(people), tuple(user for user in users if user is not None))

    @property
    def wrote(self) -> Q:
        return Q(author__in=self.users)

    @property
    def wrote_message(self) -> Q:
        by_name = Q(username=self.name) if self.name else Q(pk__in=())
        return Q(author__in=self.people) | by_name
