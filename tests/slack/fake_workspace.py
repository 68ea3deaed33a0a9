"""What a Slack workspace holds, what people do in it, and what it answers an app that asks.

The answers are Slack's: cursors, limits, newest first in a channel, the root on top of every page
of a thread, and nothing of what the bot may not see.
"""

import base64
import binascii
import threading
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from memories.rules.slacktime import micros

TOKEN = "xoxb-fake-token"
TEAM_ID = "T0FAKE"

Json = dict[str, Any]


@dataclass
class FakeChannel:
    slack_id: str
    name: str
    is_private: bool = False
    is_archived: bool = False
    bot_is_in: bool = True
    members: list[str] = field(default_factory=list)
    messages: dict[str, Json] = field(default_factory=dict)  # by ts; roots and replies
    threads: dict[str, set[str]] = field(default_factory=dict)  # ts of replies by that of the root

    def as_json(self) -> Json:
        return {
            "id": self.slack_id,
            "name": self.name,
            "is_channel": not self.is_private,
            "is_private": self.is_private,
            "is_archived": self.is_archived,
            "is_member": self.bot_is_in,
            "topic": {"value": ""},
            "purpose": {"value": ""},
        }

    def replies_of(self, thread_ts: str) -> list[Json]:
        return sorted((self.messages[ts] for ts in self.threads.get(thread_ts, ())), key=_us)

    def told(self, message: Json) -> Json:
        """A message with what Slack adds to roots when it is asked."""
        told = deepcopy(message)
        if not is_reply(message) and (replies := self.replies_of(message["ts"])):
            told |= {
                "thread_ts": message["ts"],
                "reply_count": len(replies),
                "reply_users": sorted({reply["user"] for reply in replies}),
                "latest_reply": replies[-1]["ts"],
            }
        return told


class SlackRefusal(Exception):
    def __init__(self, code: str, **more: str) -> None:
        super().__init__(code)
        self.answer = {"ok": False, "error": code, **more}


