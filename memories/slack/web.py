"""Slack's Web API: the one place that speaks it.

`SlackClient` returns Slack's own JSON, page by page, and raises `SlackError` for whatever goes
wrong. Short troubles (a lost connection, a 5xx, a few seconds until the budget has a call) are
waited out here. A rate limit is the caller's to come back from: its `Limiter` remembers it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Protocol
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from memories.rules.ingest.message_text import as_dict
from memories.rules.sync.rate_limits import SLOW_METHODS, SLOW_PAGE
from memories.slack.retries import PAUSE, retry_after, retry_handlers

TIMEOUT = 30  # seconds a call may take
PAGE_SIZE = 999  # the most that Slack gives at once
PATIENCE = 5.0  # seconds; who must wait longer for a call comes back later

# The token, or the app behind it, is what Slack refuses: no other call would do better.
_TOKEN_CODES = frozenset(
    [
        *("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired"),
        *("access_denied", "org_login_required", "not_allowed_token_type", "no_permission"),
        *("team_access_not_granted", "two_factor_setup_required", "no_token", "no_key"),
    ]
)
# Worth another try later, as it is.
_PASSING_CODES = frozenset(
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
    """What Slack answered, or that it did not.

    ``code`` is Slack's word (or unreachable, malformed, no_token); ``permanent`` when asking
    again changes nothing; ``retry_after``: seconds to wait where Slack told.
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
        """No other call with this token would do better."""
        return self.code in _TOKEN_CODES

    @property
    def is_general(self) -> bool:
        """Not about the channel or thread asked for: the next one would fare the same."""
        return self.refuses_token or self.code in ("ratelimited", "unreachable", "missing_scope")


@dataclass(frozen=True)
class Identity:
    """Whose token it is. ``domain`` is the part before .slack.com, "" when Slack does not tell;
    ``bot_id`` is "" for a token that is not a bot's."""

    team_id: str
    team_name: str
    domain: str
    bot_id: str = ""
    app_id: str = ""


@dataclass(frozen=True)
class HistoryPage:
    """``is_limited``: the workspace's plan hides older messages. ``is_last``: Slack has no more."""

    messages: list[Any]
    is_limited: bool
    is_last: bool


@dataclass(frozen=True)
class RepliesPage:
    messages: list[Any]
    is_last: bool


class Limiter(Protocol):
    """Who says whether a method may be called now."""

    def take(self, method: str, *, slow: bool = False) -> float:
        """Take one call: 0.0, or in how many seconds there will be one. ``slow``: the app is on
        Slack's plan of one page of history a minute."""

    def limited(self, method: str, seconds: float) -> None:
        """Slack refused a call, and takes none for so long."""


class LocalLimiter:
    """Of a client on its own: calls as it likes, and heeds what Slack told it."""

    def __init__(self) -> None:
        self._not_before: dict[str, float] = {}

    def take(self, method: str, *, slow: bool = False) -> float:
        return max(0.0, self._not_before.get(method, 0.0) - time.monotonic())

    def limited(self, method: str, seconds: float) -> None:
        self._not_before[method] = time.monotonic() + seconds


