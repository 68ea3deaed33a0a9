"""The format of an export: values are read as they were written, and others are refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.models import Budget, Note, NoteVersion
from memories.pipeline.transfer.export.schemas import VERSION, column_check
from memories.rules.transfer import export_format
from memories.rules.transfer.export_format import format_version, parse_version
from memories.rules.transfer.schema import (
    Schema,
    SchemaError,
    boolean,
    integer,
    json_object,
    list_of,
    number,
    parse_json,
    text,
    to_json,
    ts,
    tuple_of,
)

MOMENT, DAY = (
    column_check(model._meta.get_field(name))
    for model, name in ((NoteVersion, "written_at"), (Note, "date"))
)
AMOUNT = column_check(Budget._meta.get_field("money"))
COUNT = integer(0, 2**31 - 1)
STORABLE = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
FRONT = {
    "number": 3,
    "name": "",
    "origin": "model",
    "author": None,
    "created_at": "2026-01-05T09:00:00.000001+00:00",
    "updated_at": "2026-01-05T09:00:00+00:00",
    "revision": 0,
    "audience": "scope",
    "base": 2,
    "restored_from": None,
    "segment": ["C1", "", 4],
    "provisional": False,
    "merged": True,
    "until_us": 1,
    "source_message_count": 1,
    "source_latest_message_ts": "1700000000.000100",
    "trigger": {"reason": "idle"},
    "put_back": [],
    "kept": [],
    "dropped": [],
    "job": None,
    "made_by": None,
    "lines": [],
}
ODD = [
    "---",
    "\n---\n",
    "lines:",
    "- a\r\nb",
    "\u202e\u2028\x85",
    "記憶\n",
    "\n",
    " ",
    "👨‍👩‍👧\ufe0f",
]


@given(STORABLE.filter(bool) | st.sampled_from(ODD), STORABLE | st.sampled_from(ODD))
def test_a_version_is_read_as_it_was_written(content: str, line: str) -> None:
    lines = [
        {
            **{"text": line, "origin": "person", "since": 1, "pinned": True, "redacted": False},
            **{"kind": "task", "at_us": 5, "unverified": True, "outcome": "superseded"},
            **{"successor": 0, "author": None, "sources": [["C1", "1.5"]]},
        }
    ]
    written = format_version(FRONT | {"lines": lines, "author": line[:150] or None}, content)
    front, read = parse_version(written, VERSION)
    assert read == content
    assert front["lines"][0]["text"] == line
    again = json.loads(to_json(front))
    assert again["lines"] == lines
    assert format_version({key: front[key] for key in FRONT}, read) == written


@pytest.mark.slow
@given(st.dictionaries(STORABLE, st.recursive(STORABLE | st.integers(), st.lists)))
def test_json_is_one_line_and_can_be_parsed_again(value: object) -> None:
    line = to_json(value)
    assert "\n" not in line
    assert parse_json(line) == value


def test_what_json_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="object is not JSON"):
        to_json({"a": object()})


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert parse_json(to_json({"reply": "a\ud83d b"})) == {"reply": "a? b"}


@pytest.mark.parametrize(
    "line", ["", "{", "NaN", '{"a": 1, "a": 2}', "[" * 100_000, "1" * 10_000, "-Infinity"]
)
def test_invalid_json_is_refused(line: str) -> None:
    with pytest.raises(SchemaError):
        parse_json(line)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (text(3), "abcd"),
        (text(), "a\x00b"),
        (text(), "\ud800"),
        (text(), 1),
        (COUNT, -1),
        (COUNT, True),
        (COUNT, 2**31),
        (ts, "1700000000"),
        (ts, None),
        (MOMENT, "2026-01-05T09:00:00"),
        (MOMENT, "0001-01-01T00:00:00+14:00"),
        (MOMENT, 5),
        (AMOUNT, "NaN"),
        (AMOUNT, "1.005"),
        (AMOUNT, 1),
        (AMOUNT, "-1"),
        (AMOUNT, "10000000000"),
        (DAY, "soon"),
        (MOMENT, "2026-01-05"),
        (json_object, {"a": [1e400]}),
        (json_object, ["a"]),
        (json_object, json.loads('{"a":' * 900 + "1" + "}" * 900)),
        (number, 10**400),
        (number, True),
        (number, "1"),
        (boolean, 1),
        (list_of(COUNT), 5),
        (list_of(COUNT), [1, -1]),
        (tuple_of(COUNT, COUNT), [1]),
        (tuple_of(COUNT, COUNT), 5),
        (Schema({"a": integer()}), {}),
        (Schema({"a": integer()}), {"a": 1, "b": 2}),
        (Schema({"a": integer()}), []),
    ],
)
def test_values_that_no_column_can_store_are_refused(check: object, value: object) -> None:
    with pytest.raises(SchemaError):
        check(value)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("---\n", "", "front"),
        ("number: 3", "number: x", "line 2: is no JSON"),
        ("number: 3", "number: 3\nnumber: 3", "line 3: is no new key"),
        ("number: 3\n", "", "has no 'number'"),
        ("origin:", "colour: 1\norigin:", "unknown key 'colour'"),
        ("number: 3", "number: 0", "number: is no whole number from 1"),
        ("lines:\n", "lines:\nmore: 1\n", "no line of the text's lines"),
    ],
)
def test_a_changed_version_is_refused(old: str, new: str, reason: str) -> None:
    written = format_version(FRONT, "text")
    with pytest.raises(SchemaError, match=reason):
        parse_version(written.replace(old, new, 1), VERSION)


def test_a_version_without_text_is_refused() -> None:
    with pytest.raises(SchemaError):
        parse_version(format_version(FRONT, ""), VERSION)


@pytest.mark.parametrize("slack_id", ["../../etc", "C1/2", "..", "a\\b", "C:1", "\x7f"])
def test_no_id_leads_out_of_its_folder(slack_id: str) -> None:
    name = export_format.messages_path(slack_id)
    folder = export_format.memory_folder("channel", "long_term", slack_id, "../x", "")
    assert name.count("/") == 1
    assert folder.count("/") == 3
    assert ".." not in name[:-6] + folder


def test_different_ids_have_different_file_names() -> None:
    assert export_format.messages_path("C1/2") != export_format.messages_path("C1%2F2")


@pytest.mark.parametrize(
    ("identity", "is_consistent"),
    [
        (("workspace", "default", "long_term", None, ""), True),
        (("workspace", "C1", "long_term", None, ""), False),
        (("workspace", "default", "long_term", "C1", ""), False),
        (("channel", "C1", "short_term", "C1", ""), True),
        (("channel", "C2", "short_term", "C1", ""), False),
        (("thread", "C1:1.5", "short_term", "C1", "1.5"), True),
        (("thread", "C1:1.5", "long_term", "C1", "1.5"), False),
        (("thread", "C1:1.5", "short_term", "C1", ""), False),
        (("thread", "None:1.5", "short_term", None, "1.5"), False),
    ],
)
def test_scope_and_channel_of_a_memory_belong_together(
    identity: tuple[object, ...], is_consistent: bool
) -> None:
    names = ("scope", "scope_id", "memory_type", "channel", "thread_ts")
    assert (
        export_format.has_consistent_scope(dict(zip(names, identity, strict=True))) is is_consistent
    )
