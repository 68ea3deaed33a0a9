import json
from typing import Any

import pytest

from memories.rules.ingest.messages import MessageIn, parse_message
from memories.rules.ingest.outcomes import quarantined, skipped
from memories.rules.ingest.slack_objects import TooLarge
from memories.rules.ingest.timestamps import HOUR
from tests.slackexports import START, slack_message, ts

NOW_US = (START + 1_000_000) * 1_000_000


def read(raw: dict[str, Any]) -> MessageIn:
    incoming = parse_message(raw, NOW_US)
    assert isinstance(incoming, MessageIn), incoming
    return incoming


def nested(depth: int) -> dict[str, Any]:
    """Return a message with this many nested lists and objects."""
    blocks: Any = "x"
    for _ in range(depth - 1):
        blocks = [blocks]
    return slack_message(1, "deep", blocks=blocks)


def test_a_plain_message() -> None:
    raw = slack_message(5, "hello <@U2>")
    assert read(raw) == MessageIn(
        ts=ts(5),
        micros=(START + 5) * 1_000_000,
        thread_ts="",
        author="U1",
        text="hello <@U2>",
        raw=json.dumps(raw),
    )


def test_ts_keeps_its_zeros() -> None:
    assert read(slack_message(0, "x", ts="1700000000.123000")).ts == "1700000000.123000"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (None, "not an object"),
        ("text", "not an object"),
        ([], "not an object"),
        (TooLarge(), "too large"),
        ({}, "no ts"),
        ({"ts": None}, "no ts"),
        ({"ts": 1700000000.5}, "ts is not text"),
        ({"ts": "soon"}, "ts is not a number"),
        ({"ts": "1700000000"}, "ts is not a number"),
        ({"ts": "1e9.0"}, "ts is not a number"),
        ({"ts": "٣.٣"}, "ts is not a number"),
        ({"ts": "0000000001.000000"}, "ts out of range"),
        ({"ts": "1300000000.000000"}, "ts out of range"),
        ({"ts": f"{START + 1_090_000}.000000"}, "ts out of range"),
        ({"ts": "99999999999.000000"}, "ts out of range"),
        (
            {"type": "message", "subtype": "message_changed", "ts": ts(1)},
            "a change without its message",
        ),
        ({"type": "message", "subtype": "message_deleted", "ts": ts(1)}, "no ts"),
        (slack_message(1, "x" * 1_000_001), "too large"),
        *((nested(depth), "too large") for depth in (110, 900, 5000)),
    ],
)
def test_quarantined(raw: object, reason: str) -> None:
    assert parse_message(raw, NOW_US) == quarantined(reason)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (slack_message(1, "x", user="U00"), "placeholder author U00"),
        ({"type": "reaction_added", "ts": ts(1)}, "not a message"),
        (slack_message(1, "", subtype="message_replied"), "reply notice"),
    ],
)
def test_skipped(raw: object, reason: str) -> None:
    assert parse_message(raw, NOW_US) == skipped(reason)


def test_the_largest_messages_of_slack_fit() -> None:
    for letter in ("x", "日", "😀"):
        assert read(slack_message(1, letter * 40_000)).text == letter * 40_000
    assert read(slack_message(1, "z" * 900_000)).text == "z" * 900_000
    assert read(nested(90)).text == "deep"


def test_a_ts_may_be_up_to_a_day_in_the_future() -> None:
    now_us = START * 1_000_000
    assert isinstance(parse_message(slack_message(24 * 3600, "x"), now_us), MessageIn)
    assert parse_message(slack_message(24 * 3600 + 1, "x"), now_us) == quarantined(
        "ts out of range"
    )
    assert isinstance(parse_message(slack_message(0, "x"), now_us + 300_000 * HOUR), MessageIn)


@pytest.mark.parametrize(
    ("raw", "author", "username", "is_bot"),
    [
        ({"user": "U1"}, "U1", "", False),
        ({"user": "W1"}, "W1", "", False),
        ({"user": "USLACKBOT"}, "USLACKBOT", "", True),
        ({"user": "U1", "bot_id": "B1"}, "U1", "", True),
        ({"subtype": "bot_message", "bot_id": "B1", "username": "ci"}, "B1", "ci", True),
        ({"subtype": "bot_message", "username": "ci"}, "", "ci", True),
        ({"subtype": "bot_message"}, "", "unknown bot", True),
        ({"user": None}, "", "", False),
        ({}, "", "", False),
        ({"user": {"id": "U1"}}, "", "", False),
        ({"subtype": "file_comment", "comment": {"user": "U2"}}, "U2", "", False),
        (
            {"subtype": "huddle_thread", "user": "USLACKBOT", "room": {"created_by": "U3"}},
            "U3",
            "",
            False,
        ),
        ({"subtype": "me_message", "user": "U1"}, "U1", "", False),
    ],
)
def test_author(raw: dict[str, Any], author: str, username: str, is_bot: bool) -> None:
    incoming = read({"ts": ts(1), "text": "x"} | raw)
    assert (incoming.author, incoming.username, incoming.is_bot) == (author, username, is_bot)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ({"user": "U1", "user_profile": {"display_name": "Ann", "real_name": "A"}}, "Ann"),
        ({"user": "U1", "user_profile": {"display_name": "", "name": "ann"}}, "ann"),
        ({"user": "U1", "username": "not this one"}, ""),
        ({"bot_id": "B1", "bot_profile": {"name": "CI"}, "username": "ci"}, "CI"),
        ({"bot_id": "B1", "username": "ci"}, "ci"),
    ],
)
def test_the_author_name_for_people_in_no_list(raw: dict[str, Any], name: str) -> None:
    assert read({"ts": ts(1)} | raw).author_name == name


