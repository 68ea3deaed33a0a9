"""What came in, and what is to be done about it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.ingest.events import (
    SUBSCRIBED,
    Action,
    Challenge,
    Create,
    Describe,
    EventEnvelope,
    Join,
    Leave,
    Narrow,
    Narrowing,
    RateLimited,
    Skip,
    Stop,
    Store,
    UpdatePerson,
    action_for,
    parse_payload,
    read_body,
)
from tests.slack.fake_events import rate_limited, url_verification

BOTS = ["U0BOT"]


def posted(event: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "token": "legacy",
        "team_id": "T1",
        "type": "event_callback",
        "event_id": "Ev1",
        "event_time": 1_767_603_600,
        "event": {"type": "message", "channel": "C1", "ts": "1767603600.000100", "text": "hi"}
        if event is None
        else event,
        **more,
    }


# -- what came in


def test_a_challenge() -> None:
    assert parse_payload(url_verification("abc")) == Challenge("abc")


def test_a_minute_left_out() -> None:
    assert parse_payload(rate_limited("T1", 1_767_603_600)) == RateLimited(("T1",), 1_767_603_600)


def test_an_event() -> None:
    authorised = [{"team_id": "T1", "user_id": "U0BOT", "is_bot": True}, {"user_id": "U2"}]
    told = parse_payload(posted(authorizations=authorised))
    assert isinstance(told, EventEnvelope)
    assert (told.event_id, told.teams, told.kind) == ("Ev1", ("T1",), "message")
    assert read_body(told.body) == (told.event, ["U0BOT"], 1_767_603_600)
    assert "legacy" not in told.body


def test_the_team_that_installed_the_app_comes_first() -> None:
    """In a channel that is shared the event may happen in another team."""
    told = parse_payload(
        posted(team_id="T9", context_team_id="T1", authorizations=[{"team_id": "T1"}])
    )
    assert isinstance(told, EventEnvelope)
    assert told.teams == ("T1", "T9")


def test_a_kind_says_its_subtype() -> None:
    told = parse_payload(posted({"type": "message", "subtype": "message_deleted"}))
    assert isinstance(told, EventEnvelope)
    assert told.kind == "message/message_deleted"


def deep(levels: int = 100_000) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    event = {"type": "message", "x": inner}
    for _ in range(levels):
        inner["x"] = {}
        inner = inner["x"]
    return event


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "text",
        [],
        {},
        {"type": "url_verification"},
        {"type": "url_verification", "challenge": 5},
        {"type": "url_verification", "challenge": ""},
        {"type": "url_verification", "challenge": "x" * 1001},
        {"type": "app_rate_limited"},
        posted(type="block_actions"),
        posted(team_id=None),
        posted(team_id=["T1"]),
        posted(team_id="T1; DROP TABLE"),
        posted(event_id=None),
        posted(event_id=7),
        posted(event_id=""),
        posted(event_id="E" * 65),
        posted(event_id="E\n1"),
        posted(event="message"),
        posted({}),
        posted({"type": 5}),
        posted({"type": ""}),
    ],
)
def test_nothing_that_slack_sends(raw: object) -> None:
    assert parse_payload(raw) is None


def test_an_event_that_nests_too_deeply() -> None:
    assert parse_payload(posted(deep())) is None


@pytest.mark.parametrize("body", ["", "null", "[]", "{", '{"event": 5, "bots": 5, "at": "x"}'])
def test_a_body_of_anything(body: str) -> None:
    assert read_body(body) == ({}, [], 0)


# -- what is to be done

SAID = {"type": "message", "channel": "C1", "ts": "1767603600.000100", "text": "hi", "user": "U1"}
OF_EVENT = {"channel_type": "channel", "event_ts": "1767603600.000100"}
IN_HISTORY = {key: value for key, value in SAID.items() if key != "channel"}


@pytest.mark.parametrize("subtype", [None, "thread_broadcast", "me_message", "bot_message"])
def test_a_message_as_history_has_it(subtype: str | None) -> None:
    more = {"subtype": subtype} if subtype else {}
    assert action_for({**SAID, **OF_EVENT, **more}, []) == Store(
        "C1", {**IN_HISTORY, **more}, False
    )


@pytest.mark.parametrize(
    ("more", "private"),
    [
        ({"channel_type": "channel"}, False),
        ({"channel_type": "group"}, True),
        ({}, False),
        ({"channel_type": "channel", "subtype": "channel_convert_to_private"}, True),
        ({"channel_type": "channel", "subtype": "channel_convert_to_public"}, False),
        ({"channel_type": "channel", "subtype": "channel_name"}, False),
    ],
)
def test_whether_slack_calls_the_channel_private(more: dict[str, Any], private: bool) -> None:
    found = action_for({**SAID, **more}, [])
    assert isinstance(found, Store)
    assert found.private is private


@pytest.mark.parametrize(
    ("event", "gone"),
    [
        ({"subtype": "message_deleted", "deleted_ts": "1.1"}, "1.1"),
        ({"subtype": "message_changed", "message": {"subtype": "tombstone", "ts": "1.2"}}, "1.2"),
        ({"subtype": "message_changed", "message": {"ts": "1.3"}}, ""),
        ({"subtype": "tombstone"}, SAID["ts"]),
        ({}, ""),
    ],
)
def test_what_is_gone(event: dict[str, Any], gone: str) -> None:
    found = action_for({**SAID, **event}, [])
    assert isinstance(found, Store)
    assert found.deleted_ts == gone


def test_an_edit_keeps_when_it_was_told() -> None:
    event = {"subtype": "message_changed", "message": {"ts": "1.1"}, "event_ts": "2.2"}
    found = action_for({**SAID, **event}, [])
    assert isinstance(found, Store)
    assert found.raw["event_ts"] == "2.2"


ROOM = {"id": "C1", "name": "launch"}


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        ({"type": "member_joined_channel", "channel": "C1", "user": "U1"}, Join("C1", "U1", False)),
        (
            {"type": "member_joined_channel", "channel": "C1", "user": "U0BOT"},
            Join("C1", "U0BOT", True),
        ),
        ({"type": "member_left_channel", "channel": "C1", "user": "U1"}, Leave("C1", "U1")),
        ({"type": "member_left_channel", "channel": "C1", "user": "U0BOT"}, Leave("C1", "")),
        ({"type": "channel_left", "channel": "C1"}, Leave("C1", "")),
        ({"type": "group_left", "channel": "C1"}, Leave("C1", "")),
        ({"type": "channel_rename", "channel": ROOM}, Describe("C1", {"name": "launch"})),
        ({"type": "group_rename", "channel": ROOM}, Describe("C1", {"name": "launch"})),
        ({"type": "channel_archive", "channel": "C1"}, Describe("C1", {"is_archived": True})),
        ({"type": "group_archive", "channel": "C1"}, Describe("C1", {"is_archived": True})),
        ({"type": "channel_unarchive", "channel": "C1"}, Describe("C1", {"is_archived": False})),
        ({"type": "group_unarchive", "channel": "C1"}, Describe("C1", {"is_archived": False})),
        ({"type": "channel_created", "channel": ROOM}, Create("C1", ROOM, "private")),
        (
            {"type": "channel_created", "channel": {**ROOM, "is_private": False}},
            Create("C1", {**ROOM, "is_private": False}, "public"),
        ),
        ({"type": "channel_shared", "channel": "C1"}, Narrow("C1", Narrowing.SHARED)),
        ({"type": "channel_deleted", "channel": "C1"}, Narrow("C1", Narrowing.DELETED)),
        ({"type": "group_deleted", "channel": "C1"}, Narrow("C1", Narrowing.DELETED)),
        ({"type": "channel_convert_to_private", "channel": "C1"}, Narrow("C1", Narrowing.PRIVATE)),
        ({"type": "team_join", "user": {"id": "U1"}}, UpdatePerson({"id": "U1"})),
        ({"type": "user_change", "user": {"id": "U1"}}, UpdatePerson({"id": "U1"})),
    ],
)
def test_channels_and_people(event: dict[str, Any], wanted: Action) -> None:
    assert action_for(event, BOTS) == wanted


def test_the_end_of_a_token() -> None:
    stop = action_for({"type": "app_uninstalled"}, [])
    assert isinstance(stop, Stop) and stop.state == "uninstalled"
    stop = action_for({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": ["U0BOT"]}}, [])
    assert isinstance(stop, Stop) and stop.state == "revoked"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "tokens_revoked", "tokens": {"oauth": ["U1"]}}, "tokens of people"),
        ({"type": "tokens_revoked"}, "tokens of people"),
        ({**SAID, "channel": "D1"}, "direct messages"),
        ({**SAID, "channel_type": "im"}, "direct messages"),
        ({**SAID, "channel_type": "mpim"}, "direct messages"),
        ({**SAID, "channel_type": "app_home"}, "direct messages"),
        ({**SAID, "channel": None}, "no channel"),
        ({**SAID, "subtype": "message_replied"}, "reply notice"),
        ({"type": "channel_rename", "channel": {"id": "D1", "name": "x"}}, "direct messages"),
        ({"type": "channel_rename", "channel": {**ROOM, "is_mpim": True}}, "direct messages"),
        ({"type": "channel_rename", "channel": {"id": "C1"}}, "no name"),
        ({"type": "channel_rename", "channel": 5}, "no channel"),
        ({"type": "member_left_channel", "channel": "C1"}, "no person"),
        ({"type": "member_joined_channel", "channel": "C1", "user": 5}, "no person"),
        ({"type": "user_change", "user": "U1"}, "no person"),
        ({"type": "channel_unshared", "channel": "C1"}, "not an event that is read"),
        ({"type": "reaction_added"}, "not an event that is read"),
        ({}, "not an event that is read"),
    ],
)
def test_what_is_skipped(event: dict[str, Any], reason: str) -> None:
    assert action_for(event, BOTS) == Skip(reason)


@pytest.mark.parametrize("name", SUBSCRIBED)
def test_what_is_subscribed_to_is_read(name: str) -> None:
    event = {"type": name.partition(".")[0], "channel": ROOM, "user": "U1"}
    if event["type"] == "message":
        event["channel"] = "C1"
    if name in ("team_join", "user_change"):
        event["user"] = {"id": "U1"}
    if name == "tokens_revoked":
        event["tokens"] = {"bot": ["U0BOT"]}
    assert not isinstance(action_for(event, []), Skip)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "name", "ts", "subtype", "message", "channel", "user", "bot"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
TYPES = sorted({name.partition(".")[0] for name in SUBSCRIBED} | {"nothing"})


@pytest.mark.slow
@given(kind=st.sampled_from(TYPES), channel=ANYTHING, user=ANYTHING, more=ANYTHING)
def test_anything_at_all(kind: str, channel: Any, user: Any, more: Any) -> None:
    """No error, and what comes of it survives being kept."""
    event = {"type": kind, "channel": channel, "user": user, "message": more, "tokens": more}
    told = parse_payload(posted(event))
    assert isinstance(told, EventEnvelope)
    assert action_for(*read_body(told.body)[:2]) == action_for(json.loads(json.dumps(event)), [])


@given(raw=ANYTHING)
def test_any_envelope(raw: Any) -> None:
    parse_payload(raw)
