"""The methods of Slack's Web API over a fake workspace.

It answers as Slack does: scopes by kind of conversation, cursors, limits, the newest message first
in a channel, the root first on every page of a thread, and nothing that the bot may not see.
auth.test returns the bot of a token; bots.info returns its app.
"""

import base64
import binascii
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from memories.rules.ingest.timestamps import micros
from tests.slack.fake_channel import SCOPE_WORDS, FakeChannel, Json, us_of
from tests.slack.fake_limits import SLOW_METHODS, SLOW_PAGE
from tests.slack.fake_workspace import APP_TOKEN, BOT_ID, BOT_USER, TOKEN, FakeWorkspace

LARGEST_PAGE = 999


class SlackRefusal(Exception):
    def __init__(self, code: str, **fields: str) -> None:
        super().__init__(code)
        self.answer = {"ok": False, "error": code, **fields}


class FakeApi(FakeWorkspace):
    """``page_size``: the most objects of a page, whatever limit a call has (as in Slack)."""

    # Methods of conversations need the scope of the conversation's kind instead.
    SCOPES = {
        "users.list": "users:read",
        "bots.info": "users:read",
        "team.info": "team:read",
        "conversations.list": "channels:read",
        "conversations.members": "channels:read",
        "conversations.info": "channels:read",
        "conversations.history": "channels:history",
        "conversations.replies": "channels:history",
    }
    PRIVATE_SCOPES = ("groups:read", "groups:history", "users:read.email")

    def __init__(self, page_size: int = 1000, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.page_size = page_size
        self.slow_plan = False  # 15 messages a page of history and replies
        self.is_limited = False  # the plan hides old messages
        self.hidden_before = ""  # a ts; older messages are hidden
        self.scopes = {*self.SCOPES.values(), *self.PRIVATE_SCOPES}
        self.tokens = {TOKEN}
        self.app_tokens = {APP_TOKEN}
        self.socket_url = ""  # the address from apps.connections.open

    def methods(self) -> dict[str, Callable[[dict[str, str]], Json]]:
        return {
            "auth.test": self._auth_test,
            "bots.info": self._bots_info,
            "team.info": self._team_info,
            "users.list": self._users_list,
            "conversations.list": self._conversations_list,
            "conversations.info": self._conversations_info,
            "conversations.members": self._conversations_members,
            "conversations.history": self._conversations_history,
            "conversations.replies": self._conversations_replies,
        }

    def answer(self, method: str, params: dict[str, str], authorization: str) -> Json:
        methods = self.methods()
        try:
            token = authorization.removeprefix("Bearer ").strip() or params.get("token", "")
            if method == "apps.connections.open":
                return {"ok": True} | self._connections_open(token)
            if method == "auth.test" and token in self.app_tokens:
                return {"ok": True, "app_name": "Memory Hub", "app_id": self.app_id}
            if token not in self.tokens:
                is_other_type = token in self.app_tokens
                code = "not_allowed_token_type" if is_other_type else "invalid_auth"
                raise SlackRefusal(code if token else "not_authed")
            if self.token_error:
                raise SlackRefusal(self.token_error)
            if method not in methods:
                raise SlackRefusal("unknown_method", req_method=method)
            if not method.startswith("conversations.") and method in self.SCOPES:
                self._need(self.SCOPES[method])
            return {"ok": True} | methods[method](params)
        except SlackRefusal as refusal:
            return refusal.answer

    def scope_headers(self, answer: Json) -> dict[str, str]:
        """Return the header with the token's scopes, which every answer to a valid token has."""
        if answer.get("error") in ("not_authed", "invalid_auth", "not_allowed_token_type"):
            return {}
        return {"X-OAuth-Scopes": ",".join(sorted(self.scopes))}

    # The token

    def _auth_test(self, params: dict[str, str]) -> Json:
        return {
            "url": f"https://{self.domain}.slack.com/",
            "team": self.name,
            "team_id": self.team_id,
            "user": "memory",
            "user_id": BOT_USER,
            "bot_id": BOT_ID,
            "is_enterprise_install": False,
        }

    def _bots_info(self, params: dict[str, str]) -> Json:
        if params.get("bot") != BOT_ID:
            raise SlackRefusal("bot_not_found")
        bot = {"id": BOT_ID, "deleted": False, "name": "memory", "updated": 1}
        return {"bot": bot | {"app_id": self.app_id, "user_id": BOT_USER}}

    def _team_info(self, params: dict[str, str]) -> Json:
        team = {"id": self.team_id, "name": self.name, "domain": self.domain}
        return {"team": team | {"url": f"https://{self.domain}.slack.com/", "email_domain": ""}}

    def _connections_open(self, token: str) -> Json:
        if token not in self.app_tokens:
            is_other_type = token in self.tokens
            code = "not_allowed_token_type" if is_other_type else "invalid_auth"
            raise SlackRefusal(code if token else "not_authed")
        if not self.socket_url:
            raise SlackRefusal("forbidden_for_non_socket_mode_apps")  # not switched on
        return {"url": self.socket_url}

    # People and channels

    def _users_list(self, params: dict[str, str]) -> Json:
        users = [self._user(user) for user in self.users.values()]
        return self._page("members", users, params, default=1000)

    def _user(self, user: Json) -> Json:
        visible = deepcopy(user)
        if "users:read.email" not in self.scopes:
            visible["profile"].pop("email", None)
        return visible

    def _conversations_list(self, params: dict[str, str]) -> Json:
        types = params.get("types", "public_channel").split(",")
        for kind in types:
            if kind not in SCOPE_WORDS:
                raise SlackRefusal("invalid_types")
            self._need(f"{SCOPE_WORDS[kind]}:read")
        listed = [
            channel.as_json()
            for channel in self.channels.values()
            if channel.type in types
            and (channel.bot_is_in or channel.type == "public_channel")
            and not (channel.is_archived and params.get("exclude_archived") in ("1", "true"))
        ]
        return self._page("channels", listed, params, default=100)

    def _conversations_info(self, params: dict[str, str]) -> Json:
        channel = self._readable(params, "read")
        info = channel.as_json()
        if params.get("include_num_members") in ("1", "true"):
            info["num_members"] = len(channel.members)
        return {"channel": info}

    def _conversations_members(self, params: dict[str, str]) -> Json:
        members = self._readable(params, "read").members
        return self._page("members", list(members), params, default=100)

    # Messages

    def _conversations_history(self, params: dict[str, str]) -> Json:
        channel = self._readable(params, "history")
        if not channel.bot_is_in:
            raise SlackRefusal("not_in_channel")
        after, before = _bounds(params)
        if self.hidden_before:
            after = max(after, micros(self.hidden_before) - 1)
        # The cursor is a time, so that new messages do not move the pages.
        if cursor := params.get("cursor"):
            until = _cursor_us(cursor) + 1
            before = until if before is None else min(before, until)
        messages = channel.in_channel(after, before)[::-1]
        size = self._limit("conversations.history", params, 100)
        return {
            "messages": [channel.render(message) for message in messages[:size]],
            "pin_count": 0,
            "is_limited": self.is_limited or bool(self.hidden_before),
            **_following(messages, size),
        }

    def _conversations_replies(self, params: dict[str, str]) -> Json:
        channel = self._readable(params, "history")
        if not channel.bot_is_in:
            raise SlackRefusal("not_in_channel")
        thread_ts = params.get("ts", "")
        root = channel.messages.get(thread_ts)
        if root is None:
            raise SlackRefusal("thread_not_found")
        after, before = _bounds(params)
        replies = [
            message
            for message in channel.replies_of(thread_ts)
            if after < us_of(message) and (before is None or us_of(message) < before)
        ]
        if cursor := params.get("cursor"):
            begin = _cursor_us(cursor)
            replies = [message for message in replies if us_of(message) >= begin]
        size = self._limit("conversations.replies", params, 1000)
        page = [root, *replies[:size]]
        return {"messages": [channel.render(m) for m in page], **_following(replies, size)}

    # Rules of all methods

    def _need(self, scope: str) -> None:
        if scope not in self.scopes:
            provided = ",".join(sorted(self.scopes))
            raise SlackRefusal("missing_scope", needed=scope, provided=provided)

    def _readable(self, params: dict[str, str], what: str) -> FakeChannel:
        if not params.get("channel"):
            raise SlackRefusal("invalid_arguments")
        channel = self.channels.get(params["channel"])
        if channel is None or (channel.type != "public_channel" and not channel.bot_is_in):
            raise SlackRefusal("channel_not_found")
        self._need(f"{channel.scope_word}:{what}")
        return channel

    def _page(self, key: str, items: list[Any], params: dict[str, str], default: int) -> Json:
        begin = int(_decode_cursor(params["cursor"], "offset:")) if params.get("cursor") else 0
        end = begin + self._limit("", params, default)
        cursor = _encode_cursor(f"offset:{end}") if end < len(items) else ""
        return {key: items[begin:end], "response_metadata": {"next_cursor": cursor}}

    def _limit(self, method: str, params: dict[str, str], default: int) -> int:
        limit = params.get("limit") or str(default)
        if not limit.isdigit() or not 1 <= int(limit) <= 1000:
            raise SlackRefusal("invalid_limit")
        maximum = SLOW_PAGE if self.slow_plan and method in SLOW_METHODS else LARGEST_PAGE
        return min(int(limit), self.page_size, maximum)


def _following(items: list[Json], size: int) -> Json:
    """Return whether there is more, with the cursor."""
    if len(items) <= size:
        return {"has_more": False}
    cursor = _encode_cursor(f"next_ts:{us_of(items[size])}")
    return {"has_more": True, "response_metadata": {"next_cursor": cursor}}


def _bounds(params: dict[str, str]) -> tuple[int, int | None]:
    """Return the exclusive bounds; None for no end."""
    return _bound(params, "oldest"), _bound(params, "latest") if params.get("latest") else None


def _bound(params: dict[str, str], name: str) -> int:
    ts = params.get(name) or "0"
    try:
        return micros(ts if "." in ts else f"{ts}.0")
    except ValueError:
        raise SlackRefusal(f"invalid_ts_{name}") from None


def _encode_cursor(position: str) -> str:
    return base64.b64encode(position.encode()).decode()


def _cursor_us(cursor: str) -> int:
    return int(_decode_cursor(cursor, "next_ts:"))


def _decode_cursor(cursor: str, kind: str) -> str:
    try:
        position = base64.b64decode(cursor, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        position = ""
    if not position.startswith(kind) or not position.removeprefix(kind).isdigit():
        raise SlackRefusal("invalid_cursor")
    return position.removeprefix(kind)
