"""Parse the text of the search field.

``移行 "next friday" -draft in:#ops from:mika after:2026-11-01``: a hit has all words in any order,
quoted phrases as they are, and no word with a minus. Operators have the meaning they have in Slack.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.timestamps import to_micros
from memories.rules.search import tokenizer
from memories.rules.search.tokenizer import Term

MAX_QUERY_LENGTH = 300  # characters
MAX_TERMS = 20
LINE_KINDS = ("decision", "task", "question", "status", "event")


class Kind(StrEnum):
    """The kinds of hits, in the order of the results page."""

    NOTES = "notes"
    MEMORIES = "memories"
    THREADS = "threads"
    MESSAGES = "messages"
    OLDER = "older"
    ARCHIVE = "archive"


class Has(StrEnum):
    LINK = "link"
    FILE = "file"
    CODE = "code"
    THREAD = "thread"


class Sort(StrEnum):
    BEST = "best"
    NEWEST = "newest"


WRITERS = {"model": "model", "llm": "model", "person": "person", "restore": "restore"}


@dataclass(frozen=True)
class Query:
    """A parsed query. ``words`` are the terms as typed.

    ``channel`` and ``person`` are names as typed, "" for any. ``writer`` is an origin of versions,
    ``line_kind`` a kind of lines.
    ``since`` and ``until`` are days, both included. ``wrong`` are operators that are not understood,
    and words over the limit.
    """

    terms: tuple[Term, ...] = ()
    kind: Kind | None = None
    channel: str = ""
    person: str = ""
    writer: str = ""
    line_kind: str = ""
    since: date | None = None
    until: date | None = None
    has: frozenset[Has] = frozenset()
    wrong: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    sort: Sort = Sort.BEST

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for. Excluded words alone are no query."""
        return all(term.excluded for term in self.terms) and not self.is_narrowed

    @property
    def is_narrowed(self) -> bool:
        """Whether the query has filters."""
        return replace(self, terms=(), words=(), wrong=(), sort=Sort.BEST) != Query()

    def bounds(self, zone: tzinfo) -> tuple[int | None, int | None]:
        """Return the days as microseconds: the start, and the end (excluded)."""
        return (
            _midnight(self.since, zone) if self.since else None,
            _midnight(self.until + timedelta(days=1), zone) if self.until else None,
        )


_PIECE = re.compile(
    r'(?P<minus>-)?(?:(?P<key>in|from|by|before|after|on|has|kind):(?P<value>"[^"]*"?|\S*)'
    r'|"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))',
    re.IGNORECASE,
)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "＂": '"', "：": ":"})
_DAY = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})")


def parse(typed: str) -> Query:
    """Return the query of a typed text. What it ignores is in ``wrong``."""
    query = Query()
    for match in _PIECE.finditer(make_storable(typed, MAX_QUERY_LENGTH).translate(_QUOTES)):
        minus = match["minus"] is not None
        if match["key"]:
            if minus:  # only words can be excluded
                query = replace(query, wrong=(*query.wrong, match[0]))
            else:
                query = _with_operator(
                    query, match["key"].lower(), match["value"].strip('"'), match[0]
                )
            continue
        word = match["phrase"] if match["word"] is None else match["word"]
        term = tokenizer.parse_term(
            word,
            exact=match["word"] is None,
            begins=match["word"] is not None and word.endswith("*"),
            excluded=minus,
        )
        if term is None or term in query.terms:
            continue
        if len(query.terms) == MAX_TERMS:
            query = replace(query, wrong=(*query.wrong, match[0]))
        else:
            words = (*query.words, match[0])
            query = replace(query, terms=(*query.terms, term), words=words)
    return query


def with_fields(query: Query, fields: Mapping[str, str]) -> Query:
    """Return the query with the fields of the form. Operators in the text come first."""
    values = {key: make_storable(value.strip(), MAX_QUERY_LENGTH) for key, value in fields.items()}
    if not query.kind and values.get("in") in set(Kind):
        query = replace(query, kind=Kind(values["in"]))
    if not query.channel:
        query = replace(query, channel=values.get("channel", "").removeprefix("#"))
    if not (query.person or query.writer) and values.get("by"):
        query = _with_operator(query, "by", values["by"], "")
    if not query.line_kind and values.get("kind") in LINE_KINDS:
        query = replace(query, line_kind=values["kind"])
    days = {name: _day(values.get(name, "")) for name in ("from", "to")}
    wrong = (values[name] for name, day in days.items() if values.get(name) and day is None)
    query = replace(
        query,
        since=query.since or days["from"],
        until=query.until or days["to"],
        wrong=(*query.wrong, *wrong),
    )
    return replace(query, sort=Sort.NEWEST) if values.get("sort") == Sort.NEWEST else query


def as_fields(query: Query) -> dict[str, str]:
    """Return the fields of the form for a query, without operators that were not understood."""
    has = [f"has:{feature}" for feature in sorted(query.has)]
    person = [f'from:"{query.person}"'] if query.person else []
    fields = {
        "q": " ".join([*query.words, *person, *has]),
        "in": query.kind or "",
        "channel": query.channel,
        "by": query.writer,
        "kind": query.line_kind,
        "from": query.since.isoformat() if query.since else "",
        "to": query.until.isoformat() if query.until else "",
        "sort": "" if query.sort is Sort.BEST else query.sort,
    }
    return {key: value for key, value in fields.items() if value}


def _with_operator(query: Query, key: str, value: str, typed: str) -> Query:
    """Return the query with one more operator."""
    lower = value.lower()
    is_date = key in ("before", "after", "on")
    day = _day(value) if is_date else None
    if not value or (is_date and day is None):
        return replace(query, wrong=(*query.wrong, typed)) if value else query
    if day is not None:
        return _within(query, key, day)
    if key == "in" and lower in set(Kind):
        return replace(query, kind=Kind(lower))
    if key == "in":
        return replace(query, channel=value.removeprefix("#"))
    if key == "by" and lower in WRITERS:
        return replace(query, writer=WRITERS[lower])
    if key in ("from", "by"):
        return replace(query, person=value.removeprefix("@"))
    if key == "kind" and lower in LINE_KINDS:
        return replace(query, line_kind=lower)
    if key == "has" and lower in set(Has):
        return replace(query, has=query.has | {Has(lower)})
    return replace(query, wrong=(*query.wrong, typed))


def _within(query: Query, key: str, day: date) -> Query:
    """Return the query within days. As in Slack, ``before:`` and ``after:`` exclude the day."""
    try:
        before, after = day - timedelta(days=1), day + timedelta(days=1)
    except OverflowError:
        return query
    if key == "on":
        return replace(query, since=day, until=day)
    return replace(query, until=before) if key == "before" else replace(query, since=after)


def _day(text: str) -> date | None:
    match = _DAY.fullmatch(text)
    if not match:
        return None
    try:
        day = date(*map(int, match.groups()))
    except ValueError:
        return None
    return day if 1970 <= day.year < 9000 else None


def _midnight(day: date, zone: tzinfo) -> int:
    return to_micros(datetime.combine(day, time(), zone))
