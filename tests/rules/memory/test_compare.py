"""Comparisons of two texts, in English and in Japanese."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.memory import compare
from memories.rules.memory.compare import ChangeKind, DiffPiece
from memories.rules.memory.lines import split_text, strip_bullet

SAME, ADDED, REMOVED, CHANGED = (
    ChangeKind.SAME,
    ChangeKind.ADDED,
    ChangeKind.REMOVED,
    ChangeKind.CHANGED,
)


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        pytest.param("a\nb", "a\nb", [SAME, SAME], id="the same"),
        pytest.param("- a\n- b", "* a\n\n• b", [SAME, SAME], id="other bullets"),
        pytest.param("a", "a\nb c d", [SAME, ADDED], id="a line more"),
        pytest.param("b c d\na", "a", [REMOVED, SAME], id="a line less"),
        pytest.param("we launch Friday", "we launch Monday", [CHANGED], id="a word changed"),
        pytest.param("dogs bark", "rain falls softly", [REMOVED, ADDED], id="nothing in common"),
        pytest.param(
            "keep\nwe launch on Friday\nlast",
            "keep\nbrand new here\nwe launch on Monday\nlast",
            [SAME, ADDED, CHANGED, SAME],
            id="one inserted before one changed",
        ),
        pytest.param("", "a", [ADDED], id="from nothing"),
        pytest.param("a", "", [REMOVED], id="to nothing"),
    ],
)
def test_lines_are_aligned(old: str, new: str, kinds: list[ChangeKind]) -> None:
    assert [row.kind for row in compare.compare_lines(old, new)] == kinds


@pytest.mark.parametrize(
    ("old", "new", "pieces"),
    [
        pytest.param(
            "on Friday, we hope",
            "on Monday, we hope",
            [(SAME, "on "), (REMOVED, "Friday"), (ADDED, "Monday"), (SAME, ", we hope")],
            id="a whole word, not its letters",
        ),
        pytest.param(
            "水曜日に出荷する",
            "金曜日に出荷する",
            [(REMOVED, "水"), (ADDED, "金"), (SAME, "曜日に出荷する")],
            id="one kanji",
        ),
        pytest.param(
            "API v2で連携",
            "API v3で連携",
            [(SAME, "API "), (REMOVED, "v2"), (ADDED, "v3"), (SAME, "で連携")],
            id="a Latin word inside Japanese",
        ),
        pytest.param(
            "owner Tom.",
            "owner Tom, deputy Aya.",
            [(SAME, "owner Tom"), (ADDED, ", deputy Aya"), (SAME, ".")],
            id="words put in",
        ),
    ],
)
def test_words_of_a_line_are_compared(
    old: str, new: str, pieces: list[tuple[ChangeKind, str]]
) -> None:
    assert compare.compare_words(old, new) == [DiffPiece(*piece) for piece in pieces]


def test_a_change_in_a_long_japanese_line_marks_at_most_12_characters() -> None:
    old = "在庫連携は毎朝五時に一回だけ動き、失敗したら三十分後に三回まで再試行する。" * 6
    new = old.replace("三十分後", "一時間後", 1)
    (row,) = compare.changed_rows(compare.compare_lines(old, new))
    marked = [piece for piece in row.pieces if piece.kind is not SAME]
    assert 0 < sum(len(piece.text) for piece in marked) <= 12


texts = st.lists(st.text("ab あ漢-・\t", max_size=6), max_size=6).map("\n".join)


@given(texts, texts)
def test_rows_contain_both_texts(old: str, new: str) -> None:
    rows = compare.compare_lines(old, new)
    before = [row.before for row in rows if row.old is not None]
    after = [row.after for row in rows if row.new is not None]
    assert before == [strip_bullet(line) for line in split_text(old)]
    assert after == [strip_bullet(line) for line in split_text(new)]


@pytest.mark.slow
def test_two_different_long_texts_are_compared_in_bounded_time() -> None:
    old = "\n".join(f"word {i} of the old" for i in range(2000))
    new = "\n".join(f"line {i} of the new" for i in range(2000))
    kinds = {row.kind for row in compare.compare_lines(old, new)}
    assert kinds == {REMOVED, ADDED}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("- a\n- b\n- c", "* c\na\nd", (2, 1)),
        ("a\na", "a", (1, 1)),
        ("", "a", (0, 0)),
    ],
)
def test_kept_lines_are_counted(old: str, new: str, expected: tuple[int, int]) -> None:
    assert compare.count_kept(old, new) == expected


OLD, NEW = "- one\n- two\n- three\n- four", "- one\n- 2 and two\n- four\n- five"


@pytest.mark.parametrize(
    ("change", "current", "expected"),
    [
        pytest.param(0, NEW, "- one\n- two\n- four\n- five", id="reworded"),
        pytest.param(1, NEW, "- one\n- 2 and two\n- three\n- four\n- five", id="removed"),
        pytest.param(2, NEW, "- one\n- 2 and two\n- four", id="added"),
        pytest.param(2, "- none\n\n- five\n- six", "- none\n\n- six", id="others have changed"),
        pytest.param(0, "- one\n- 22\n- four\n- five", None, id="reworded again"),
        pytest.param(1, "- one\n- four", None, id="the line before is gone"),
        pytest.param(1, f"{NEW}\n- three", None, id="it is there again"),
        pytest.param(2, "- one", None, id="gone already"),
    ],
)
def test_a_change_is_reverted(change: int, current: str, expected: str | None) -> None:
    assert compare.revert_change(OLD, NEW, change, current) == expected


def test_a_removed_first_line_is_restored_at_the_top() -> None:
    assert compare.revert_change("a\nb", "b", 0, "b\nc") == "a\nb\nc"


def test_an_unknown_change_raises() -> None:
    with pytest.raises(IndexError):
        compare.revert_change(OLD, NEW, 3, NEW)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param("- one\n- mine", True, id="as it was"),
        pytest.param("* mine\n- uno\n- more", True, id="the rest is the model's"),
        pytest.param("- one\n- Mine, reworded", False, id="reworded"),
        pytest.param("- one\n- mine\n- two", False, id="what it took out is back"),
        pytest.param("", False, id="gone"),
    ],
)
def test_an_edit_is_kept_if_its_lines_are(later: str, expected: bool) -> None:
    assert compare.is_edit_kept("- one\n- two", "- one\n- mine", later) is expected
