"""Slack's Socket Mode: events over an outgoing connection, for hubs that Slack cannot reach.

slack_sdk reads and pings. The caller decides when to reconnect, so that a refused token ends the
connection instead of being retried for ever.
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

PING_SECONDS = 3.0  # after five missed pings a connection counts as lost
TIMEOUT = 30  # seconds of apps.connections.open
TYPES = ("events_api", "slash_commands", "interactive")
CONCURRENCY = 4  # events that are stored at the same time
# Errors of a token that a retry does not solve.
_TOKEN_ERRORS = frozenset(
    [
        *("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired"),
        *("not_allowed_token_type", "no_permission", "missing_scope", "access_denied"),
    ]
)


class Socket:
    """One connection at a time. ``store`` stores a payload, and returns an answer for the person.

    When it raises, the payload is not acknowledged, and Slack sends it again.
    """

    def __init__(
        self,
        app_token: str,
        store: Callable[[Any], dict[str, Any] | None],
        base_url: str = "",
        *,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self._store = store
        self._client = SocketModeClient(
            app_token,
            web_client=WebClient(
                base_url=(base_url or WebClient.BASE_URL).rstrip("/") + "/", timeout=TIMEOUT
            ),
            auto_reconnect_enabled=False,
            ping_interval=ping_seconds,
            concurrency=CONCURRENCY,
        )
        self._client.socket_mode_request_listeners.append(self._on_request)

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected()

    def connect(self) -> None:
        """Get an address from Slack and connect to it; raise `SlackError`."""
        try:
            self._client.connect_to_new_endpoint()
        except SlackApiError as error:
            raise _slack_error(error) from error
        except (OSError, HTTPException, ValueError, SlackClientError) as error:
            raise _unreachable(type(error).__name__) from error
        if not self.is_connected:  # slack_sdk does not raise the error of the connection
            raise _unreachable("no connection")

    def close(self) -> None:
        """Close the connection. Slack sends events without an acknowledgement again."""
        # A session that just began resets `terminated`; slack_sdk would then wait for its end for ever.
        runner = self._client.current_session_runner
        runner.event.set()
        while runner.is_alive():
            self._client.current_session_state.terminated = True
            self._client.disconnect()
            runner.thread.join(0.1)
        self._client.close()

    def _on_request(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        answer = None
        if request.type in TYPES:
            try:
                answer = self._store(request.payload)
            except Exception as error:
                logger.error("cannot store an event: %s", type(error).__name__)
                return
        client.send_socket_mode_response(SocketModeResponse(request.envelope_id, answer))


def _slack_error(error: SlackApiError) -> SlackError:
    data = error.response.data
    code = str(data.get("error") or "malformed") if isinstance(data, dict) else "malformed"
    advice = ""
    if code in _TOKEN_ERRORS:
        advice = " Check SLACK_APP_TOKEN: an app-level token (xapp-…) with connections:write."
    return SlackError(
        code, f"apps.connections.open: {code}.{advice}", permanent=code in _TOKEN_ERRORS
    )


def _unreachable(what: str) -> SlackError:
    return SlackError("unreachable", f"Slack cannot be reached ({what}).", permanent=False)
