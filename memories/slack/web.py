"""A client of Slack's Web API.

`SlackClient` returns Slack's own JSON, page by page, and raises `SlackError` for every error. It
retries lost connections and 5xx, and waits a few seconds for its `Limiter`. On a rate limit it
raises: the limiter records the limit, and the caller tries again later.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Protocol
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from memories.rules.json_values import as_dict
from memories.rules.sync.rate_limits import SLOW_METHODS, SLOW_PAGE
from memories.slack.retries import PAUSE, retry_after, retry_handlers

TIMEOUT = 30  # seconds a call may take
PAGE_SIZE = 999  # Slack's maximum
MAX_WAIT = 5.0  # seconds to wait for the limiter; a longer wait is an error

# Slack refuses the token or its app, so every other call fails too.
_TOKEN_CODES = frozenset(
    [
        *("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired"),
        *("access_denied", "org_login_required", "not_allowed_token_type", "no_permission"),
        *("team_access_not_granted", "two_factor_setup_required", "no_token", "no_key"),
    ]
)
# The same call may work later.
_TRANSIENT_CODES = frozenset(
    [
        *("ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable"),
        *("request_timeout", "invalid_cursor", "unreachable", "malformed"),
    ]
)
_ADVICE = {
    "not_authed": "Set SLACK_BOT_TOKEN to the app's bot token (xoxb-…).",
    "invalid_auth": "Slack does not know this token: check SLACK_BOT_TOKEN.",
    "account_inactive": "The app was removed from the workspace: install it again.",
    "token_revoked": "The token was revoked: install the app again and set SLACK_BOT_TOKEN.",
    "token_expired": "The token has expired: set a new SLACK_BOT_TOKEN.",
    "not_in_channel": "Invite the bot to the channel.",
    "channel_not_found": "The bot cannot see this channel.",
}


class SlackError(Exception):
    """An error of Slack's, or no usable answer.

    ``code`` is Slack's error code, or unreachable, malformed or no_token. ``permanent``: a retry
    does not help. ``retry_after`` is Slack's wait in seconds, when it gave one.
    """

    def __init__(
        self, code: str, message: str, *, permanent: bool, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.permanent = permanent
        self.retry_after = retry_after

    @property
    def refuses_token(self) -> bool:
        """Whether every other call with this token fails too."""
        return self.code in _TOKEN_CODES

    @property
    def is_general(self) -> bool:
        """Whether the error does not depend on the channel or thread of the call."""
        return self.refuses_token or self.code in ("ratelimited", "unreachable", "missing_scope")


@dataclass(frozen=True)
class Identity:
    """The team and bot of a token. ``domain`` is the part before .slack.com, "" when unknown.
    ``bot_id`` is "" for a token that is not a bot's."""

    team_id: str
    team_name: str
    domain: str
    bot_id: str = ""
    app_id: str = ""


@dataclass(frozen=True)
class Page:
    """Messages of a channel or thread. ``is_limited``: the workspace's plan hides older ones."""

    messages: list[Any]
    is_last: bool
    is_limited: bool = False


class Limiter(Protocol):
    """Limits the rate of calls by method."""

    def take(self, method: str, *, slow: bool = False) -> float:
        """Take one call and return 0.0, or return the seconds until one is free.

        ``slow``: Slack limits the app to one page of history a minute.
        """

    def limited(self, method: str, seconds: float) -> None:
        """Record that Slack refused a call and accepts none for this many seconds."""


class LocalLimiter:
    """The default `Limiter`: no limit but the waits that Slack gave to this client."""

    def __init__(self) -> None:
        self._retry_at: dict[str, float] = {}

    def take(self, method: str, *, slow: bool = False) -> float:
        return max(0.0, self._retry_at.get(method, 0.0) - time.monotonic())

    def limited(self, method: str, seconds: float) -> None:
        self._retry_at[method] = time.monotonic() + seconds


