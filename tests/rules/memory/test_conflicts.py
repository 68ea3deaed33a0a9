"""Three-way merges of a text, and the choices in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.memory import conflicts
from memories.rules.memory.lines import split_text, strip_bullet

texts = st.lists(st.text("ab あ漢-・\t", max_size=6), max_size=6).map("\n".join)

BASE = "one\ntwo\nthree"


@pytest.mark.parametrize(
    ("yours", "theirs", "result"),
    [
        pytest.param(BASE, "one\n2\nthree", "one\n2\nthree", id="only they changed"),
        pytest.param("one\n2\nthree", BASE, "one\n2\nthree", id="only you changed"),
        pytest.param("1\ntwo\nthree", "one\ntwo\n3", "1\ntwo\n3", id="different paragraphs"),
        pytest.param("one\nII\nthree", "one\n2\nthree", "one\nII\n2\nthree", id="the same one"),
        pytest.param("one\n2\nthree", "one\n2\nthree", "one\n2\nthree", id="the same change"),
        pytest.param("one\nthree", "one\ntwo\nthree\nfour", "one\nthree\nfour", id="taken out"),
        pytest.param("one\ntwo\nthree\nyou", BASE + "\nthey", BASE + "\nyou\nthey", id="added"),
    ],
)
def test_suggestions_lose_nothing(yours: str, theirs: str, result: str) -> None:
    hunks = conflicts.find_hunks(BASE, yours, theirs)
    assert conflicts.join_choices(hunks, [hunk.suggestion for hunk in hunks]) == result


@pytest.mark.parametrize(
    ("base", "yours", "result"),
    [
        pytest.param("one\n[…] two", "one\ntwo two", "one\n[…] two", id="still on screen"),
        pytest.param("one\ntwo two", "one\ntwo 2", "one\n[…] two", id="reworded meanwhile"),
        pytest.param("one\n[…] two", "one\n[…] 2", "one\n[…] 2", id="after it was gone"),
    ],
)
def test_redacted_words_are_never_suggested(base: str, yours: str, result: str) -> None:
    hunks = conflicts.find_hunks(base, yours, "one\n[…] two")
    assert conflicts.join_choices(hunks, [hunk.suggestion for hunk in hunks]) == result


@given(texts, texts)
def test_without_the_real_base_the_lines_of_both_are_suggested(yours: str, theirs: str) -> None:
    hunks = conflicts.find_hunks(conflicts.common_lines(yours, theirs), yours, theirs)
    together = conflicts.join_choices(hunks, [hunk.suggestion for hunk in hunks])
    suggested_lines = {strip_bullet(line) for line in split_text(together)}
    assert suggested_lines == {
        strip_bullet(line) for text in (yours, theirs) for line in split_text(text)
    }


@pytest.mark.parametrize(
    ("yours", "theirs", "agreed"),
    [
        pytest.param("one\n2\nthree", "one\n2\nthree\n", True, id="the same"),
        pytest.param("one\n2\nthree", "* one\n2\nthree", True, id="they changed a bullet"),
        pytest.param("* one\n2\nthree", "one\n2\nthree", False, id="you changed a bullet"),
        pytest.param(BASE, "one\n2\nthree", False, id="they changed a word"),
        pytest.param("one\n2\nthree", "", False, id="nothing is there any more"),
    ],
)
def test_a_merge_equal_to_the_saved_text_is_saved_already(
    yours: str, theirs: str, agreed: bool
) -> None:
    assert conflicts.is_saved_already(conflicts.find_hunks(BASE, yours, theirs)) is agreed


@given(texts, texts, texts)
def test_choosing_a_side_in_all_hunks_gives_its_text(base: str, yours: str, theirs: str) -> None:
    hunks = conflicts.find_hunks(base, yours, theirs)
    for side, text in (("yours", yours), ("theirs", theirs)):
        together = conflicts.join_choices(hunks, [side] * len(hunks))
        assert [strip_bullet(line) for line in split_text(together)] == [
            strip_bullet(line) for line in split_text(text)
        ]
