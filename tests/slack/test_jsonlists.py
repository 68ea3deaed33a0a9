import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memories.rules.ingest.slack_objects import TooLarge
from memories.slack import jsonlists
from memories.slack.jsonlists import Unreadable, iter_objects


class Drip(io.BytesIO):
    """A file that gives few bytes at a time, as a slow or compressed one may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(3)


def read(content: bytes) -> tuple[list[object], str]:
    """What was read, and the reason why reading ended early."""
    found: list[object] = []
    try:
        for one in iter_objects(Drip(content)):
            found.append(one)
    except Unreadable as error:
        return found, str(error)
    return found, ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, max_size=8), st.sampled_from([None, 1]), st.booleans())
def test_any_list_is_read_as_json_reads_it(
    values: list[Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    assert read(text.encode()) == (values, "")


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=8), st.data())
def test_a_cut_list_gives_what_lies_before_the_cut(values: list[Any], data: Any) -> None:
    content = json.dumps(values).encode()
    cut = data.draw(st.integers(0, len(content) - 1))
    found, reason = read(content[:cut])
    assert reason
    # Of a number the first digits may be all there is.
    assert found[:-1] == values[: len(found)][:-1]
    assert len(found) <= len(values)


@pytest.mark.parametrize(
    ("content", "found", "reason"),
    [
        (b"[]", [], ""),
        (b" [ ] \n", [], ""),
        (b"\xef\xbb\xbf[1]", [1], ""),
        (b"", [], "empty"),
        (b"  ", [], "empty"),
        (b"{}", [], "not a list"),
        (b'"text"', [], "not a list"),
        (b"null", [], "not a list"),
        (b"[1, 2", [1, 2], "cut off"),
        (b"[1,", [1], "cut off"),
        (b'[1, {"a": ', [1], "cut off"),
        (b'[1, "a', [1], "cut off"),
        (b"[1, oops, 3]", [1], "not JSON"),
        (b'[{"a" 1}, 3]' + b" " * 100, [], "not JSON"),
        (b"[1 2]", [1], "not JSON"),
        (b"[1,]", [1], "not JSON"),
        (b"[1] [2]", [1], "more than one list"),
        (b'[1, "\xff"]', [1], "not UTF-8"),
        (b'["\xe3\x81', [], "not UTF-8"),
    ],
)
def test_breaks(content: bytes, found: list[object], reason: str) -> None:
    assert read(content) == (found, reason)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b'[\n1,\n\n{"a":\n1 2}]', 4),
        (b"[1,\n2,\n", 3),
        (b'[\n"' + b"x" * 100_000 + b'",\n\noops]', 4),
    ],
)
def test_the_line_where_what_breaks_begins(content: bytes, line: int) -> None:
    for file in (Drip, io.BytesIO):
        with pytest.raises(Unreadable) as error:
            list(iter_objects(file(content)))
        assert error.value.line == line


@pytest.mark.parametrize(
    "large",
    [
        json.dumps({"a": "x" * 5000}),
        json.dumps({"a": [{"b\\": 'quote " and \\ and { [ "'}] * 200}),
        json.dumps("x" * 5000),
        json.dumps([["y" * 50]] * 100),
    ],
)
def test_what_is_too_large_is_passed_over_and_the_rest_is_read(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonlists, "MAX_VALUE_CHARACTERS", 1000)
    monkeypatch.setattr(jsonlists, "CHUNK_BYTES", 64)
    for file in (Drip, io.BytesIO):
        first, odd, last = iter_objects(file(f'[{{"n": 1}}, {large}, {{"n": 2}}]'.encode()))
        assert (first, last) == ({"n": 1}, {"n": 2})
        assert isinstance(odd, TooLarge)


@pytest.mark.parametrize("odd", ["[" * 100_000 + "]" * 100_000, '{"n": ' + "9" * 5000 + "}"])
def test_what_cannot_be_held_is_passed_over(odd: str) -> None:
    first, passed, last = iter_objects(io.BytesIO(f"[1, {odd}, 2]".encode()))
    assert (first, last) == (1, 2)
    assert isinstance(passed, TooLarge)


@pytest.mark.parametrize("file", [Drip, io.BytesIO])
def test_a_number_that_cannot_be_held_takes_no_neighbour_with_it(file: Any) -> None:
    digits = "9" * 70_000
    first, odd, last = iter_objects(file(f'[{{"n": 1}}, {digits} , {{"n": 2}}]'.encode()))
    assert (first, last) == ({"n": 1}, {"n": 2})
    assert isinstance(odd, TooLarge)
    assert read(f"[1, {digits}".encode())[1] == "cut off"


def test_only_a_piece_of_the_file_is_held() -> None:
    class Endless(io.RawIOBase):
        read_bytes = 0

        def read(self, size: int = -1) -> bytes:
            begin = b"[" if not self.read_bytes else b""
            self.read_bytes += size
            return begin + b'{"a": 1},' * (size // 9)

    file = Endless()
    found = iter_objects(file)  # type: ignore[arg-type]
    for _ in range(1000):
        next(found)
    assert file.read_bytes <= 2 * jsonlists.CHUNK_BYTES
