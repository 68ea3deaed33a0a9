"""Parsing of typed queries."""

from datetime import UTC, date
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.memory import kinds
from memories.rules.search.query import (
    LINE_KINDS,
    MAX_TERMS,
    Has,
    Kind,
    Query,
    Sort,
    as_fields,
    parse,
    with_fields,
)


@pytest.mark.parametrize(
    ("typed", "needles"),
    [
        ("移行 deploy", [" 移行", " deploy"]),
        ("移行　計画", [" 移行", " 計画"]),
        ('"next friday" ok', [" next friday ", " ok "]),
        ("“next friday”", [" next friday "]),
        ('"not closed', [" not closed "]),
        ("de*", [" de"]),
        ("twice twice", [" twice"]),
        ("http://example.com", [" http example com"]),
        ("12:30", [" 12 30 "]),
        ("!? ✨", []),
        ("", []),
    ],
)
def test_words(typed: str, needles: list[str]) -> None:
    query = parse(typed)
    assert [term.needle for term in query.terms] == needles
    assert query.is_empty is (not needles) and not query.is_narrowed


def test_words_over_the_limit_are_not_understood() -> None:
    query = parse(" ".join(f"w{i}" for i in range(MAX_TERMS + 1)) + " w0")
    assert (len(query.terms), query.wrong) == (MAX_TERMS, (f"w{MAX_TERMS}",))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("in:#ops", Query(channel="ops")),
        ("in:C0123", Query(channel="C0123")),
        ("IN:notes", Query(kind=Kind.NOTES)),
        ("from:@mika", Query(person="mika")),
        ('from:"Mika Sato"', Query(person="Mika Sato")),
        ("from：佐藤", Query(person="佐藤")),
        ("by:mika", Query(person="mika")),
        ("by:model", Query(writer="model")),
        ("by:llm", Query(writer="model")),
        ("before:2026-11-02", Query(until=date(2026, 11, 1))),
        ("after:2026-11-02", Query(since=date(2026, 11, 3))),
        ("after:2026/1/2", Query(since=date(2026, 1, 3))),
        ("on:2026-11-02", Query(since=date(2026, 11, 2), until=date(2026, 11, 2))),
        ("has:link has:file", Query(has=frozenset({Has.LINK, Has.FILE}))),
        ("has:nothing", Query(wrong=("has:nothing",))),
        ("after:yesterday", Query(wrong=("after:yesterday",))),
        ("after:2026-02-31", Query(wrong=("after:2026-02-31",))),
        ("in:", Query()),
        ("kind:decision", Query(line_kind="decision")),
        ("Kind:Question", Query(line_kind="question")),
        ("kind:rumour", Query(wrong=("kind:rumour",))),
        ("-in:#ops -from:mika", Query(wrong=("-in:#ops", "-from:mika"))),
    ],
)
def test_operators(typed: str, expected: Query) -> None:
    assert parse(typed) == expected


def test_exclusions_alone_are_an_empty_query() -> None:
    assert parse("-draft").is_empty
    assert not parse("-draft in:#ops").is_empty
    query = parse('plan -draft -"not this"')
    assert [term.excluded for term in query.terms] == [False, True, True]
    assert query.words == ("plan", "-draft", '-"not this"')


def test_form_fields_do_not_override_typed_filters() -> None:
    fields = {"in": "messages", "channel": "#ops", "by": "mika", "from": "2026-11-01"}
    fields |= {"to": "2026-11-30", "sort": "newest", "kind": "task"}
    query = with_fields(parse("x in:notes"), fields)
    assert (query.kind, query.channel, query.person) == (Kind.NOTES, "ops", "mika")
    assert (query.since, query.until) == (date(2026, 11, 1), date(2026, 11, 30))
    assert (query.sort, query.line_kind) == (Sort.NEWEST, "task")
    rubbish = {"in": "rubbish", "kind": "rubbish", "sort": "x"}
    assert with_fields(parse("x"), rubbish) == parse("x")


def test_a_day_that_does_not_exist_is_named() -> None:
    query = with_fields(parse("x"), {"from": "2026-13-01", "to": "2026-11-30"})
    assert (query.since, query.until, query.wrong) == (None, date(2026, 11, 30), ("2026-13-01",))


def test_the_kinds_of_lines_are_those_of_memories() -> None:
    assert set(LINE_KINDS) == set(kinds.Kind)


def test_days_are_those_of_the_workspace() -> None:
    query = parse("on:2026-11-02")
    day = 24 * 3600 * 10**6
    since, before = query.bounds(UTC)
    assert since is not None and before == since + day
    assert query.bounds(ZoneInfo("Asia/Tokyo"))[0] == since - 9 * day // 24
    assert parse("x").bounds(UTC) == (None, None)


@given(st.text())
def test_whatever_is_typed_is_a_query(typed: str) -> None:
    query = with_fields(parse(typed), {"from": typed, "by": typed, "channel": typed, "in": typed})
    query.bounds(ZoneInfo("Asia/Tokyo"))
    assert all(term.needle.startswith(" ") for term in query.terms)


@given(st.sampled_from(["on", "before", "after"]), st.dates())
def test_a_day_gives_a_bound_or_an_error(key: str, day: date) -> None:
    query = parse(f"{key}:{day.isoformat()}")
    query.bounds(ZoneInfo("Asia/Tokyo"))
    assert query.wrong or query.since or query.until


@pytest.mark.parametrize(
    "typed",
    [
        "移行 -draft",
        '"next friday" in:#ops from:mika after:2026-11-01',
        "plan kind:decision in:messages by:model before:2026-11-01 has:link has:code",
        'from:"Mika Ito" on:2026-11-01',
        "",
    ],
)
def test_a_query_can_be_rebuilt_from_its_fields(typed: str) -> None:
    query = parse(typed)
    fields = as_fields(query)
    assert with_fields(parse(fields.get("q", "")), fields) == query