@pytest.mark.parametrize(
    "subtype",
    [
        *("channel_join", "channel_leave", "channel_archive", "channel_name", "channel_topic"),
        *("channel_purpose", "channel_convert_to_private", "group_join", "group_name"),
        *("pinned_item", "bot_add", "bot_remove", "reminder_add"),
    ],
)
def test_notices(subtype: str) -> None:
    assert read(slack_message(1, "<@U1> did it", subtype=subtype)).is_notice


@pytest.mark.parametrize(
    "subtype",
    [
        "me_message",
        "file_share",
        "file_comment",
        "huddle_thread",
        "thread_broadcast",
        "bot_message",
        "next_years",
    ],
)
def test_messages_of_people_are_no_notices(subtype: str) -> None:
    assert not read(slack_message(1, "x", subtype=subtype)).is_notice


@pytest.mark.parametrize(
    ("raw", "thread"),
    [
        ({}, ""),
        ({"thread_ts": ts(9)}, ts(9)),
        ({"thread_ts": ts(1)}, ts(1)),
        ({"reply_count": 2}, ts(9)),
        ({"thread_ts": None}, ""),
        ({"thread_ts": 3}, ""),
        ({"thread_ts": "soon"}, ""),
        ({"thread_ts": "0000000000.000000"}, ""),
        ({"thread_ts": ts(10)}, ""),  # before its root: no thread
    ],
)
def test_thread(raw: dict[str, Any], thread: str) -> None:
    assert read(slack_message(9, "x", **raw)).thread_ts == thread


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"reply_count": 2, "latest_reply": ts(20)}, (2, ts(20))),
        ({"latest_reply": ts(20)}, (0, ts(20))),
        ({"reply_count": 2, "latest_reply": "0000000000.000000"}, (0, "")),
        ({"reply_count": "many", "latest_reply": None}, (0, "")),
        ({"reply_count": -1, "latest_reply": "x"}, (0, "")),
        ({"reply_count": 10**12}, (0, "")),
        ({}, (0, "")),
    ],
)
def test_reply_counts_of_a_root(raw: dict[str, Any], expected: tuple[int, str]) -> None:
    incoming = read(slack_message(9, "x", thread_ts=ts(9), **raw))
    assert (incoming.reply_count, incoming.latest_reply) == expected


def test_broadcast() -> None:
    incoming = read(
        slack_message(9, "x", subtype="thread_broadcast", thread_ts=ts(1), root={"text": "r"})
    )
    assert (incoming.broadcast, incoming.thread_ts, incoming.text) == (True, ts(1), "x")


def test_an_edit_has_the_ts_of_its_message() -> None:
    inner = slack_message(9, "new", edited={"user": "U1", "ts": ts(30)})
    incoming = read(
        {"type": "message", "subtype": "message_changed", "ts": ts(31), "message": inner}
    )
    assert (incoming.ts, incoming.text, incoming.edited_ts) == (ts(9), "new", ts(30))
    assert incoming.raw == json.dumps(inner)


def test_the_events_time_dates_an_edit_without_a_time() -> None:
    event = {
        "type": "message",
        "subtype": "message_changed",
        "ts": ts(31),
        "message": slack_message(9, "new"),
        "previous_message": slack_message(9, "old"),
    }
    assert read(event).edited_ts == ts(31)
    unfurled = event | {"previous_message": slack_message(9, "new")}
    assert read(unfurled).edited_ts == ""


@pytest.mark.parametrize(
    "edited", [None, {}, {"ts": None}, {"ts": "soon"}, {"ts": "99999999999.0"}, 7]
)
def test_an_edit_without_a_valid_time_has_none(edited: object) -> None:
    assert read(slack_message(9, "x", edited=edited)).edited_ts == ""


def test_a_deletion_has_the_ts_of_its_message() -> None:
    event = {
        "type": "message",
        "subtype": "message_deleted",
        "hidden": True,
        "ts": ts(50),
        "deleted_ts": ts(9),
        "previous_message": slack_message(9, "secret", thread_ts=ts(1)),
    }
    incoming = read(event)
    assert incoming == MessageIn(
        ts=ts(9), micros=(START + 9) * 1_000_000, thread_ts=ts(1), is_deleted=True
    )


def test_a_tombstone_keeps_only_its_thread() -> None:
    raw = slack_message(
        9,
        "This message was deleted.",
        user="USLACKBOT",
        subtype="tombstone",
        hidden=True,
        thread_ts=ts(9),
        reply_count=2,
        latest_reply=ts(20),
    )
    incoming = read(raw)
    assert (incoming.is_deleted, incoming.thread_ts, incoming.reply_count) == (True, ts(9), 2)
    assert incoming.text == incoming.raw == incoming.author == ""
    changed = {"type": "message", "subtype": "message_changed", "ts": ts(60), "message": raw}
    assert read(changed) == incoming


def test_raw_keeps_characters_that_the_text_cannot_store() -> None:
    raw = json.loads('{"ts": "1700000001.000000", "text": "a\\u0000b\\ud800c", "user": "U1"}')
    incoming = read(raw)
    assert incoming.text == "a\ufffdb\ufffdc"
    assert incoming.raw.isascii() and "\x00" not in incoming.raw
    assert json.loads(incoming.raw) == raw
