"""Slack's Web API: the one place that speaks it.

`SlackClient` returns Slack's own JSON, page by page, and raises `SlackError` for whatever goes
wrong. Short troubles (a lost connection, a 5xx, a rate limit of at most 30 s) are waited out
here; a longer rate limit is the caller's to come back from, and until then the method is not
called again.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from memories.slack.retries import PAUSE, retry_after, retry_handlers

TIMEOUT = 30  # seconds a call may take
PAGE_SIZE = 999  # the most that Slack gives at once

# The token, or the app behind it, is what Slack refuses: no other call would do better.
_TOKEN_CODES = frozenset(
    [
        *("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired"),
        *("access_denied", "org_login_required", "not_allowed_token_type", "no_permission"),
        *("team_access_not_granted", "two_factor_setup_required", "no_token"),
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
    """Whose token it is. ``domain`` is the part before .slack.com, "" when Slack does not tell."""

    team_id: str
    team_name: str
    domain: str


@dataclass(frozen=True)
class HistoryPage:
    """``is_limited``: the workspace's plan hides older messages."""

    messages: list[Any]
    is_limited: bool


class SlackClient:
    """One token's view of Slack. ``calls`` counts the pages asked for, by method."""

    def __init__(
        self, token: str, base_url: str = "", *, timeout: int = TIMEOUT, pause: float = PAUSE
    ) -> None:
        if not token:
            raise SlackError(
                "no_token",
                "There is no Slack token. Set SLACK_BOT_TOKEN to the bot token (xoxb-…) of the"
                " app that is installed in your workspace.",
                permanent=True,
            )
        self.calls: Counter[str] = Counter()
        self._not_before: dict[str, float] = {}
        self._client = WebClient(
            token,
            base_url=(base_url or WebClient.BASE_URL).rstrip("/") + "/",
            timeout=timeout,
            retry_handlers=retry_handlers(pause),
        )

    def identity(self) -> Identity:
        answer = self._call("auth.test", {})
        host = urlsplit(str(answer.get("url") or "")).hostname or ""
        return Identity(
            team_id=str(answer.get("team_id") or ""),
            team_name=str(answer.get("team") or ""),
            domain=host.removesuffix(".slack.com") if host.endswith(".slack.com") else "",
        )

    def people(self) -> Iterator[list[Any]]:
        """All users, deactivated ones and bots too."""
        for answer in self._pages("users.list", {}):
            yield _list(answer, "users.list", "members")

    def channels(self) -> Iterator[list[Any]]:
        """All public channels, and the private ones that the bot is in; archived ones too."""
        asked = {"types": "public_channel,private_channel"}
        for answer in self._pages("conversations.list", asked):
            yield _list(answer, "conversations.list", "channels")

    def members(self, channel_id: str) -> Iterator[list[Any]]:
        """Ids of the people in a channel."""
        for answer in self._pages("conversations.members", {"channel": channel_id}):
            yield _list(answer, "conversations.members", "members")

    def history(self, channel_id: str, oldest: str) -> Iterator[HistoryPage]:
        """What stands in the channel itself, newest first, after ``oldest`` (a ts, exclusive)."""
        for answer in self._pages(
            "conversations.history", {"channel": channel_id, "oldest": oldest}
        ):
            messages = _list(answer, "conversations.history", "messages")
            yield HistoryPage(messages, answer.get("is_limited") is True)

    def replies(self, channel_id: str, thread_ts: str) -> Iterator[list[Any]]:
        """A whole thread, oldest first; Slack puts the root on top of every page."""
        for answer in self._pages(
            "conversations.replies", {"channel": channel_id, "ts": thread_ts}
        ):
            yield _list(answer, "conversations.replies", "messages")

    def _pages(self, method: str, asked: dict[str, str]) -> Iterator[dict[str, Any]]:
        cursor = ""
        while True:
            paging = {"limit": str(PAGE_SIZE)} | ({"cursor": cursor} if cursor else {})
            answer = self._call(method, asked | paging)
            yield answer
            metadata = answer.get("response_metadata")
            following = metadata.get("next_cursor") if isinstance(metadata, dict) else None
            if not following:
                return
            if following == cursor:
                raise _malformed(method, "the same page again and again")
            cursor = str(following)

    def _call(self, method: str, asked: dict[str, str]) -> dict[str, Any]:
        left = self._not_before.get(method, 0.0) - time.monotonic()
        if left > 0:
            raise _rate_limited(method, left)
        self.calls[method] += 1
        try:
            answer = self._client.api_call(method, params=asked).data
        except SlackApiError as error:
            raise self._refused(method, error) from error
        except (OSError, HTTPException, ValueError) as error:
            # ValueError: a body that is not JSON, or not text.
            raise SlackError(
                "unreachable",
                f"{method}: Slack cannot be reached ({type(error).__name__}).",
                permanent=False,
            ) from error
        return answer if isinstance(answer, dict) else {}

    def _refused(self, method: str, error: SlackApiError) -> SlackError:
        response = error.response
        data = response.data if isinstance(response.data, dict) else {}
        if response.status_code == 429:
            seconds = retry_after(response.headers)
            self._not_before[method] = time.monotonic() + seconds
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
    found = answer.get(key)
    if not isinstance(found, list):
        raise _malformed(method, f"no list of {key}")
    return found
