"""Rules of "Catch up": the start of the news, the changed lines, and the cursor of the list."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.backfill_input import InvalidInput
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.catch_up import (
    NewsKey,
    Since,
    compare_unmoved,
    format_cursor,
    loses_many_lines,
    parse_cursor,
    parse_since,
)
from memories.rules.memory.compare import ChangeKind
from memories.rules.memory.lines import split_text, strip_bullet

NOW = datetime(2026, 11, 20, 18, 5, tzinfo=UTC)
TOKYO = ZoneInfo("Asia/Tokyo")
ADDED, REMOVED, CHANGED = ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED


@pytest.mark.parametrize(
    ("choice", "begin"),
    [
        pytest.param("24h", NOW - timedelta(hours=24), id="24 hours"),
        pytest.param("7d", NOW - timedelta(days=7), id="7 days"),
        pytest.param("2026-11-18", datetime(2026, 11, 17, 15, tzinfo=UTC), id="a day in its zone"),
        pytest.param("2026-11-21", None, id="a day that has begun elsewhere"),
        pytest.param("2026-11-20", datetime(2026, 11, 19, 15, tzinfo=UTC), id="today"),
        pytest.param("0001-01-01", datetime(1970, 1, 1, tzinfo=UTC), id="before everything"),
    ],
)
def test_choices_are_parsed(choice: str, begin: datetime | None) -> None:
    now = NOW if begin else NOW - timedelta(hours=9)
    if begin is None:
        with pytest.raises(InvalidInput):
            parse_since(choice, now, TOKYO)
    else:
        assert parse_since(choice, now, TOKYO) == Since(choice, to_micros(begin))


@pytest.mark.parametrize("choice", ["", "seen", " seen "])
def test_an_empty_choice_means_the_last_mark(choice: str) -> None:
    since = parse_since(choice, NOW, TOKYO)
    assert (since.is_seen, since.us) == (True, None)


@pytest.mark.parametrize(
    "choice", ["7", "all", "9d", "2026-13-01", "2026-02-30", "-", "9999-12-31"]
)
def test_invalid_choices_are_refused(choice: str) -> None:
    with pytest.raises(InvalidInput):
        parse_since(choice, NOW, TOKYO)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("- a b c\n- d e f", "* a b c\n• d e f", [], id="other bullets"),
        pytest.param("a b c\nd e f", "d e f\na b c", [], id="only moved"),
        pytest.param("", "a b c\nd e f", [(ADDED, None, 0), (ADDED, None, 1)], id="never seen"),
        pytest.param("a b c", "x y z\na b c", [(ADDED, None, 0)], id="one more, in front"),
        pytest.param("a b c\nd e f", "d e f", [(REMOVED, 0, None)], id="one less"),
        pytest.param("a b c\na b c", "a b c", [(REMOVED, 1, None)], id="said twice before"),
        pytest.param(
            "we launch on Friday\nAya owns iOS",
            "Aya owns iOS\nwe launch on Monday",
            [(CHANGED, 0, 1)],
            id="reworded and moved",
        ),
        pytest.param(
            "在庫連携は毎朝五時に一回\n締めは月末",
            "在庫連携は毎朝六時に一回\n締めは月末",
            [(CHANGED, 0, 0)],
            id="one kanji",
        ),
        pytest.param(
            "dogs bark loudly\nkeep me", "keep me\nrain falls softly", None, id="replaced"
        ),
    ],
)
def test_changed_lines_are_found(
    old: str, new: str, expected: list[tuple[ChangeKind, int | None, int | None]] | None
) -> None:
    rows = compare_unmoved(old, new)
    if expected is None:
        assert {row.kind for row in rows} == {ADDED, REMOVED}
        assert [(row.before, row.after) for row in rows] == [
            ("dogs bark loudly", ""),
            ("", "rain falls softly"),
        ]
    else:
        assert [(row.kind, row.old, row.new) for row in rows] == expected


LINES = st.lists(
    st.sampled_from(["a b c", "a b d", "- x y", "x y z", "締めは月末", "締めは月初", "", "- "]),
    max_size=8,
)


@given(LINES, LINES)
def test_each_line_is_unchanged_or_in_a_row(before: list[str], after: list[str]) -> None:
    old, new = "\n".join(before), "\n".join(after)
    rows = compare_unmoved(old, new)
    old_places = [row.old for row in rows if row.old is not None]
    new_places = [row.new for row in rows if row.new is not None]
    assert len(set(old_places)) == len(old_places) and len(set(new_places)) == len(new_places)
    both_texts = split_text(old), split_text(new)
    for row in rows:
        if row.old is not None:
            assert row.before == strip_bullet(both_texts[0][row.old])
        if row.new is not None:
            assert row.after == strip_bullet(both_texts[1][row.new])
    kept = [
        sorted(strip_bullet(line) for i, line in enumerate(lines) if i not in places)
        for lines, places in zip(both_texts, (old_places, new_places), strict=True)
    ]
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    ("lines", "removed_count", "is_many"),
    [(10, 3, False), (10, 4, True), (3, 1, True), (4, 1, False), (1, 0, False), (0, 0, False)],
)
def test_lost_lines_are_counted(lines: int, removed_count: int, is_many: bool) -> None:
    texts = [f"{letter * 3} {letter * 4} {letter * 5}" for letter in "abcdefghij"[:lines]]
    old, new = "\n".join(texts), "\n".join(texts[removed_count:])
    assert loses_many_lines(old, compare_unmoved(old, new)) is is_many


def test_a_reworded_line_is_not_lost() -> None:
    old = "we launch on Friday\nAya owns iOS now"
    rows = compare_unmoved(old, "we launch on Monday\nAya owns iOS again")
    assert [row.kind for row in rows] == [CHANGED, CHANGED]
    assert not loses_many_lines(old, rows)


@given(st.tuples(*4 * [st.integers(0, 10**17 - 1)]))
def test_a_cursor_is_parsed_as_formatted(key: tuple[int, int, int, int]) -> None:
    assert parse_cursor(format_cursor(NewsKey(*key))) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "-",
        "1-2-3-",
        "-1-2-3",
        "a-b-c-d",
        "1-2-3",
        "1-2-3-4-5",
        "٣-1-1-1",
        "1-1-1-" + "9" * 18,
    ],
)
def test_invalid_texts_are_no_cursor(text: str) -> None:
    assert parse_cursor(text) is None
