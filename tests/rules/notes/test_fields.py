from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from memories.rules.notes.fields import (
    InvalidNote,
    NoteText,
    clean_content,
    clean_tags,
    clean_title,
    is_due,
    kind_of,
    matches,
    title_of,
    today,
)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("Always use try-catch", "Always use try-catch"),
        ("x" * 50, "x" * 50),
        ("x" * 51, "x" * 50 + "..."),
        ("記" * 51, "記" * 50 + "..."),
        ("one\ntwo\r\nthree\u2028four", "one two three four"),
        ("\n\n  first words", "first words"),
    ],
    ids=["short", "fifty", "fifty-one", "japanese", "line breaks", "blank beginning"],
)
def test_title_of(content, title):
    assert title_of(content) == title


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("A title", "A title"),
        (" A\ntitle ", "A title"),
        ("", "the content"),
        (" \n ", "the content"),
        ("x" * 50 + "...", "x" * 50 + "..."),
        ("x" * 61, "x" * 50 + "..."),
    ],
)
def test_clean_title(title, kept):
    assert clean_title(title, "the content") == kept


@pytest.mark.parametrize(
    ("tags", "kind", "cleaned"),
    [
        ([], "", ()),
        (["a", "b"], "", ("a", "b")),
        ([" a ", "", "a", "b"], "", ("a", "b")),
        (["a,b", "c\nd"], "", ("a", "b", "c d")),
        (["db"], "pattern", ("pattern", "db")),
        (["db", "pattern"], "pattern", ("pattern", "db")),
    ],
)
def test_clean_tags(tags, kind, cleaned):
    assert clean_tags(tags, kind) == cleaned


def test_an_unknown_type_is_refused():
    with pytest.raises(InvalidNote, match="pattern, architecture, solution"):
        clean_tags([], "idea")


@pytest.mark.parametrize(
    ("tags", "kind"),
    [((), ""), (("solution", "x"), "solution"), (("x", "solution"), ""), (("Pattern",), "")],
)
def test_kind_of(tags, kind):
    assert kind_of(tags) == kind


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u3000"])
def test_a_blank_content_is_refused(blank):
    with pytest.raises(InvalidNote):
        clean_content(blank)


def test_only_characters_that_cannot_be_stored_are_replaced():
    assert clean_content("  a\r\n## b\n\n") == "  a\r\n## b\n\n"
    assert clean_content("a\x00b\ud800c") == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("zone", "day"), [("UTC", 4), ("Asia/Tokyo", 5), ("America/Los_Angeles", 4)]
)
def test_the_date_is_that_of_the_zone(zone, day):
    now = datetime(2026, 1, 4, 20, tzinfo=UTC)
    assert today(now, ZoneInfo(zone)) == date(2026, 1, day)


NOTE = NoteText("Große Änderung", ("pattern", "Datenbank"), date(2026, 1, 5), "Use ÉCLAIR 100%_x")


@pytest.mark.parametrize(
    ("query", "is_match"),
    [
        ("große", True),
        ("GROSSE", True),
        ("änderung", True),
        ("éclair", True),
        ("DATENB", True),
        ("pattern", True),
        ("100%_", True),
        ("%", True),
        ("100_", False),
        ("postgres", False),
        ("", True),
    ],
)
def test_matches(query, is_match):
    assert matches(query, NOTE) is is_match


@pytest.mark.parametrize(
    ("review_on", "due"),
    [(None, False), (date(2026, 1, 4), True), (date(2026, 1, 5), True), (date(2026, 1, 6), False)],
)
def test_when_a_review_is_due(review_on, due):
    assert is_due(review_on, date(2026, 1, 5)) is due


def test_the_types_of_a_team():
    kinds = ("pattern", "runbook")
    assert clean_tags(["db"], "runbook", kinds) == ("runbook", "db")
    assert kind_of(("runbook", "db"), kinds) == "runbook" and kind_of(("runbook",)) == ""
    with pytest.raises(InvalidNote, match="pattern, runbook"):
        clean_tags([], "solution", kinds)