class SlackClient:
    """A client for one token. ``calls`` counts its calls by method.

    ``slow_plan``: Slack gives 15 messages a page and one page a minute. The client sets it when it
    detects that. ``sleep`` is called for waits of a few seconds.
    """

    def __init__(
        self,
        token: str,
        base_url: str = "",
        *,
        timeout: int = TIMEOUT,
        pause: float = PAUSE,
        limiter: Limiter | None = None,
        slow_plan: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not token:
            raise SlackError(
                "no_token",
                "There is no Slack token. Set SLACK_BOT_TOKEN to the bot token (xoxb-…) of the"
                " app that is installed in your workspace.",
                permanent=True,
            )
        self.calls: Counter[str] = Counter()
        self.token_end = token[-4:]
        # The token's scopes in the last answer, None before the first one.
        self.scopes: list[str] | None = None
        self.slow_plan = slow_plan
        self._limiter = limiter or LocalLimiter()
        self._sleep = sleep
        self._cut_short: set[str] = set()  # methods whose last page had the slow plan's size
        self._client = WebClient(
            token,
            base_url=(base_url or WebClient.BASE_URL).rstrip("/") + "/",
            timeout=timeout,
            retry_handlers=retry_handlers(pause, self._take),
        )

    def identity(self) -> Identity:
        answer = self._call("auth.test", {})
        host = urlsplit(str(answer.get("url") or "")).hostname or ""
        return Identity(
            team_id=str(answer.get("team_id") or ""),
            team_name=str(answer.get("team") or ""),
            domain=host.removesuffix(".slack.com") if host.endswith(".slack.com") else "",
            bot_id=str(answer.get("bot_id") or ""),
            app_id=str(answer.get("app_id") or ""),
        )

    def people(self) -> Iterator[list[Any]]:
        """Yield pages of all users, with bots and deactivated users."""
        for answer in self._pages("users.list", {}):
            yield _list(answer, "users.list", "members")

    def channels(self, *, private: bool = True) -> Iterator[list[Any]]:
        """Yield pages of all public channels, with archived ones.

        With ``private`` also the private channels that the bot is in.
        """
        parameters = {"types": "public_channel,private_channel" if private else "public_channel"}
        for answer in self._pages("conversations.list", parameters):
            yield _list(answer, "conversations.list", "channels")

    def members(self, channel_id: str) -> Iterator[list[Any]]:
        """Yield pages of the ids of a channel's members."""
        for answer in self._pages("conversations.members", {"channel": channel_id}):
            yield _list(answer, "conversations.members", "members")

    def history(self, channel_id: str, oldest: str, latest: str = "") -> Iterator[Page]:
        """Yield pages of a channel's messages, the newest first, without replies.

        ``oldest`` and ``latest`` are exclusive; without ``latest`` it begins with the newest one.
        """
        method = "conversations.history"
        parameters = {"channel": channel_id, "oldest": oldest, "latest": latest}
        for answer in self._pages(method, parameters):
            messages = _list(answer, method, "messages")
            yield Page(messages, _is_last(answer), answer.get("is_limited") is True)

    def replies(self, channel_id: str, thread_ts: str, oldest: str = "") -> Iterator[Page]:
        """Yield pages of a thread, the oldest first, after ``oldest`` (exclusive).

        Slack puts the root first on every page. A page without it is malformed.
        """
        method = "conversations.replies"
        parameters = {"channel": channel_id, "ts": thread_ts, "oldest": oldest}
        for answer in self._pages(method, parameters):
            messages = _list(answer, method, "messages")
            if not any(as_dict(raw).get("ts") == thread_ts for raw in messages):
                raise _malformed(method, "a thread without its root")
            yield Page(messages, _is_last(answer))

    def send(self, method: str, **fields: Any) -> None:
        """Call a method that shows something; raise SlackError. Objects are sent as JSON."""
        texts = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in fields.items()
        }
        self._call(method, texts)

    def _pages(self, method: str, parameters: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Yield all pages; leave out the parameters that are ""."""
        cursor = ""
        while True:
            is_slow = self.slow_plan and method in SLOW_METHODS
            paging = {"limit": str(SLOW_PAGE if is_slow else PAGE_SIZE), "cursor": cursor}
            sent = {name: value for name, value in (parameters | paging).items() if value}
            answer = self._call(method, sent)
            self._note_page_size(method, answer)
            yield answer
            next_cursor = _next_cursor(answer)
            if not next_cursor:
                return
            if next_cursor == cursor:
                raise _malformed(method, "the same page again and again")
            cursor = next_cursor

    def _note_page_size(self, method: str, answer: dict[str, Any]) -> None:
        """Record a page of 15 messages that is not the last one.

        A rate limit on the next call then proves the slow plan.
        """
        self._cut_short.discard(method)
        messages = answer.get("messages")
        is_short = isinstance(messages, list) and len(messages) <= SLOW_PAGE + 1  # and the root
        if method in SLOW_METHODS and is_short and not _is_last(answer) and not self.slow_plan:
            self._cut_short.add(method)

    def _take(self, method: str) -> None:
        """Take a call from the limiter; wait a few seconds for it at most."""
        waited = 0.0
        while wait := self._limiter.take(method, slow=self.slow_plan):
            waited += wait
            if waited > MAX_WAIT:
                raise _rate_limited(method, wait)
            self._sleep(wait)

    def _call(self, method: str, parameters: dict[str, str]) -> dict[str, Any]:
        self._take(method)
        self.calls[method] += 1
        try:
            response = self._client.api_call(method, params=parameters)
        except SlackApiError as error:
            raise self._slack_error(method, error) from error
        except (OSError, HTTPException, ValueError) as error:
            # ValueError: a body that is not JSON or not text.
            raise SlackError(
                "unreachable",
                f"{method}: Slack cannot be reached ({type(error).__name__}).",
                permanent=False,
            ) from error
        for name, value in response.headers.items():
            if name.lower() == "x-oauth-scopes":
                self.scopes = str(value).replace(",", " ").split()
        return response.data if isinstance(response.data, dict) else {}

    def _slack_error(self, method: str, error: SlackApiError) -> SlackError:
        response = error.response
        data = response.data if isinstance(response.data, dict) else {}
        if response.status_code == 429:
            seconds = retry_after(response.headers)
            self._limiter.limited(method, seconds)
            self.slow_plan = self.slow_plan or method in self._cut_short
            return _rate_limited(method, seconds)
        if response.status_code >= 500:
            return SlackError(
                "unreachable",
                f"{method}: Slack responded with status {response.status_code}.",
                permanent=False,
            )
        code = str(data.get("error") or "malformed")
        if not code.replace("_", "").isalnum():
            return _malformed(method, f"status {response.status_code}, no JSON")
        advice = _ADVICE.get(code, "")
        if code == "missing_scope":
            advice = (
                f"Add the scope {data.get('needed') or '?'} to the app and install it again"
                f" (it has: {data.get('provided') or 'none'})."
            )
        return SlackError(
            code, f"{method}: {code}. {advice}".strip(), permanent=code not in _TRANSIENT_CODES
        )


def _next_cursor(answer: dict[str, Any]) -> str:
    metadata = answer.get("response_metadata")
    return str(metadata.get("next_cursor") or "") if isinstance(metadata, dict) else ""


def _is_last(answer: dict[str, Any]) -> bool:
    return not _next_cursor(answer) and answer.get("has_more") is not True


def _rate_limited(method: str, seconds: float) -> SlackError:
    return SlackError(
        "ratelimited",
        f"{method}: Slack requires a pause of {seconds:.0f} s.",
        permanent=False,
        retry_after=seconds,
    )


def _malformed(method: str, what: str) -> SlackError:
    return SlackError(
        "malformed", f"{method}: not a valid response from Slack ({what}).", permanent=False
    )


def _list(answer: dict[str, Any], method: str, key: str) -> list[Any]:
    items = answer.get(key)
    if not isinstance(items, list):
        raise _malformed(method, f"no list of {key}")
    return items
