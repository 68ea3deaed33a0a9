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
    """A file that returns few bytes at a time, as a slow or compressed one may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(3)


def read(content: bytes) -> tuple[list[object], str]:
    """Return the objects, and why reading ended early."""
    values_read: list[object] = []
    try:
        for value in iter_objects(Drip(content)):
            values_read.append(value)
    except Unreadable as error:
        return values_read, str(error)
    return values_read, ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, max_size=8), st.sampled_from([None, 1]), st.booleans())
def test_a_list_is_read_as_json_reads_it(
    values: list[Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    assert read(text.encode()) == (values, "")


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=8), st.data())
def test_a_cut_list_yields_the_values_before_the_cut(values: list[Any], data: Any) -> None:
    content = json.dumps(values).encode()
    cut = data.draw(st.integers(0, len(content) - 1))
    values_read, reason = read(content[:cut])
    assert reason
    # The first digits of a number may be a number too.
    assert values_read[:-1] == values[: len(values_read)][:-1]
    assert len(values_read) <= len(values)


@pytest.mark.parametrize(
    ("content", "values_read", "reason"),
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
def test_where_a_list_breaks(content: bytes, values_read: list[object], reason: str) -> None:
    assert read(content) == (values_read, reason)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b'[\n1,\n\n{"a":\n1 2}]', 4),
        (b"[1,\n2,\n", 3),
        (b'[\n"' + b"x" * 100_000 + b'",\n\noops]', 4),
    ],
)
def test_the_line_of_the_broken_value(content: bytes, line: int) -> None:
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
def test_a_large_value_is_skipped(large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlists, "MAX_VALUE_CHARACTERS", 1000)
    monkeypatch.setattr(jsonlists, "CHUNK_BYTES", 64)
    for file in (Drip, io.BytesIO):
        first, odd, last = iter_objects(file(f'[{{"n": 1}}, {large}, {{"n": 2}}]'.encode()))
        assert (first, last) == ({"n": 1}, {"n": 2})
        assert isinstance(odd, TooLarge)


@pytest.mark.parametrize("odd", ["[" * 100_000 + "]" * 100_000, '{"n": ' + "9" * 5000 + "}"])
def test_a_value_that_cannot_be_parsed_is_skipped(odd: str) -> None:
    first, skipped, last = iter_objects(io.BytesIO(f"[1, {odd}, 2]".encode()))
    assert (first, last) == (1, 2)
    assert isinstance(skipped, TooLarge)


@pytest.mark.parametrize("file", [Drip, io.BytesIO])
def test_the_values_beside_a_long_number_are_read(file: Any) -> None:
    digits = "9" * 70_000
    first, odd, last = iter_objects(file(f'[{{"n": 1}}, {digits} , {{"n": 2}}]'.encode()))
    assert (first, last) == ({"n": 1}, {"n": 2})
    assert isinstance(odd, TooLarge)
    assert read(f"[1, {digits}".encode())[1] == "cut off"


def test_only_a_part_of_the_file_is_in_memory() -> None:
    class Endless(io.RawIOBase):
        read_bytes = 0

        def read(self, size: int = -1) -> bytes:
            begin = b"[" if not self.read_bytes else b""
            self.read_bytes += size
            return begin + b'{"a": 1},' * (size // 9)

    file = Endless()
    values_read = iter_objects(file)  # type: ignore[arg-type]
    for _ in range(1000):
        next(values_read)
    assert file.read_bytes <= 2 * jsonlists.CHUNK_BYTES
