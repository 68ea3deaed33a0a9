"""Slackbot over MCP: it reads what the person may read, and a forged request gets nothing."""

import json
from typing import Any

import pytest
from django.utils import timezone

from tests.slack.fake_events import signed_event
from tests.slack_app.conftest import Team

pytestmark = pytest.mark.django_db


@pytest.fixture
def team(team: Team) -> Team:
    team.cast.workspace.change_settings({"slack_mcp": True})
    return team


def message(team: Team, user: str | None, method: str, **params: Any) -> dict[str, Any]:
    if user is not None:
        params["_meta"] = {"slack": {"user_id": user, "team_id": team.slack.team_id}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def send(team: Team, body: dict[str, Any], **options: Any) -> Any:
    raw, headers = signed_event(body, **options)
    kind = headers.pop("Content-Type")
    headers |= {"Accept": "application/json, text/event-stream", "Host": "localhost"}
    return team.client.post("/mcp", data=raw, content_type=kind, headers=headers)


def ask(team: Team, name: str, tool: str, **arguments: Any) -> str:
    body = message(team, team.id_of(name), "tools/call", name=tool, arguments=arguments)
    result = send(team, body).json()["result"]
    return "".join(part["text"] for part in result["content"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "public", "private"),
    [("tom", True, True), ("mika", True, False), ("ann", True, False), ("visitor", True, False)],
)
def test_slackbot_reads_what_the_person_may_read(
    team: Team, name: str, public: bool, private: bool
) -> None:
    assert ("We launch on Monday" in ask(team, name, "get_context")) is public
    assert ("om earns a lot" in ask(team, name, "get_context", channel="launch")) is private
    assert ("om earns a lot" in ask(team, name, "search", query="earns")) is private


def test_slackbot_gets_no_tool_that_writes(team: Team) -> None:
    body = message(team, team.id_of("tom"), "tools/list")
    tools = [tool["name"] for tool in send(team, body).json()["result"]["tools"]]
    assert tools == ["get_context", "search", "fetch", "whats_new"]
    assert "Unknown tool" in ask(team, "tom", "add_note", text="x")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("stranger", "not in the list of people yet"),
        ("nobody", "not connected to this hub"),
        ("another team", "not connected to this hub"),
        ("switched off", "switched off here"),
    ],
)
def test_a_refusal_says_why(team: Team, how: str, words: str) -> None:
    user = {"stranger": "U0STRANGER", "nobody": None}.get(how, team.id_of("tom"))
    body = message(team, user, "tools/call", name="get_context", arguments={})
    if how == "another team":
        body["params"]["_meta"]["slack"]["team_id"] = "T0OTHER"
    elif how == "switched off":
        team.cast.workspace.change_settings({"slack_mcp": False})
    result = send(team, body).json()["result"]
    assert result["isError"] and words in result["content"][0]["text"]
    assert "We launch" not in json.dumps(result)


@pytest.mark.parametrize(
    "options", [{"secret": "another"}, {"at": timezone.now().timestamp() - 301}, {"at": 10**14}]
)
def test_a_forged_or_old_signature_is_refused(team: Team, options: dict[str, Any]) -> None:
    body = message(team, team.id_of("tom"), "tools/call", name="get_context", arguments={})
    response = send(team, body, **options)
    assert response.status_code == 401
    assert "no signature of Slack" in response.json()["detail"]
