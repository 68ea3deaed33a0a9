"""Payloads of Slack as requests, for any input."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.slack_app.payloads import (
    load_request,
    parse_command,
    parse_event,
    parse_request,
)

COMMAND = {
    "command": "/memory",
    "team_id": "T0FAKE",
    "user_id": "U0ANN",
    "channel_id": "C0OPEN",
    "text": "help",
    "trigger_id": "1.2.3",
    "response_url": "https://hooks.slack.com/commands/1",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("help", "")),
        ("help", ("help", "")),
        ("catch up", ("catch up", "")),
        ("Catch  up 7d", ("catch up", "7d")),
        ("catchup 24h", ("catch up", "24h")),
        ("ask  When do we launch? ", ("ask", "When do we launch?")),
        ("ask", ("help", "")),
        ("note a\nb", ("note", "a\nb")),
        ("sing", ("", "sing")),
    ],
)
def test_commands(text: str, expected: tuple[str, str]) -> None:
    assert parse_command(text) == expected


def test_a_request_is_the_same_after_it_was_stored() -> None:
    request = parse_request(COMMAND)
    assert request is not None
    assert load_request(request.body) == request
    assert (request.user, request.channel, request.setting) == ("U0ANN", "C0OPEN", "slack_commands")


@pytest.mark.parametrize("missing", ["team_id", "user_id", "trigger_id"])
def test_a_request_needs_a_team_a_person_and_a_trigger(missing: str) -> None:
    assert parse_request(COMMAND | {missing: ""}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = (
    "type",
    "team",
    "user",
    "channel",
    "actions",
    "state",
    "trigger_id",
    "message",
    "links",
    "item",
)


@given(
    st.dictionaries(st.sampled_from(KEYS), JSON),
    st.sampled_from(["message_action", "block_actions"]),
)
def test_no_payload_raises(payload: dict[str, Any], kind: str) -> None:
    parse_request(payload)
    parse_request(payload | {"type": kind})
    parse_event(payload | {"type": "reaction_added", "reaction": "memo"}, "Ev1", "T1")
    parse_event(payload | {"type": "link_shared"}, "Ev1", "T1")
