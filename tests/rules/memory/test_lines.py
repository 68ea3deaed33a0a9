"""Lines: what an edit, a merge and a restore make of them (docs/rules.md)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    words_of,
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
def test_words_of_a_line(text, words):
    assert words_of(text) == words


def test_split_text_keeps_the_lines_that_say_something():
    assert split_text("- one \n\n   \n- \n* two\r\nthree") == ["- one", "* two", "three"]
    assert split_text("") == []


class TestRevised:
    def test_lines_left_alone_stay_as_they_were(self):
        assert revise_lines([SHIP, LEAD, OWN], text_of([SHIP, LEAD, OWN])) == [SHIP, LEAD, OWN]

    def test_a_changed_line_is_the_persons_and_rests_on_the_same_messages(self):
        lines = revise_lines([SHIP, LEAD], "- We ship on Mondays.\n- Aiko leads the release.")
        assert lines == [Line("- We ship on Mondays.", Origin.PERSON, None, (11, 12)), LEAD]

    def test_a_new_line_is_the_persons_and_rests_on_nothing(self):
        lines = revise_lines([SHIP, LEAD], f"{SHIP.text}\n- New.\n{LEAD.text}")
        assert lines == [SHIP, Line("- New.", Origin.PERSON), LEAD]

    def test_two_for_one_gives_the_messages_to_the_first(self):
        assert revise_lines([SHIP], "- We ship on Mondays.\n- Two.") == [
            Line("- We ship on Mondays.", Origin.PERSON, None, (11, 12)),
            Line("- Two.", Origin.PERSON),
        ]

    def test_a_deleted_line_is_gone(self):
        assert revise_lines([SHIP, LEAD, OWN], text_of([SHIP, OWN])) == [SHIP, OWN]

    def test_another_bullet_or_spacing_is_no_other_line(self):
        lines = revise_lines([SHIP], "*  We ship  on Fridays.")
        assert lines == [replace(SHIP, text="*  We ship  on Fridays.")]

    def test_the_first_text_of_all_is_the_persons(self):
        assert revise_lines([], "- A.\n\n- B.") == [
            Line("- A.", Origin.PERSON),
            Line("- B.", Origin.PERSON),
        ]

    def test_a_line_that_was_moved_stays_as_it_was(self):
        lines = revise_lines([SHIP, PINNED, OWN], text_of([OWN, SHIP, PINNED]))
        assert lines == [OWN, SHIP, PINNED]

    def test_a_pinned_line_that_was_reworded_is_the_persons_and_stays_pinned(self):
        lines = revise_lines([SHIP, PINNED], f"{SHIP.text}\n- Aiko leads each release.")
        assert lines[1] == Line("- Aiko leads each release.", Origin.PERSON, None, (13,), True)

    def test_a_line_in_place_of_a_pinned_one_that_says_something_else_is_not_pinned(self):
        assert revise_lines([PINNED], "- xyz") == [Line("- xyz", Origin.PERSON)]

    def test_equal_lines_are_matched_in_order(self):
        again = replace(SHIP, sources=(99,))
        assert revise_lines([SHIP, again], text_of([SHIP, again])) == [SHIP, again]


class TestMerged:
    def test_words_that_stood_in_the_base_keep_their_origin(self):
        made = [replace(SHIP, text="* We ship on Fridays.", since=None, sources=(21,))]
        assert merge_lines([SHIP], made) == ([replace(SHIP, text="* We ship on Fridays.")], [], [])

    def test_a_models_line_may_go(self):
        new = Line("- New.", Origin.MODEL, sources=(31,))
        assert merge_lines([SHIP, LEAD], [new]) == ([new], [], [])

    def test_a_persons_line_that_was_lost_comes_back(self):
        new = Line("- New.", Origin.MODEL)
        assert merge_lines([SHIP, OWN], [new]) == ([OWN, new], [OWN.text], [])

    def test_it_comes_back_behind_the_line_it_stood_after(self):
        new = Line("- New.", Origin.MODEL)
        lines, put_back, _kept = merge_lines([SHIP, OWN, LEAD], [LEAD, SHIP, new])
        assert lines == [LEAD, SHIP, OWN, new]
        assert put_back == [OWN.text]

    def test_all_of_a_persons_lines_come_back_in_order(self):
        second = replace(OWN, text="- And Chie.")
        assert merge_lines([OWN, second], []) == ([OWN, second], [OWN.text, second.text], [])

    def test_a_persons_line_that_is_there_is_not_doubled(self):
        made = [replace(OWN, origin=Origin.MODEL, since=None)]
        assert merge_lines([OWN], made) == ([OWN], [], [OWN.text])

    def test_a_restored_model_line_is_the_models_to_drop(self):
        assert merge_lines([BACK], [SHIP]) == ([SHIP], [], [])

    def test_a_pinned_line_is_held_whoever_wrote_it(self):
        made = [replace(LEAD, text="*  Aiko leads the release.", since=None, sources=(31,)), SHIP]
        assert merge_lines([PINNED], made) == ([PINNED, SHIP], [], [PINNED.text])
        assert merge_lines([SHIP, PINNED], [SHIP]) == ([SHIP, PINNED], [PINNED.text], [])

    def test_of_equal_lines_the_held_one_stays(self):
        mine = replace(SHIP, origin=Origin.PERSON)
        assert merge_lines([SHIP, mine], [SHIP]).lines == [mine]
        assert merge_lines([mine, replace(SHIP, pinned=True)], []).lines == [
            replace(mine, pinned=True)
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
        (BACK, {11}, False),
    ],
    ids=["all", "all and more", "one of two", "none", "a person's", "pinned", "resting on nothing"],
)
def test_whether_a_line_rests_on_these_messages_alone(line, messages, only):
    assert rests_only_on(line, frozenset(messages)) is only


class TestBroughtBack:
    def test_what_stands_stays_and_the_rest_says_that_it_came_back(self):
        came = replace(SHIP, origin=Origin.RESTORE, since=None)
        text = text_of([SHIP, OWN])
        assert restore_text([OWN, LEAD], [SHIP, LEAD], text) == [came, OWN]

    def test_of_what_nobody_knows_nothing_comes_back(self):
        assert restore_text([OWN], [LEAD], text_of([OWN, SHIP])) is None


class TestRestored:
    def test_what_stands_now_stays_as_it_is(self):
        assert restore_lines([OWN], [replace(OWN, since=1, sources=())]) == [OWN]

    def test_what_came_back_says_so(self):
        assert restore_lines([], [SHIP]) == [replace(SHIP, origin=Origin.RESTORE, since=None)]

    def test_a_persons_line_stays_the_persons(self):
        assert restore_lines([SHIP], [OWN]) == [OWN]

    def test_a_pin_stays_and_comes_back_with_its_line(self):
        assert restore_lines([PINNED], [LEAD]) == [PINNED]
        assert restore_lines([LEAD], [PINNED]) == [LEAD]  # unpinned since
        came_back = replace(PINNED, origin=Origin.RESTORE, since=None)
        assert restore_lines([SHIP], [PINNED]) == [came_back]

    def test_what_is_not_in_the_old_one_goes(self):
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
def test_an_edit_says_exactly_what_the_person_typed(base, texts):
    lines = revise_lines(base, "\n".join(texts))
    assert [line.text for line in lines] == split_text("\n".join(texts))
    for line in lines:
        known = [b for b in base if words_of(b.text) == words_of(line.text)]
        assert line.origin is Origin.PERSON or replace(line, text="", pinned=False) in [
            replace(b, text="", pinned=False) for b in known
        ]
        assert not line.pinned or line.origin is Origin.PERSON or any(b.pinned for b in known)


@pytest.mark.slow
@given(some_lines, some_lines)
def test_no_merge_loses_a_held_line(base, made):
    lines, put_back, kept = merge_lines(base, made)
    present = [words_of(line.text) for line in lines]
    held = {words_of(line.text) for line in base if line.is_protected}
    assert held == {words_of(line.text) for line in lines if line.is_protected} & held
    assert {words_of(text) for text in (*put_back, *kept)} == held
    of_model = [words_of(line.text) for line in made]
    assert [words for words in present if words in of_model] == of_model
    assert not {words_of(text) for text in put_back} & set(of_model)
    assert {words_of(text) for text in kept} <= set(of_model)


@given(some_lines, some_lines)
def test_a_held_line_keeps_its_text_and_what_it_rests_on(base, made):
    for line in merge_lines(base, made).lines:
        if line.is_protected and words_of(line.text) in {words_of(b.text) for b in base}:
            assert replace(line, pinned=False) in [replace(b, pinned=False) for b in base]


@given(some_lines, some_lines)
def test_a_second_merge_of_the_same_puts_nothing_back(base, made):
    lines = merge_lines(base, made).lines
    assert merge_lines(lines, lines).put_back == []


@pytest.mark.slow
@given(some_lines, st.data())
def test_pins_survive_chains_of_merges_edits_and_restores(first, data):
    """Whatever is done to the text: a line that is left in it keeps its pin, and only a person
    takes one out."""
    lines, pinned = first, {words_of(line.text) for line in first if line.pinned}
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
            pinned &= {words_of(text) for text in texts}
        else:
            old = data.draw(st.sampled_from(history))
            lines = restore_lines(lines, old)
            pinned &= {words_of(line.text) for line in old}
        history.append(lines)
        assert pinned <= {words_of(line.text) for line in lines if line.pinned}, step


@pytest.mark.slow
@given(some_lines, some_lines)
def test_a_restore_says_exactly_what_the_old_one_said(current, old):
    lines = restore_lines(current, old)
    assert [words_of(line.text) for line in lines] == [words_of(line.text) for line in old]


@pytest.mark.parametrize(
    ("old", "new", "sources"),
    [
        ("- We launch on Tue 17 Nov.", "- We launch on Wed 18 Nov.", (7,)),
        ("- 発表は金曜日に決定しました。", "- 発表は木曜日に決定しました。", (7,)),
        ("- We launch on Tue 17 Nov.", "- hello", ()),
        ("- 発表は金曜日に決定しました。", "- 昼食は正午から。", ()),
    ],
)
def test_only_a_reworded_line_keeps_its_messages(old, new, sources):
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
def test_a_line_that_comes_back_has_its_place(line: Line, text: str, after: str) -> None:
    """Behind what holds, or as an event by its time; all else of the text stays."""
    lines = [NOW, EARLY, LATE]
    place = insert_position(lines, line)
    with_it = [*lines[:place], line, *lines[place:]]
    said = [one.text for one in lines]
    assert insert_line(text.format(*said), with_it, place) == after.format(*said)
