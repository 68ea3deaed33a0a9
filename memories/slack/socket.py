"""Slack's Socket Mode: events over a connection that we open, for those whom Slack cannot reach.

slack_sdk reads and pings; when to connect again is decided by whoever holds the socket, so that a
token that Slack refuses ends it instead of being tried for ever.
"""

import logging
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from memories.slack.web import SlackError

logger = logging.getLogger(__name__)

PING_SECONDS = 3.0  # a connection that five pings in a row miss counts as lost
TIMEOUT = 30  # seconds that Slack may take to name an address
AT_ONCE = 4  # events that are stored side by side
# What Slack says of a token that no other try makes better.
_REFUSED = frozenset(
    [
        *("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired"),
        *("not_allowed_token_type", "no_permission", "missing_scope", "access_denied"),
    ]
)


class Socket:
    """One connection at a time. ``take`` stores an event's body; when it raises, Slack is not
    answered and sends it again."""

    def __init__(
        self,
        app_token: str,
        take: Callable[[Any], None],
        base_url: str = "",
        *,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self._take = take
        self._client = SocketModeClient(
            app_token,
            web_client=WebClient(
                base_url=(base_url or WebClient.BASE_URL).rstrip("/") + "/", timeout=TIMEOUT
            ),
            auto_reconnect_enabled=False,
            ping_interval=ping_seconds,
            concurrency=AT_ONCE,
        )
        self._client.socket_mode_request_listeners.append(self._hear)

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected()

    def connect(self) -> None:
        """Ask Slack for an address and connect there. Raises `SlackError`."""
        try:
            self._client.connect_to_new_endpoint()
        except SlackApiError as error:
            raise _refused(error) from error
        except (OSError, HTTPException, ValueError, SlackClientError) as error:
            raise _unreachable(type(error).__name__) from error
        if not self.is_connected:  # slack_sdk keeps the error of the connection itself
            raise _unreachable("no connection")

    def close(self) -> None:
        """What was heard and not answered yet comes again."""
        self._client.close()

    def _hear(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        if request.type == "events_api":
            try:
                self._take(request.payload)
            except Exception as error:
                logger.error("an event could not be stored: %s", type(error).__name__)
                return
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))


def _refused(error: SlackApiError) -> SlackError:
    data = error.response.data
    code = str(data.get("error") or "malformed") if isinstance(data, dict) else "malformed"
    advice = ""
    if code in _REFUSED:
        advice = " Check SLACK_APP_TOKEN: an app-level token (xapp-…) with connections:write."
    return SlackError(code, f"apps.connections.open: {code}.{advice}", permanent=code in _REFUSED)


def _unreachable(what: str) -> SlackError:
    return SlackError("unreachable", f"Slack cannot be reached ({what}).", permanent=False)
