"""Parsing of event requests, and the action of each event."""

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


def payload(event: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "token": "legacy",
        "team_id": "T1",
        "type": "event_callback",
        "event_id": "Ev1",
        "event_time": 1_767_603_600,
        "event": {"type": "message", "channel": "C1", "ts": "1767603600.000100", "text": "hi"}
        if event is None
        else event,
        **fields,
    }


# Requests


def test_a_challenge() -> None:
    assert parse_payload(url_verification("abc")) == Challenge("abc")


def test_a_rate_limit() -> None:
    assert parse_payload(rate_limited("T1", 1_767_603_600)) == RateLimited(("T1",), 1_767_603_600)


def test_an_event_callback() -> None:
    authorizations = [{"team_id": "T1", "user_id": "U0BOT", "is_bot": True}, {"user_id": "U2"}]
    envelope = parse_payload(payload(authorizations=authorizations))
    assert isinstance(envelope, EventEnvelope)
    assert (envelope.event_id, envelope.teams, envelope.kind) == ("Ev1", ("T1",), "message")
    assert read_body(envelope.body) == (envelope.event, ["U0BOT"], 1_767_603_600)
    assert "legacy" not in envelope.body


def test_the_team_that_installed_the_app_comes_first() -> None:
    """An event of a shared channel may come from another team."""
    envelope = parse_payload(
        payload(team_id="T9", context_team_id="T1", authorizations=[{"team_id": "T1"}])
    )
    assert isinstance(envelope, EventEnvelope)
    assert envelope.teams == ("T1", "T9")


def test_the_kind_has_the_subtype() -> None:
    envelope = parse_payload(payload({"type": "message", "subtype": "message_deleted"}))
    assert isinstance(envelope, EventEnvelope)
    assert envelope.kind == "message/message_deleted"


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
        payload(type="block_actions"),
        payload(team_id=None),
        payload(team_id=["T1"]),
        payload(team_id="T1; DROP TABLE"),
        payload(event_id=None),
        payload(event_id=7),
        payload(event_id=""),
        payload(event_id="E" * 65),
        payload(event_id="E\n1"),
        payload(event="message"),
        payload({}),
        payload({"type": 5}),
        payload({"type": ""}),
    ],
)
def test_invalid_payloads_are_refused(raw: object) -> None:
    assert parse_payload(raw) is None


def test_an_event_with_deep_nesting_is_refused() -> None:
    assert parse_payload(payload(deep())) is None


@pytest.mark.parametrize("body", ["", "null", "[]", "{", '{"event": 5, "bots": 5, "at": "x"}'])
def test_an_unreadable_body_is_empty(body: str) -> None:
    assert read_body(body) == ({}, [], 0)


# Actions

MESSAGE = {
    "type": "message",
    "channel": "C1",
    "ts": "1767603600.000100",
    "text": "hi",
    "user": "U1",
}
EVENT_KEYS = {"channel_type": "channel", "event_ts": "1767603600.000100"}
IN_HISTORY = {key: value for key, value in MESSAGE.items() if key != "channel"}


@pytest.mark.parametrize("subtype", [None, "thread_broadcast", "me_message", "bot_message"])
def test_a_message_has_the_keys_of_the_channels_history(subtype: str | None) -> None:
    fields = {"subtype": subtype} if subtype else {}
    assert action_for({**MESSAGE, **EVENT_KEYS, **fields}, []) == Store(
        "C1", {**IN_HISTORY, **fields}, False
    )


@pytest.mark.parametrize(
    ("fields", "private"),
    [
        ({"channel_type": "channel"}, False),
        ({"channel_type": "group"}, True),
        ({}, False),
        ({"channel_type": "channel", "subtype": "channel_convert_to_private"}, True),
        ({"channel_type": "channel", "subtype": "channel_convert_to_public"}, False),
        ({"channel_type": "channel", "subtype": "channel_name"}, False),
    ],
)
def test_a_message_shows_that_its_channel_is_private(fields: dict[str, Any], private: bool) -> None:
    action = action_for({**MESSAGE, **fields}, [])
    assert isinstance(action, Store)
    assert action.private is private


@pytest.mark.parametrize(
    ("event", "deleted_ts"),
    [
        ({"subtype": "message_deleted", "deleted_ts": "1.1"}, "1.1"),
        ({"subtype": "message_changed", "message": {"subtype": "tombstone", "ts": "1.2"}}, "1.2"),
        ({"subtype": "message_changed", "message": {"ts": "1.3"}}, ""),
        ({"subtype": "tombstone"}, MESSAGE["ts"]),
        ({}, ""),
    ],
)
def test_the_ts_of_a_deleted_message(event: dict[str, Any], deleted_ts: str) -> None:
    action = action_for({**MESSAGE, **event}, [])
    assert isinstance(action, Store)
    assert action.deleted_ts == deleted_ts