class SlackClient:
    """One token's view of Slack. ``calls`` counts the pages asked for, by method.

    ``slow_plan``: Slack gives 15 messages a page and a page a minute; it turns True when that
    shows. ``sleep`` is for the few seconds that are waited out.
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
        # What the token may do, as the last answer said; None when none has.
        self.scopes: list[str] | None = None
        self.slow_plan = slow_plan
        self._limiter = limiter or LocalLimiter()
        self._sleep = sleep
        self._cut_short: set[str] = set()  # methods whose last page was as short as the slow plan's
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
        """All users, deactivated ones and bots too."""
        for answer in self._pages("users.list", {}):
            yield _list(answer, "users.list", "members")

    def channels(self, *, private: bool = True) -> Iterator[list[Any]]:
        """All public channels, and with ``private`` the private ones that the bot is in; archived
        ones too."""
        parameters = {"types": "public_channel,private_channel" if private else "public_channel"}
        for answer in self._pages("conversations.list", parameters):
            yield _list(answer, "conversations.list", "channels")

    def members(self, channel_id: str) -> Iterator[list[Any]]:
        """Ids of the people in a channel."""
        for answer in self._pages("conversations.members", {"channel": channel_id}):
            yield _list(answer, "conversations.members", "members")

    def history(self, channel_id: str, oldest: str, latest: str = "") -> Iterator[HistoryPage]:
        """What stands in the channel itself, newest first, between two ts (both exclusive); from the
        newest one on without ``latest``."""
        method = "conversations.history"
        parameters = {"channel": channel_id, "oldest": oldest} | (
            {"latest": latest} if latest else {}
        )
        for answer in self._pages(method, parameters):
            messages = _list(answer, method, "messages")
            yield HistoryPage(messages, answer.get("is_limited") is True, _is_last(answer))

    def replies(self, channel_id: str, thread_ts: str, oldest: str = "") -> Iterator[RepliesPage]:
        """A thread, oldest first, after ``oldest`` (a ts, exclusive); Slack puts the root on top of
        every page, and one without it is no page of the thread."""
        method = "conversations.replies"
        parameters = {"channel": channel_id, "ts": thread_ts} | (
            {"oldest": oldest} if oldest else {}
        )
        for answer in self._pages(method, parameters):
            messages = _list(answer, method, "messages")
            if not any(as_dict(raw).get("ts") == thread_ts for raw in messages):
                raise _malformed(method, "a thread without its root")
            yield RepliesPage(messages, _is_last(answer))

    def _pages(self, method: str, parameters: dict[str, str]) -> Iterator[dict[str, Any]]:
        cursor = ""
        while True:
            paging = {"limit": str(self._limit(method))} | ({"cursor": cursor} if cursor else {})
            answer = self._call(method, parameters | paging)
            self._measure(method, answer)
            yield answer
            following = _next_cursor(answer)
            if not following:
                return
            if following == cursor:
                raise _malformed(method, "the same page again and again")
            cursor = following

    def _limit(self, method: str) -> int:
        return SLOW_PAGE if self.slow_plan and method in SLOW_METHODS else PAGE_SIZE

    def _measure(self, method: str, answer: dict[str, Any]) -> None:
        """A page that holds 15, of more, where many more were asked for: a refusal right after it
        shows the slow plan."""
        self._cut_short.discard(method)
        messages = answer.get("messages")
        short = isinstance(messages, list) and len(messages) <= SLOW_PAGE + 1  # and the root
        if method in SLOW_METHODS and short and not _is_last(answer) and not self.slow_plan:
            self._cut_short.add(method)

    def _take(self, method: str) -> None:
        """Take a call, after a few seconds if need be."""
        waited = 0.0
        while wait := self._limiter.take(method, slow=self.slow_plan):
            waited += wait
            if waited > PATIENCE:
                raise _rate_limited(method, wait)
            self._sleep(wait)

    def _call(self, method: str, parameters: dict[str, str]) -> dict[str, Any]:
        self._take(method)
        self.calls[method] += 1
        try:
            response = self._client.api_call(method, params=parameters)
        except SlackApiError as error:
            raise self._refused(method, error) from error
        except (OSError, HTTPException, ValueError) as error:
            # ValueError: a body that is not JSON, or not text.
            raise SlackError(
                "unreachable",
                f"{method}: Slack cannot be reached ({type(error).__name__}).",
                permanent=False,
            ) from error
        self._learn_scopes(response.headers)
        return response.data if isinstance(response.data, dict) else {}

    def _learn_scopes(self, headers: Any) -> None:
        for name, value in headers.items():
            if name.lower() == "x-oauth-scopes":
                self.scopes = str(value).replace(",", " ").split()

    def _refused(self, method: str, error: SlackApiError) -> SlackError:
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
                f"{method}: Slack answers with status {response.status_code}.",
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
            code, f"{method}: {code}. {advice}".strip(), permanent=code not in _PASSING_CODES
        )


def _next_cursor(answer: dict[str, Any]) -> str:
    metadata = answer.get("response_metadata")
    return str(metadata.get("next_cursor") or "") if isinstance(metadata, dict) else ""


def _is_last(answer: dict[str, Any]) -> bool:
    return not _next_cursor(answer) and answer.get("has_more") is not True


def _rate_limited(method: str, seconds: float) -> SlackError:
    return SlackError(
        "ratelimited",
        f"{method}: Slack asks to wait {seconds:.0f} s.",
        permanent=False,
        retry_after=seconds,
    )


def _malformed(method: str, what: str) -> SlackError:
    return SlackError("malformed", f"{method}: not an answer of Slack ({what}).", permanent=False)


def _list(answer: dict[str, Any], method: str, key: str) -> list[Any]:
    items = answer.get(key)
    if not isinstance(items, list):
        raise _malformed(method, f"no list of {key}")
    return items
