"""Requests of people in Slack as values: commands, shortcuts, buttons, and events for the app.

No function here raises, whatever the input is.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.references import load_object
from memories.rules.ingest.slack_objects import parse_slack_id
from memories.rules.json_values import as_dict, as_dicts, as_text

COMMAND, SHORTCUT, BUTTON = "slash_command", "message_action", "block_actions"
HOME, REACTION, LINKS = "app_home_opened", "reaction_added", "link_shared"
MCP = "mcp"  # a request over MCP
RESPONDED = (COMMAND, SHORTCUT, BUTTON)  # kinds that are answered at a response URL
KINDS = (*RESPONDED, HOME, REACTION, LINKS)
# Kind of a request → the setting that switches it on. The name of a button begins with its setting.
SETTINGS = {
    COMMAND: "slack_commands",
    SHORTCUT: "slack_shortcuts",
    HOME: "slack_home",
    REACTION: "slack_reaction",
    LINKS: "slack_unfurls",
    MCP: "slack_mcp",
}
MEMO = "memo"  # the reaction that makes a note
RESPONSE_LASTS = timedelta(minutes=30)  # then Slack accepts no answer
MAX_TEXT = 3_000  # characters
MAX_LINKS = 5
COMPOSER = "COMPOSER"  # the channel of a link in a message that is not posted yet


@dataclass(frozen=True)
class AppRequest:
    """A request of one person. ``key`` is the same when Slack sends the request again.

    ``name`` is the name of a shortcut or button. ``text`` are the words behind a command, or the value
    of a button. ``ts`` is the message of a shortcut or reaction. ``typed`` are the values of inputs.
    ``attempt`` counts the tasks that tried to answer it, from 1.
    """

    key: str
    kind: str
    team: str
    user: str
    channel: str = ""
    name: str = ""
    text: str = ""
    ts: str = ""
    response_url: str = ""
    typed: dict[str, str] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    attempt: int = 1

    @property
    def setting(self) -> str:
        return SETTINGS.get(self.kind) or self.name.partition("-")[0]

    @property
    def only_reads(self) -> bool:
        """Whether it is a command that saves nothing, so that it is of no use without an answer."""
        return self.kind == COMMAND and parse_command(self.text)[0] not in ("note", "digest")

    @property
    def body(self) -> str:
        """The JSON that is stored until the request is answered."""
        return json.dumps(asdict(self))


def load_request(body: str) -> AppRequest:
    """Return the request of a stored body."""
    return AppRequest(**load_object(body))


def parse_request(raw: object) -> AppRequest | None:
    """Parse the fields of a command, or the payload of a shortcut or button; None for others."""
    if not isinstance(raw, Mapping):
        return None
    if "command" in raw:
        return _checked(
            kind=COMMAND,
            key=as_text(raw.get("trigger_id")),
            team=raw.get("team_id"),
            user=raw.get("user_id"),
            channel=raw.get("channel_id"),
            text=raw.get("text"),
            response_url=raw.get("response_url"),
        )
    kind = as_text(raw.get("type"))
    shared: dict[str, Any] = {
        "kind": kind,
        "key": as_text(raw.get("trigger_id")),
        "team": as_dict(raw.get("team")).get("id"),
        "user": as_dict(raw.get("user")).get("id"),
        "channel": as_dict(raw.get("channel")).get("id"),
        "response_url": raw.get("response_url"),
    }
    if kind == SHORTCUT:
        ts = raw.get("message_ts") or as_dict(raw.get("message")).get("ts")
        return _checked(**shared, name=raw.get("callback_id"), ts=ts)
    if kind == BUTTON:
        action = next(as_dicts(raw.get("actions")), {})
        values = as_dict(as_dict(raw.get("state")).get("values"))
        typed = {
            as_text(name)[:100]: _typed(as_dict(value))
            for block in values.values()
            for name, value in as_dict(block).items()
        }
        return _checked(
            **shared, name=action.get("action_id"), text=action.get("value"), typed=typed
        )
    return None


def parse_event(event: dict[str, Any], event_id: str, team: str) -> AppRequest | None:
    """Return the request that an event stands for, None for any other event."""
    kind, user = as_text(event.get("type")), event.get("user")
    if kind == HOME and event.get("tab") == "home":
        return _checked(kind=kind, key=event_id, team=team, user=user)
    if kind == REACTION and event.get("reaction") == MEMO:
        item = as_dict(event.get("item"))
        channel, ts = item.get("channel"), item.get("ts")
        return _checked(kind=kind, key=event_id, team=team, user=user, channel=channel, ts=ts)
    # Slack sends the event again, with the channel, when the message is posted.
    if kind == LINKS and event.get("channel") != COMPOSER:
        links = [as_text(link.get("url"))[:MAX_TEXT] for link in as_dicts(event.get("links"))]
        ts, channel = event.get("message_ts"), event.get("channel")
        parsed = _checked(kind=kind, key=event_id, team=team, user=user, channel=channel, ts=ts)
        return parsed and AppRequest(**{**asdict(parsed), "links": links[:MAX_LINKS]})
    return None


def _checked(**values: Any) -> AppRequest | None:
    """Return a request of these values; None without a team, a user or a key."""
    ids: dict[str, Any] = {
        name: parse_slack_id(values.get(name)) for name in ("team", "user", "channel")
    }
    if not (ids["team"] and ids["user"] and values["key"]):
        return None
    key_hash = hashlib.sha256(f"{values['kind']} {values['key']}".encode()).hexdigest()
    typed = dict(list(values.pop("typed", {}).items())[:10])
    texts: dict[str, Any] = {
        name: make_storable(as_text(values.get(name)), MAX_TEXT)
        for name in ("name", "text", "ts", "response_url")
    }
    return AppRequest(kind=values["kind"], key=f"app.{key_hash[:56]}", typed=typed, **ids, **texts)


def _typed(value: dict[str, Any]) -> str:
    """Return the text of an input, or the value of a chosen option."""
    chosen = as_dict(value.get("selected_option")).get("value")
    return make_storable(as_text(value.get("value")) or as_text(chosen), MAX_TEXT).strip()


def parse_command(text: str) -> tuple[str, str]:
    """Return the verb of ``/memory`` and what follows it: catch up, ask, note, digest, help, or "".

    ``ask`` without a question and ``note`` without a text are help.
    """
    words = text.split(maxsplit=1)
    verb, argument = (
        (words[0].casefold(), words[1].strip() if len(words) > 1 else "") if words else ("", "")
    )
    if verb in ("catch", "catchup", "catch-up"):
        begin, _, after = argument.partition(" ")
        return "catch up", after.strip() if begin.casefold() == "up" else argument
    if verb in ("ask", "note"):
        return (verb, argument) if argument else ("help", "")
    if verb == "digest":
        return verb, argument
    return ("help", "") if verb in ("", "help") else ("", text)