def test_an_edit_keeps_the_time_of_its_event() -> None:
    event = {"subtype": "message_changed", "message": {"ts": "1.1"}, "event_ts": "2.2"}
    action = action_for({**MESSAGE, **event}, [])
    assert isinstance(action, Store)
    assert action.raw["event_ts"] == "2.2"


CHANNEL = {"id": "C1", "name": "launch"}


@pytest.mark.parametrize(
    ("event", "action"),
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
        ({"type": "channel_rename", "channel": CHANNEL}, Describe("C1", {"name": "launch"})),
        ({"type": "group_rename", "channel": CHANNEL}, Describe("C1", {"name": "launch"})),
        ({"type": "channel_archive", "channel": "C1"}, Describe("C1", {"is_archived": True})),
        ({"type": "group_archive", "channel": "C1"}, Describe("C1", {"is_archived": True})),
        ({"type": "channel_unarchive", "channel": "C1"}, Describe("C1", {"is_archived": False})),
        ({"type": "group_unarchive", "channel": "C1"}, Describe("C1", {"is_archived": False})),
        ({"type": "channel_created", "channel": CHANNEL}, Create("C1", CHANNEL, "private")),
        (
            {"type": "channel_created", "channel": {**CHANNEL, "is_private": False}},
            Create("C1", {**CHANNEL, "is_private": False}, "public"),
        ),
        ({"type": "channel_shared", "channel": "C1"}, Narrow("C1", Narrowing.SHARED)),
        ({"type": "channel_deleted", "channel": "C1"}, Narrow("C1", Narrowing.DELETED)),
        ({"type": "group_deleted", "channel": "C1"}, Narrow("C1", Narrowing.DELETED)),
        ({"type": "channel_convert_to_private", "channel": "C1"}, Narrow("C1", Narrowing.PRIVATE)),
        ({"type": "team_join", "user": {"id": "U1"}}, UpdatePerson({"id": "U1"})),
        ({"type": "user_change", "user": {"id": "U1"}}, UpdatePerson({"id": "U1"})),
    ],
)
def test_channels_and_people(event: dict[str, Any], action: Action) -> None:
    assert action_for(event, BOTS) == action


def test_a_revoked_token_stops_the_connection() -> None:
    stop = action_for({"type": "app_uninstalled"}, [])
    assert isinstance(stop, Stop) and stop.state == "uninstalled"
    stop = action_for({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": ["U0BOT"]}}, [])
    assert isinstance(stop, Stop) and stop.state == "revoked"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "tokens_revoked", "tokens": {"oauth": ["U1"]}}, "tokens of people"),
        ({"type": "tokens_revoked"}, "tokens of people"),
        ({**MESSAGE, "channel": "D1"}, "direct messages"),
        ({**MESSAGE, "channel_type": "im"}, "direct messages"),
        ({**MESSAGE, "channel_type": "mpim"}, "direct messages"),
        ({**MESSAGE, "channel_type": "app_home"}, "direct messages"),
        ({**MESSAGE, "channel": None}, "no channel"),
        ({**MESSAGE, "subtype": "message_replied"}, "reply notice"),
        ({"type": "channel_rename", "channel": {"id": "D1", "name": "x"}}, "direct messages"),
        ({"type": "channel_rename", "channel": {**CHANNEL, "is_mpim": True}}, "direct messages"),
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
def test_skipped_events(event: dict[str, Any], reason: str) -> None:
    assert action_for(event, BOTS) == Skip(reason)


@pytest.mark.parametrize("name", SUBSCRIBED)
def test_every_subscribed_event_has_an_action(name: str) -> None:
    event = {"type": name.partition(".")[0], "channel": CHANNEL, "user": "U1"}
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
@given(kind=st.sampled_from(TYPES), channel=ANYTHING, user=ANYTHING, fields=ANYTHING)
def test_any_event_has_an_action(kind: str, channel: Any, user: Any, fields: Any) -> None:
    """It is the same after the body was stored."""
    event = {"type": kind, "channel": channel, "user": user, "message": fields, "tokens": fields}
    envelope = parse_payload(payload(event))
    assert isinstance(envelope, EventEnvelope)
    assert action_for(*read_body(envelope.body)[:2]) == action_for(
        json.loads(json.dumps(event)), []
    )


@given(raw=ANYTHING)
def test_any_envelope(raw: Any) -> None:
    parse_payload(raw)
