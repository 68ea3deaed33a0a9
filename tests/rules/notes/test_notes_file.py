import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memories.rules.notes.fields import NoteText, clean_content, clean_tags, title_of
from memories.rules.notes.notes_file import (
    Entry,
    NotANotesFile,
    Outcome,
    fingerprint_of,
    fingerprints,
    import_outcome,
    injection,
    is_unsaved,
    read,
    write,
)

DAY = date(2026, 1, 5)


def note(content: str = "Use PostgreSQL", **fields) -> NoteText:
    defaults = {"title": title_of(content), "tags": ("db",), "id": 7, "created_us": 1234}
    return NoteText(content=content, date=fields.pop("date", DAY), **defaults | fields)


def read_one(text: str) -> Entry:
    (entry,) = read(text)
    return entry


def read_lines(text: str) -> list[dict[str, object]]:
    """What a reader of S4's form finds: it goes by how lines begin and knows no id."""
    notes_read: list[dict[str, object]] = []
    for line in text.split("\n"):
        if line.startswith("## "):
            notes_read.append({"title": line[3:].strip()})
        elif notes_read and (match := re.match(r"- (Tags|Date|Content):(.*)", line)):
            notes_read[-1][match[1]] = match[2].strip()
    return notes_read


def test_the_form():
    text = write([note("one\n\n- Tags: forged\n"), note("two", id=8, channel_id="C1")])
    assert re.sub(r"-[0-9a-f]{12}\n", "-…\n", text) == (
        "# Memories\n\n"
        "## one  - Tags: forged\n- Id: 7\n- Stamp: 1234-…\n- Tags: db\n- Date: 2026-01-05\n"
        "- Content: one\n  \n  - Tags: forged\n  \n\n"
        "## two\n- Id: 8\n- Stamp: 1234-…\n- Channel: C1\n- Tags: db\n- Date: 2026-01-05\n"
        "- Content: two\n"
    )


def test_no_notes_give_the_heading_alone():
    assert write([]) == "# Memories\n"
    assert read(write([])) == read("") == []


LINES = st.sampled_from(
    ["", " ", "  ", "## x", "# Memories", "- Tags: a, b", "- Id: 3", "- Content: y", "---", "\r"]
    + ["- Date: 2020-01-01", "\u2028", "\u2029", "\x85", "\x0b", "\t- Stamp: 1-2", "text", "記憶"]
)
CONTENTS = st.one_of(
    st.lists(LINES | st.text(max_size=12), min_size=1, max_size=8).map("\n".join), st.text()
).filter(lambda text: text.strip())
NOTES = st.builds(
    lambda content, tags, day, channel, number: NoteText(
        title=title_of(clean_content(content)),
        tags=clean_tags(tags),
        date=DAY + timedelta(days=day),
        content=clean_content(content),
        channel_id=channel,
        id=number,
        created_us=number * 11,
    ),
    CONTENTS,
    st.lists(st.text(max_size=8), max_size=3),
    st.integers(-999, 999),
    st.sampled_from(["", "C1"]),
    st.integers(1, 10**9),
)


@pytest.mark.slow
@given(st.lists(NOTES, max_size=4))
@example([note("---")])
@example([note("  \n---")])
@example([note("a\r\n\r\n## b\r\n")])
def test_a_written_file_reads_back_word_for_word(notes):
    text = write(notes)
    # Through a file's bytes, as export and import do it.
    entries = read(text.encode().decode())
    assert [
        (e.title, e.tags, e.date, e.content, e.channel_id, e.id, e.created_us) for e in entries
    ] == [(n.title, n.tags, n.date, n.content, n.channel_id, n.id, n.created_us) for n in notes]
    for entry, kept in zip(entries, notes, strict=True):
        assert import_outcome(entry, kept, set()) is Outcome.UNCHANGED
        assert not is_unsaved(entry, set())


@pytest.mark.slow
@given(st.lists(NOTES, max_size=4))
def test_a_reader_of_lines_finds_every_note(notes):
    notes_read = read_lines(write(notes))
    assert [f["title"] for f in notes_read] == [n.title.strip() for n in notes]
    assert [f["Content"] for f in notes_read] == [n.content.split("\n")[0].strip() for n in notes]
    assert [f["Tags"] for f in notes_read] == [", ".join(n.tags) for n in notes]


def test_consistent_crlf_line_ends_are_not_part_of_the_text():
    text = write([note("one\ntwo")]).replace("\n", "\r\n")
    assert read_one(text).content == "one\ntwo"


FOREIGN = """# Memories

## Always use try-catch
- Tags: pattern, error-handling
- Date: 2026-01-26
- Content: Always use try-catch
and log what was caught

- like this

## Use PostgreSQL
- Tags:
- Date: soon
- Content: Use PostgreSQL

---
"""


