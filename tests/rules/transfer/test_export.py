"""The texts of a bundle: what is written is read back, and what was not written is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.models import Cap, Note, NoteVersion
from memories.pipeline.transfer.export.records import VERSION, column
from memories.rules.transfer import export
from memories.rules.transfer.export_text import as_json, from_json, read_version, version_text
from memories.rules.transfer.schema import Schema, SchemaError, an_object, number, text, ts, whole

MOMENT, DAY = (
    column(model._meta.get_field(name))
    for model, name in ((NoteVersion, "written_at"), (Note, "date"))
)
AMOUNT = column(Cap._meta.get_field("money"))
COUNT = whole(0, 2**31 - 1)
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
def test_a_version_reads_as_it_was_written(content: str, line: str) -> None:
    lines = [
        {
            **{"text": line, "origin": "person", "since": 1, "pinned": True, "masked": False},
            **{"kind": "task", "at_us": 5, "unverified": True, "fate": "superseded"},
            **{"successor": 0, "sources": [["C1", "1.5"]]},
        }
    ]
    written = version_text(FRONT | {"lines": lines, "author": line[:150] or None}, content)
    front, read = read_version(written, VERSION)
    assert read == content
    assert front["lines"][0]["text"] == line
    again = json.loads(as_json(front))
    assert again["lines"] == lines
    assert version_text({key: front[key] for key in FRONT}, read) == written


@pytest.mark.slow
@given(st.dictionaries(STORABLE, st.recursive(STORABLE | st.integers(), st.lists)))
def test_json_is_one_line_and_comes_back(value: object) -> None:
    line = as_json(value)
    assert "\n" not in line
    assert from_json(line) == value


def test_half_a_surrogate_pair_does_not_travel() -> None:
    assert from_json(as_json({"reply": "a\ud83d b"})) == {"reply": "a? b"}


@pytest.mark.parametrize(
    "line", ["", "{", "NaN", '{"a": 1, "a": 2}', "[" * 100_000, "1" * 10_000, "-Infinity"]
)
def test_what_is_no_json(line: str) -> None:
    with pytest.raises(SchemaError):
        from_json(line)


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
        (an_object, {"a": [1e400]}),
        (number, 10**400),
        (Schema({"a": whole()}), {}),
        (Schema({"a": whole()}), {"a": 1, "b": 2}),
        (Schema({"a": whole()}), []),
    ],
)
def test_what_no_column_takes(check: object, value: object) -> None:
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
def test_a_version_that_was_not_written(old: str, new: str, reason: str) -> None:
    written = version_text(FRONT, "text")
    with pytest.raises(SchemaError, match=reason):
        read_version(written.replace(old, new, 1), VERSION)


def test_a_version_says_something() -> None:
    with pytest.raises(SchemaError):
        read_version(version_text(FRONT, ""), VERSION)


@pytest.mark.parametrize("slack_id", ["../../etc", "C1/2", "..", "a\\b", "C:1", "\x7f"])
def test_no_id_leads_out_of_the_bundle(slack_id: str) -> None:
    name = export.messages_file(slack_id)
    folder = export.memory_folder("channel", "long_term", slack_id, "../x", "")
    assert name.count("/") == 1
    assert folder.count("/") == 3
    assert ".." not in name[:-6] + folder


def test_ids_keep_their_names_apart() -> None:
    assert export.messages_file("C1/2") != export.messages_file("C1%2F2")


@pytest.mark.parametrize(
    ("place", "holds"),
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
def test_places_of_memories(place: tuple[object, ...], holds: bool) -> None:
    names = ("scope", "scope_id", "memory_type", "channel", "thread_ts")
    assert export.valid_place(dict(zip(names, place, strict=True))) is holds