class FakeWorkspace:
    """``page_size``: give no more than so many at once, whatever is asked (Slack may, too)."""

    SCOPES = {
        "users.list": "users:read",
        "conversations.list": "channels:read",
        "conversations.members": "channels:read",
        "conversations.history": "channels:history",
        "conversations.replies": "channels:history",
    }

    def __init__(self, page_size: int = 1000) -> None:
        self.page_size = page_size
        self.name = "Fake Team"
        self.domain = "faketeam"
        self.team_id = TEAM_ID
        self.token_error = ""  # e.g. token_revoked
        self.is_limited = False  # the plan hides what is old
        self.scopes = set(self.SCOPES.values())
        self.users: dict[str, Json] = {}
        self.channels: dict[str, FakeChannel] = {}
        self._lock = threading.RLock()

    # What people do

    def add_user(self, slack_id: str, name: str, **more: Any) -> str:
        profile = {"display_name": name, "real_name": f"{name.title()} Example"}
        with self._lock:
            self.users[slack_id] = {
                "id": slack_id,
                "team_id": self.team_id,
                "name": name,
                "profile": profile,
                **more,
            }
        return slack_id

    def add_channel(self, slack_id: str, name: str, **more: Any) -> FakeChannel:
        with self._lock:
            self.channels[slack_id] = FakeChannel(slack_id, name, **more)
            return self.channels[slack_id]

    def say(
        self, channel_id: str, user: str, text: str, ts: str, thread: str = "", **more: Any
    ) -> str:
        """A message, or a reply when ``thread`` names its root."""
        message = {"type": "message", "user": user, "text": text, "ts": ts, **more}
        with self._lock:
            channel = self.channels[channel_id]
            if thread:
                message["thread_ts"] = thread
                channel.threads.setdefault(thread, set()).add(ts)
            channel.messages[ts] = message
        return ts

    def edit(self, channel_id: str, ts: str, text: str, at: str) -> None:
        with self._lock:
            message = self.channels[channel_id].messages[ts]
            message["text"] = text
            message["edited"] = {"user": message["user"], "ts": at}

    def delete(self, channel_id: str, ts: str) -> None:
        """A root with replies leaves a tombstone, everything else leaves nothing."""
        with self._lock:
            channel = self.channels[channel_id]
            message = channel.messages.pop(ts)
            if is_reply(message):
                channel.threads[message["thread_ts"]].remove(ts)
            elif channel.replies_of(ts):
                channel.messages[ts] = {
                    "type": "message",
                    "subtype": "tombstone",
                    "user": "USLACKBOT",
                    "text": "This message was deleted.",
                    "hidden": True,
                    "ts": ts,
                }

    # What it answers

    def answer(self, method: str, params: dict[str, str], authorization: str) -> Json:
        methods: dict[str, Callable[[dict[str, str]], Json]] = {
            "auth.test": self._auth_test,
            "users.list": self._users_list,
            "conversations.list": self._conversations_list,
            "conversations.members": self._conversations_members,
            "conversations.history": self._conversations_history,
            "conversations.replies": self._conversations_replies,
        }
        try:
            if authorization != f"Bearer {TOKEN}":
                raise SlackRefusal("invalid_auth" if authorization else "not_authed")
            if self.token_error:
                raise SlackRefusal(self.token_error)
            if method not in methods:
                raise SlackRefusal("unknown_method", req_method=method)
            scope = self.SCOPES.get(method)
            if scope and scope not in self.scopes:
                provided = ",".join(sorted(self.scopes))
                raise SlackRefusal("missing_scope", needed=scope, provided=provided)
            return {"ok": True} | methods[method](params)
        except SlackRefusal as refusal:
            return refusal.answer

    def _auth_test(self, params: dict[str, str]) -> Json:
        return {
            "url": f"https://{self.domain}.slack.com/",
            "team": self.name,
            "team_id": self.team_id,
            "user": "memory",
            "user_id": "U0BOT",
            "bot_id": "B0BOT",
        }

    def _users_list(self, params: dict[str, str]) -> Json:
        return self._page("members", list(self.users.values()), params, default=1000)

    def _conversations_list(self, params: dict[str, str]) -> Json:
        types = params.get("types", "public_channel").split(",")
        listed = [
            channel.as_json()
            for channel in self.channels.values()
            if ("private_channel" in types and channel.bot_is_in)
            or ("public_channel" in types and not channel.is_private)
        ]
        return self._page("channels", listed, params, default=100)

    def _conversations_members(self, params: dict[str, str]) -> Json:
        return self._page("members", list(self._readable(params).members), params, default=100)

    def _conversations_history(self, params: dict[str, str]) -> Json:
        channel = self._readable(params)
        if not channel.bot_is_in:
            raise SlackRefusal("not_in_channel")
        standing = [
            message
            for message in channel.messages.values()
            if not is_reply(message) or message.get("subtype") == "thread_broadcast"
        ]
        standing = _between(standing, params)
        standing.sort(key=_us, reverse=True)
        # The cursor is a place in time, so that what is said meanwhile moves nothing.
        if cursor := params.get("cursor"):
            until = int(_opened(cursor, "next_ts:"))
            standing = [message for message in standing if _us(message) <= until]
        size = self._limit(params, 100)
        answer: Json = {
            "messages": [channel.told(message) for message in standing[:size]],
            "has_more": len(standing) > size,
            "pin_count": 0,
            "is_limited": self.is_limited,
        }
        if len(standing) > size:
            answer["response_metadata"] = {"next_cursor": _closed(f"next_ts:{_us(standing[size])}")}
        return answer

    def _conversations_replies(self, params: dict[str, str]) -> Json:
        channel = self._readable(params)
        thread_ts = params.get("ts", "")
        root = channel.messages.get(thread_ts)
        if root is None:
            raise SlackRefusal("thread_not_found")
        replies = _between(channel.replies_of(thread_ts), params)
        answer = self._page("messages", replies, params, default=1000)
        answer["messages"] = [channel.told(m) for m in (root, *answer["messages"])]
        answer["has_more"] = bool(answer["response_metadata"]["next_cursor"])
        return answer

    def _readable(self, params: dict[str, str]) -> FakeChannel:
        channel = self.channels.get(params.get("channel", ""))
        if channel is None or (channel.is_private and not channel.bot_is_in):
            raise SlackRefusal("channel_not_found")
        return channel

    def _page(self, key: str, found: list[Any], params: dict[str, str], default: int) -> Json:
        begin = int(_opened(params["cursor"], "offset:")) if params.get("cursor") else 0
        end = begin + self._limit(params, default)
        cursor = _closed(f"offset:{end}") if end < len(found) else ""
        return {key: found[begin:end], "response_metadata": {"next_cursor": cursor}}

    def _limit(self, params: dict[str, str], default: int) -> int:
        asked = int(params.get("limit") or default)
        if not 1 <= asked <= 1000:
            raise SlackRefusal("invalid_limit")
        return min(asked, self.page_size)


def is_reply(message: Json) -> bool:
    return message.get("thread_ts", message["ts"]) != message["ts"]


def _us(message: Json) -> int:
    return micros(message["ts"])


def _between(messages: list[Json], params: dict[str, str]) -> list[Json]:
    """Bounds are exclusive unless asked for as inclusive."""
    within = 1 if params.get("inclusive") in ("1", "true") else 0
    oldest = _bound(params.get("oldest", "0")) - within
    latest = _bound(params["latest"]) + within if params.get("latest") else None
    return [m for m in messages if oldest < _us(m) and (latest is None or _us(m) < latest)]


def _bound(ts: str) -> int:
    return micros(ts if "." in ts else f"{ts}.0")


def _closed(place: str) -> str:
    return base64.b64encode(place.encode()).decode()


def _opened(cursor: str, kind: str) -> str:
    try:
        place = base64.b64decode(cursor, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        place = ""
    if not place.startswith(kind):
        raise SlackRefusal("invalid_cursor")
    return place.removeprefix(kind)