def test_another_programs_file():
    first, second = read(FOREIGN)
    assert first.title == "Always use try-catch"
    assert first.tags == ("pattern", "error-handling")
    assert first.date == date(2026, 1, 26)
    assert first.content == "Always use try-catch\nand log what was caught\n\n- like this"
    assert first.id is None
    assert (second.tags, second.date, second.content) == ((), None, "Use PostgreSQL")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("## a\n- Content: x\n  y\n  z", "x\ny\nz"),
        ("## a\n- Content: x\n    y\nz", "x\n    y\nz"),
        ("## a\n- Content: x\n- Tags: t\n- Tags: u", "x\n- Tags: u"),
        ("## a\n- Content:x", "x"),
        ("## a\n- Content: x\n---\ny", "x\n---\ny"),
        ("## a\n- Content: ---", "---"),
        ("## a\nloose words", "loose words"),
        ("## a\n- Tags: t", "a"),
        ("\ufeff# Memories\n## a\n- Content: x", "x"),
    ],
    ids=[
        "behind two spaces",
        "as they are",
        "a field is read once",
        "no space",
        "a rule inside",
        "a rule alone",
        "no content field",
        "title alone",
        "mark of byte order",
    ],
)
def test_hand_written_entries_are_read(text, content):
    assert read_one(text).content == content


def test_a_heading_without_words_is_no_note():
    assert read("# Memories\n\n## \n- Tags: t\n") == []


@pytest.mark.parametrize("text", ["hello", "# Read me\n\nwords", "{}"])
def test_texts_that_are_no_notes_file_are_refused(text):
    with pytest.raises(NotANotesFile):
        read(text)


def test_the_injection_ends_with_a_rule_and_carries_no_id():
    text = injection([note("one\n---\n## two")])
    assert text == (
        "# Memories\n\n## one --- ## two\n- Tags: db\n- Date: 2026-01-05\n- Content: one\n"
        "  ---\n  ## two\n\n---\n"
    )
    assert injection([]) == ""


KEPT = note("as it was")
EXPORTED = read_one(write([KEPT]))
REWORDED = replace(EXPORTED, content="written in the file")


@pytest.mark.parametrize(
    ("entry", "current", "expected"),
    [
        (EXPORTED, KEPT, Outcome.UNCHANGED),
        (REWORDED, KEPT, Outcome.UPDATED),
        (EXPORTED, replace(KEPT, content="changed here"), Outcome.KEPT),
        (REWORDED, replace(KEPT, content="changed here"), Outcome.CONFLICT),
        (REWORDED, replace(KEPT, content="written in the file"), Outcome.UNCHANGED),
        (EXPORTED, None, Outcome.ADDED),
        (EXPORTED, replace(KEPT, content="another one's", created_us=99), Outcome.ADDED),
        (replace(EXPORTED, created_us=None, fingerprint=""), KEPT, Outcome.UNCHANGED),
        (replace(REWORDED, created_us=None, fingerprint=""), KEPT, Outcome.CONFLICT),
    ],
    ids=[
        "same",
        "changed in the file",
        "changed here",
        "changed in both",
        "changed alike",
        "unknown id",
        "another database's id",
        "id typed by hand",
        "id typed by hand, other words",
    ],
)
def test_import_outcome(entry, current, expected):
    assert import_outcome(entry, current, set()) is expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (EXPORTED, Outcome.DELETED),
        (REWORDED, Outcome.CONFLICT),
        (replace(EXPORTED, created_us=99), Outcome.ADDED),
        (replace(EXPORTED, created_us=None, fingerprint=""), Outcome.ADDED),
    ],
    ids=["same", "changed in the file", "another database's id", "id typed by hand"],
)
def test_import_outcome_for_a_deleted_note(entry, expected):
    assert import_outcome(entry, None, set(), {(KEPT.id, KEPT.created_us)}) is expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (EXPORTED, Outcome.CONFLICT),
        (REWORDED, Outcome.CONFLICT),
        (replace(EXPORTED, created_us=99), Outcome.ADDED),
        (replace(EXPORTED, created_us=None, fingerprint=""), Outcome.ADDED),
    ],
    ids=["same", "changed in the file", "another database's id", "id typed by hand"],
)
def test_import_outcome_for_an_unreadable_note(entry, expected):
    key = (KEPT.id, KEPT.created_us)
    assert import_outcome(entry, None, set(), hidden={key}) is expected


def test_a_written_entry_keeps_its_stamp():
    assert read(write([REWORDED])) == [replace(REWORDED, line=3)]


def test_the_same_words_are_a_duplicate():
    existing = fingerprints([KEPT])
    assert import_outcome(EXPORTED, None, existing) is Outcome.DUPLICATE
    assert import_outcome(replace(EXPORTED, date=None), None, existing) is Outcome.DUPLICATE
    assert import_outcome(replace(EXPORTED, date=date(2020, 1, 1)), None, existing) is Outcome.ADDED
    assert import_outcome(replace(EXPORTED, channel_id="C9"), None, existing) is Outcome.ADDED
    assert import_outcome(replace(EXPORTED, tags=()), None, existing) is Outcome.ADDED


@pytest.mark.parametrize(
    ("entry", "unsaved"),
    [
        (EXPORTED, False),
        (REWORDED, True),
        (replace(REWORDED, id=None, created_us=None, fingerprint=""), True),
        (replace(EXPORTED, id=None, created_us=None, fingerprint=""), False),
    ],
    ids=["exported", "changed in the file", "written in the file", "written and imported"],
)
def test_is_unsaved(entry, unsaved):
    assert is_unsaved(entry, fingerprints([KEPT])) is unsaved


def test_the_fingerprint_depends_on_every_field():
    fingerprints_of_changes = {fingerprint_of(KEPT)} | {
        fingerprint_of(replace(KEPT, **change))
        for change in (
            {"title": "x"},
            {"tags": ("x",)},
            {"date": DAY + timedelta(days=1)},
            {"content": "x"},
            {"channel_id": "x"},
        )
    }
    assert len(fingerprints_of_changes) == 6
