"""What people do with the app in the fake Slack, and what the app shows them.

Methods return the payloads that Slack would send. An answer to a response URL is recorded by the person
who sees it. One for the whole channel becomes a message of the bot.
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.slack.fake_api import FakeApi, SlackRefusal
from tests.slack.fake_channel import Json
from tests.slack.fake_events import signed_event
from tests.slack.fake_workspace import BOT_ID, BOT_USER

APP_SCOPES = {
    *("commands", "chat:write", "reactions:read", "links:read", "links:write", "mcp:connect"),
}
MAX_USES = 5  # of a response URL
LASTS = 30 * 60  # seconds


@dataclass
class ResponseUrl:
    user: str
    channel: str
    until: float
    original: "Shown | None" = None  # the answer whose button was pressed
    uses: int = 0


@dataclass
class Shown:
    """An answer that one person sees in a channel."""

    user: str
    channel: str
    body: Json

    @property
    def text(self) -> str:
        """All words of the answer, with its links."""
        return "\n".join([str(self.body.get("text", "")), *_texts(self.body.get("blocks", []))])

    def buttons(self) -> dict[str, str]:
        """Return the values of the buttons by their action."""
        return {
            element["action_id"]: element["value"]
            for block in self.body.get("blocks", [])
            for element in block.get("elements", [])
            if element.get("type") == "button"
        }


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        own = [value["text"]] if isinstance(value.get("text"), str) else []
        return own + [
            text for key, item in value.items() if key != "text" or not own for text in _texts(item)
        ]
    return []


@dataclass
class AppScreen:
    """The answers that the app has shown so far."""

    shown: list[Shown] = field(default_factory=list)
    homes: dict[str, Json] = field(default_factory=dict)  # by user
    unfurls: list[Json] = field(default_factory=list)


class FakeApp(FakeApi):
    """The surfaces of the app: commands, shortcuts, buttons, Home tab, reactions and links."""

    SCOPES = FakeApi.SCOPES | {
        "chat.postEphemeral": "chat:write",
        "chat.postMessage": "chat:write",
        "chat.unfurl": "links:write",
    }
    url: str

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.screen = AppScreen()
        self.takes_messages = True  # the messages tab of the app
        self._response_urls: dict[str, ResponseUrl] = {}
        self.sent: dict[str, str] = {}  # ts by client_msg_id
        self._numbers = itertools.count(1)

    def methods(self) -> dict[str, Callable[[dict[str, str]], Json]]:
        return super().methods() | {
            "views.publish": self._views_publish,
            "chat.postEphemeral": self._post_ephemeral,
            "chat.postMessage": self._post_message,
            "chat.unfurl": self._unfurl,
        }

    # What people do

    def command(self, user: str, channel: str, text: str, name: str = "/memory") -> Json:
        return {
            "token": "out of use",
            "team_id": self.team_id,
            "team_domain": self.domain,
            "channel_id": channel,
            "channel_name": self.channels[channel].name if channel in self.channels else "dm",
            "user_id": user,
            "user_name": user.lower(),
            "command": name,
            "text": text,
            "api_app_id": self.app_id,
            "response_url": self._response_url(user, channel),
            "trigger_id": self._trigger_id(),
        }

    def shortcut(self, user: str, channel: str, ts: str, callback: str) -> Json:
        message = self.channels[channel].messages.get(ts, {"ts": ts})
        return self._interaction("message_action", user, channel) | {
            "callback_id": callback,
            "message_ts": ts,
            "message": message,
        }

    def press(
        self, user: str, channel: str, action: str, value: str, typed: dict[str, str] | None = None
    ) -> Json:
        """Return the press of a button, with the values of the inputs beside it."""
        inputs = {
            name: {"type": "plain_text_input", "value": text}
            for name, text in (typed or {}).items()
        }
        state = {"values": {f"block-{name}": {name: value} for name, value in inputs.items()}}
        pressed = {"type": "button", "action_id": action, "block_id": "b", "value": value}
        forms = [shown for shown in self.shown_to(user) if shown.buttons().get(action) == value]
        original = forms[-1] if forms else None
        return self._interaction("block_actions", user, channel, original) | {
            "actions": [pressed | {"action_ts": self.now_ts()}],
            "state": state,
        }

    def open_home(self, user: str) -> Json:
        return self.event_body(
            {"type": "app_home_opened", "user": user, "tab": "home", "channel": "D1"}
        )

    def react(self, user: str, channel: str, ts: str, reaction: str = "memo") -> Json:
        item = {"type": "message", "channel": channel, "ts": ts}
        return self.event_body(
            {"type": "reaction_added", "user": user, "reaction": reaction, "item": item}
        )

    def post_link(self, user: str, channel: str, *urls: str) -> Json:
        ts = self.say(channel, user, " ".join(f"<{url}>" for url in urls), self.now_ts())
        links = [{"domain": "localhost", "url": url} for url in urls]
        event = {"type": "link_shared", "user": user, "channel": channel, "message_ts": ts}
        return self.event_body({**event, "links": links})

    def call_tool(self, user: str, tool: str, **arguments: Any) -> Json:
        """Return the MCP message that Slackbot sends for a person."""
        person = {"user_id": user, "team_id": self.team_id}
        params = {"name": tool, "arguments": arguments, "_meta": {"slack": person}}
        return {
            "jsonrpc": "2.0",
            "id": next(self._numbers),
            "method": "tools/call",
            "params": params,
        }

    def _interaction(
        self, kind: str, user: str, channel: str, original: Shown | None = None
    ) -> Json:
        return {
            "type": kind,
            "token": "out of use",
            "team": {"id": self.team_id, "domain": self.domain},
            "user": {"id": user, "team_id": self.team_id},
            "channel": {"id": channel, "name": self.channels[channel].name},
            "trigger_id": self._trigger_id(),
            "response_url": self._response_url(user, channel, original),
        }

    def _trigger_id(self) -> str:
        return f"{next(self._numbers)}.{int(self.clock())}.abc"

    def _response_url(self, user: str, channel: str, original: Shown | None = None) -> str:
        key = f"r{next(self._numbers)}"
        self._response_urls[key] = ResponseUrl(user, channel, self.clock() + LASTS, original)
        return f"{self.url.removesuffix('/api/')}/response/{key}"

    # What the app shows

    def accept_response(self, key: str, body: Json) -> int:
        """Show an answer; return the status. An old or used up URL is refused."""
        with self._lock:
            url = self._response_urls.get(key)
            if url is None or url.uses >= MAX_USES or self.clock() > url.until:
                return 404
            url.uses += 1
            if body.get("response_type") == "in_channel":
                self._post(url.channel, body)
            else:
                if body.get("replace_original") and url.original in self.screen.shown:
                    self.screen.shown.remove(url.original)
                self.screen.shown.append(Shown(url.user, url.channel, body))
            return 200

    def shown_to(self, user: str) -> list[Shown]:
        with self._lock:
            return [shown for shown in self.screen.shown if shown.user == user]

    def posts(self, channel: str) -> list[Json]:
        """Return the app's own messages in a channel."""
        with self._lock:
            messages = self.channels[channel].in_channel()
            return [message for message in messages if message.get("bot_id") == BOT_ID]

    def _post(self, channel: str, body: Json) -> str:
        fields = {key: body[key] for key in ("blocks",) if key in body}
        return self.say(
            channel, BOT_USER, str(body.get("text", "")), self.now_ts(), bot_id=BOT_ID, **fields
        )

    def _views_publish(self, params: dict[str, str]) -> Json:
        if params.get("user_id") not in self.users:
            raise SlackRefusal("user_not_found")
        self.screen.homes[params["user_id"]] = json.loads(params["view"])
        return {"view": {"id": "V1"}}

    def _post_ephemeral(self, params: dict[str, str]) -> Json:
        channel = self.channels.get(params.get("channel", ""))
        if channel is None or not channel.bot_is_in:
            raise SlackRefusal("channel_not_found")
        if params.get("user") not in channel.members:
            raise SlackRefusal("user_not_in_channel")
        body = {"text": params.get("text", ""), "blocks": json.loads(params.get("blocks", "[]"))}
        self.screen.shown.append(Shown(params["user"], channel.slack_id, body))
        return {"message_ts": self.now_ts()}

    def _post_message(self, params: dict[str, str]) -> Json:
        """Post in a channel, or to the person with this id. One message has a client_msg_id."""
        place, key = params.get("channel", ""), params.get("client_msg_id", "")
        if key and key in self.sent:
            return {"channel": place, "ts": self.sent[key]}
        body = {"text": params.get("text", ""), "blocks": json.loads(params.get("blocks", "[]"))}
        if place in self.users:
            if not self.takes_messages:
                raise SlackRefusal("messages_tab_disabled")
            self.screen.shown.append(Shown(place, "dm", body))
            ts = self.now_ts()
        else:
            channel = self.channels.get(place)
            if channel is None:
                raise SlackRefusal("channel_not_found")
            if channel.is_archived or not channel.bot_is_in:
                raise SlackRefusal("is_archived" if channel.is_archived else "not_in_channel")
            ts = self._post(place, body)
        self.sent[key] = ts
        return {"channel": place, "ts": ts}

    def _unfurl(self, params: dict[str, str]) -> Json:
        if params.get("ts") not in self.channels[params["channel"]].messages:
            raise SlackRefusal("cannot_unfurl_message")
        self.screen.unfurls.append({**params, "unfurls": json.loads(params["unfurls"])})
        return {}


def signed_form(fields: Json, **options: Any) -> tuple[bytes, dict[str, str]]:
    """Return the signed body of a command, or of a payload for interactivity."""
    form = fields if "command" in fields else {"payload": json.dumps(fields)}
    raw, headers = signed_event(urlencode(form).encode(), **options)
    return raw, headers | {"Content-Type": "application/x-www-form-urlencoded"}
