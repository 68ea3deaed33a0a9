"""Lines after an edit, a merge and a restore (docs/rules.md)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.generate.prompts import clean_for_model
from memories.rules.memory.lines import (
    Line,
    Origin,
    insert_line,
    insert_position,
    merge_lines,
    restore_lines,
    restore_text,
    rests_only_on,
    revise_lines,
    split_text,
    strip_bullet,
)

SHIP = Line("- We ship on Fridays.", Origin.MODEL, since=1, sources=(11, 12))
LEAD = Line("- Aiko leads the release.", Origin.MODEL, since=2, sources=(13,))
OWN = Line("- Ask Ben before you deploy.", Origin.PERSON, since=2, sources=(14,))
BACK = Line("- The old office is closed.", Origin.RESTORE, since=3)
PINNED = replace(LEAD, pinned=True)


def text_of(lines):
    return "\n".join(line.text for line in lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- We ship.", "We ship."),
        ("* We ship.", "We ship."),
        ("• We  ship. ", "We ship."),
        ("・出荷は金曜。", "出荷は金曜。"),
        ("・ 出荷は金曜。", "出荷は金曜。"),
        ("  - indented", "indented"),
        ("-5 degrees", "-5 degrees"),
        ("*bold* word", "*bold* word"),
        ("- - twice", "- twice"),
        ("no bullet", "no bullet"),
        ("- ", ""),
        ("", ""),
    ],
)
def test_words_have_no_bullet(text, words):
    assert strip_bullet(text) == words


def test_split_text_drops_empty_lines():
    assert split_text("- one \n\n   \n- \n* two\r\nthree") == ["- one", "* two", "three"]
    assert split_text("") == []


class TestReviseLines:
    def test_unchanged_lines_stay(self):
        assert revise_lines([SHIP, LEAD, OWN], text_of([SHIP, LEAD, OWN])) == [SHIP, LEAD, OWN]

    def test_a_reworded_line_is_the_persons_and_keeps_its_sources(self):
        lines = revise_lines([SHIP, LEAD], "- We ship on Mondays.\n- Aiko leads the release.")
        assert lines == [Line("- We ship on Mondays.", Origin.PERSON, None, (11, 12)), LEAD]

    def test_a_new_line_is_the_persons_and_has_no_sources(self):
        lines = revise_lines([SHIP, LEAD], f"{SHIP.text}\n- New.\n{LEAD.text}")
        assert lines == [SHIP, Line("- New.", Origin.PERSON), LEAD]

    def test_the_first_of_two_new_lines_gets_the_sources(self):
        assert revise_lines([SHIP], "- We ship on Mondays.\n- Two.") == [
            Line("- We ship on Mondays.", Origin.PERSON, None, (11, 12)),
            Line("- Two.", Origin.PERSON),
        ]

    def test_a_deleted_line_is_removed(self):
        assert revise_lines([SHIP, LEAD, OWN], text_of([SHIP, OWN])) == [SHIP, OWN]

    def test_bullets_and_spaces_do_not_matter(self):
        lines = revise_lines([SHIP], "*  We ship  on Fridays.")
        assert lines == [replace(SHIP, text="*  We ship  on Fridays.")]

    def test_all_lines_of_a_first_text_are_the_persons(self):
        assert revise_lines([], "- A.\n\n- B.") == [
            Line("- A.", Origin.PERSON),
            Line("- B.", Origin.PERSON),
        ]

    def test_a_moved_line_keeps_its_origin(self):
        lines = revise_lines([SHIP, PINNED, OWN], text_of([OWN, SHIP, PINNED]))
        assert lines == [OWN, SHIP, PINNED]

    def test_a_reworded_pinned_line_stays_pinned(self):
        lines = revise_lines([SHIP, PINNED], f"{SHIP.text}\n- Aiko leads each release.")
        assert lines[1] == Line("- Aiko leads each release.", Origin.PERSON, None, (13,), True)

    def test_another_line_in_place_of_a_pinned_one_is_not_pinned(self):
        assert revise_lines([PINNED], "- xyz") == [Line("- xyz", Origin.PERSON)]

    def test_equal_lines_are_matched_in_order(self):
        again = replace(SHIP, sources=(99,))
        assert revise_lines([SHIP, again], text_of([SHIP, again])) == [SHIP, again]


class TestMergeLines:
    def test_a_line_of_the_base_keeps_its_origin(self):
        made = [replace(SHIP, text="* We ship on Fridays.", since=None, sources=(21,))]
        assert merge_lines([SHIP], made) == ([replace(SHIP, text="* We ship on Fridays.")], [], [])

    def test_a_line_of_the_model_may_be_dropped(self):
        new = Line("- New.", Origin.MODEL, sources=(31,))
        assert merge_lines([SHIP, LEAD], [new]) == ([new], [], [])

    def test_a_dropped_line_of_a_person_is_restored(self):
        new = Line("- New.", Origin.MODEL)
        assert merge_lines([SHIP, OWN], [new]) == ([OWN, new], [OWN.text], [])

    def test_it_is_restored_behind_the_line_before_it(self):
        new = Line("- New.", Origin.MODEL)
        lines, restored, _kept = merge_lines([SHIP, OWN, LEAD], [LEAD, SHIP, new])
        assert lines == [LEAD, SHIP, OWN, new]
        assert restored == [OWN.text]

    def test_lines_of_a_person_are_restored_in_order(self):
        second = replace(OWN, text="- And Chie.")
        assert merge_lines([OWN, second], []) == ([OWN, second], [OWN.text, second.text], [])

    def test_a_kept_line_of_a_person_is_not_doubled(self):
        made = [replace(OWN, origin=Origin.MODEL, since=None)]
        assert merge_lines([OWN], made) == ([OWN], [], [OWN.text])

    def test_a_persons_line_stays_once_although_the_request_cleaned_it(self):
        own = replace(
            OWN, text="- The zero\u200bwidth key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
        )
        shown = clean_for_model(strip_bullet(own.text))
        assert shown == "The zerowidth key is [secret]"
        made = [Line(f"- {shown}", Origin.MODEL)]
        assert merge_lines([own], made, clean_for_model) == ([own], [], [own.text])

    def test_a_restored_line_of_the_model_may_be_dropped(self):
        assert merge_lines([BACK], [SHIP]) == ([SHIP], [], [])

    def test_a_pinned_line_is_protected(self):
        made = [replace(LEAD, text="*  Aiko leads the release.", since=None, sources=(31,)), SHIP]
        assert merge_lines([PINNED], made) == ([PINNED, SHIP], [], [PINNED.text])
        assert merge_lines([SHIP, PINNED], [SHIP]) == ([SHIP, PINNED], [PINNED.text], [])

    def test_the_protected_line_of_two_equal_lines_stays(self):
        own_line = replace(SHIP, origin=Origin.PERSON)
        assert merge_lines([SHIP, own_line], [SHIP]).lines == [own_line]
        assert merge_lines([own_line, replace(SHIP, pinned=True)], []).lines == [
            replace(own_line, pinned=True)
        ]


@pytest.mark.parametrize(
    ("line", "messages", "only"),
    [
        (SHIP, {11, 12}, True),
        (SHIP, {11, 12, 13}, True),
        (SHIP, {11}, False),
        (SHIP, set(), False),
        (OWN, {14}, False),
        (PINNED, {13}, False),
        (replace(SHIP, author=1), {11, 12}, False),
        (BACK, {11}, False),
    ],
    ids=[
        *("all", "all and more", "one of two", "none", "a person's", "pinned"),
        *("a person's, merged by a model", "resting on nothing"),
    ],
)
def test_a_line_that_rests_only_on_some_messages(line, messages, only):
    assert rests_only_on(line, frozenset(messages)) is only


class TestRestoreText:
    def test_current_lines_stay_and_old_ones_are_restored(self):
        came = replace(SHIP, origin=Origin.RESTORE, since=None)
        text = text_of([SHIP, OWN])
        assert restore_text([OWN, LEAD], [SHIP, LEAD], text) == [came, OWN]

    def test_a_line_of_neither_version_restores_nothing(self):
        assert restore_text([OWN], [LEAD], text_of([OWN, SHIP])) is None


class TestRestoreLines:
    def test_current_lines_stay(self):
        assert restore_lines([OWN], [replace(OWN, since=1, sources=())]) == [OWN]

    def test_old_lines_are_marked_as_restored(self):
        assert restore_lines([], [SHIP]) == [replace(SHIP, origin=Origin.RESTORE, since=None)]

    def test_a_restored_line_of_a_person_keeps_its_origin(self):
        assert restore_lines([SHIP], [OWN]) == [OWN]

    def test_pins_of_both_versions_count(self):
        assert restore_lines([PINNED], [LEAD]) == [PINNED]
        assert restore_lines([LEAD], [PINNED]) == [LEAD]  # unpinned since
        came_back = replace(PINNED, origin=Origin.RESTORE, since=None)
        assert restore_lines([SHIP], [PINNED]) == [came_back]

    def test_lines_that_the_old_version_lacks_are_removed(self):
        assert restore_lines([SHIP, LEAD], [LEAD]) == [LEAD]


# Few different words, so that lines meet their equals.
a_text = st.sampled_from(["- a", "* a", "- b", "- c", "d", "・e", "- f g"])
a_line = st.builds(
    Line,
    text=a_text,
    origin=st.sampled_from(Origin),
    since=st.integers(1, 9),
    sources=st.lists(st.integers(1, 99), max_size=3, unique=True).map(tuple),
    pinned=st.booleans(),
)
some_lines = st.lists(a_line, max_size=8)


@given(some_lines, st.lists(a_text, max_size=8))
def test_an_edit_has_the_typed_text(base, texts):
    lines = revise_lines(base, "\n".join(texts))
    assert [line.text for line in lines] == split_text("\n".join(texts))
    for line in lines:
        equal_lines = [b for b in base if strip_bullet(b.text) == strip_bullet(line.text)]
        assert line.origin is Origin.PERSON or replace(line, text="", pinned=False) in [
            replace(b, text="", pinned=False) for b in equal_lines
        ]
        assert not line.pinned or line.origin is Origin.PERSON or any(b.pinned for b in equal_lines)


@pytest.mark.slow
@given(some_lines, some_lines)
def test_no_merge_drops_a_protected_line(base, made):
    lines, restored, kept = merge_lines(base, made)
    present = [strip_bullet(line.text) for line in lines]
    protected_words = {strip_bullet(line.text) for line in base if line.is_protected}
    assert (
        protected_words
        == {strip_bullet(line.text) for line in lines if line.is_protected} & protected_words
    )
    assert {strip_bullet(text) for text in (*restored, *kept)} == protected_words
    of_model = [strip_bullet(line.text) for line in made]
    assert [words for words in present if words in of_model] == of_model
    assert not {strip_bullet(text) for text in restored} & set(of_model)
    assert {strip_bullet(text) for text in kept} <= set(of_model)


@given(some_lines, some_lines)
def test_a_protected_line_keeps_its_text_and_sources(base, made):
    for line in merge_lines(base, made).lines:
        if line.is_protected and strip_bullet(line.text) in {strip_bullet(b.text) for b in base}:
            assert replace(line, pinned=False) in [replace(b, pinned=False) for b in base]


@given(some_lines, some_lines)
def test_the_same_merge_again_restores_nothing(base, made):
    lines = merge_lines(base, made).lines
    assert merge_lines(lines, lines).restored == []


@pytest.mark.slow
@given(some_lines, st.data())
def test_pins_survive_merges_edits_and_restores(first, data):
    """A line that stays in the text keeps its pin, and only a person removes it."""
    lines, pinned = first, {strip_bullet(line.text) for line in first if line.pinned}
    history = [lines]
    for _ in range(data.draw(st.integers(1, 6))):
        step = data.draw(st.sampled_from(["merge", "edit", "restore"]))
        if step == "merge":
            made = data.draw(some_lines)
            lines = merge_lines(lines, [replace(line, pinned=False) for line in made]).lines
        elif step == "edit":
            texts = data.draw(st.permutations([line.text for line in lines]))
            dropped = data.draw(st.integers(0, len(texts)))
            texts = texts[: len(texts) - dropped] + data.draw(st.lists(a_text, max_size=2))
            lines = revise_lines(lines, "\n".join(texts))
            pinned &= {strip_bullet(text) for text in texts}
        else:
            old = data.draw(st.sampled_from(history))
            lines = restore_lines(lines, old)
            pinned &= {strip_bullet(line.text) for line in old}
        history.append(lines)
        assert pinned <= {strip_bullet(line.text) for line in lines if line.pinned}, step


@pytest.mark.slow
@given(some_lines, some_lines)
def test_a_restore_has_the_text_of_the_old_version(current, old):
    lines = restore_lines(current, old)
    assert [strip_bullet(line.text) for line in lines] == [strip_bullet(line.text) for line in old]


@pytest.mark.parametrize(
    ("old", "new", "sources"),
    [
        ("- We launch on Tue 17 Nov.", "- We launch on Wed 18 Nov.", (7,)),
        ("- 発表は金曜日に決定しました。", "- 発表は木曜日に決定しました。", (7,)),
        ("- We launch on Tue 17 Nov.", "- hello", ()),
        ("- 発表は金曜日に決定しました。", "- 昼食は正午から。", ()),
    ],
)
def test_only_a_similar_line_keeps_its_sources(old, new, sources):
    (line,) = revise_lines([Line(old, Origin.MODEL, 1, (7,))], new)
    assert (line.origin, line.sources) == (Origin.PERSON, sources)


NOW = Line("- The launch is on Friday.", Origin.MODEL, kind="status", at_us=5)
EARLY = Line("- The beta shipped.", Origin.MODEL, kind="event", at_us=1)
LATE = Line("- The press came.", Origin.MODEL, kind="event", at_us=9)


@pytest.mark.parametrize(
    ("line", "text", "after"),
    [
        (Line("- new", Origin.MODEL, kind="task"), "{0}\n{1}\n{2}", "{0}\n- new\n{1}\n{2}"),
        (
            Line("- new", Origin.PERSON),
            "# Plan\n\n{0}\n\n{1}\n{2}",
            "# Plan\n\n{0}\n\n- new\n{1}\n{2}",
        ),
        (
            Line("- new", Origin.MODEL, kind="event", at_us=4),
            "{0}\n{1}\n{2}",
            "{0}\n{1}\n- new\n{2}",
        ),
        (
            Line("- new", Origin.MODEL, kind="event", at_us=9),
            "{0}\n{1}\n{2}",
            "{0}\n{1}\n{2}\n- new",
        ),
    ],
)
def test_a_restored_line_has_its_place(line: Line, text: str, after: str) -> None:
    """It is before all events, or among them by time. The rest of the text stays."""
    lines = [NOW, EARLY, LATE]
    place = insert_position(lines, line)
    with_it = [*lines[:place], line, *lines[place:]]
    line_texts = [line.text for line in lines]
    assert insert_line(text.format(*line_texts), with_it, place) == after.format(*line_texts)
