import pytest

from memories.rules.ingest.characters import LINE_BREAK, is_storable, make_storable


@pytest.mark.parametrize(
    ("text", "length", "kept"),
    [
        pytest.param("かぞえ\n🙂", None, "かぞえ\n🙂", id="what can be stored stays"),
        pytest.param("a\0b", None, "a\ufffdb", id="NUL"),
        pytest.param("a\ud83db\ude00", None, "a\ufffdb\ufffd", id="halves of a pair"),
        pytest.param("abc", 2, "ab", id="too long"),
    ],
)
def test_text_fits_every_database(text: str, length: int | None, kept: str) -> None:
    assert make_storable(text, length) == kept
    assert is_storable(text) is ("\ufffd" not in kept)
    make_storable(text, length).encode()


@pytest.mark.parametrize("line_break", ["\r\n", *"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"], ids=repr)
def test_lines_break_where_python_breaks_them(line_break: str) -> None:
    text = f"a{line_break}b"
    assert LINE_BREAK.split(text) == text.splitlines() == ["a", "b"]
