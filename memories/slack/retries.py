"""Retries of calls to Slack after connection and server errors.

Each retry takes a call from the rate limiter, as the first attempt does. A rate limit is not retried
here.
"""

import random
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import URLError

from slack_sdk.http_retry.builtin_handlers import ConnectionErrorRetryHandler
from slack_sdk.http_retry.builtin_interval_calculators import BackoffRetryIntervalCalculator
from slack_sdk.http_retry.handler import RetryHandler
from slack_sdk.http_retry.jitter import Jitter
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState

RETRIES = 3
PAUSE = 0.5  # seconds before the first retry; each further one waits twice as long
DEFAULT_RETRY_AFTER = 60.0  # seconds, for a rate limit without Retry-After

# ValueError: a body that is cut off or is no text.
_CONNECTION_ERRORS = [URLError, ConnectionError, TimeoutError, HTTPException, ValueError]

Take = Callable[[str], None]


def retry_handlers(pause: float, take: Take) -> list[RetryHandler]:
    """Return the handlers of a WebClient, which count their retries together.

    ``take`` takes a call of a method from the rate limiter, or raises.
    """
    intervals = BackoffRetryIntervalCalculator(pause, _Jitter())
    connection_errors = _ConnectionErrorHandler(RETRIES, intervals, _CONNECTION_ERRORS)
    server_errors = _ServerErrorHandler(RETRIES, intervals)
    connection_errors.take = server_errors.take = take
    return [connection_errors, server_errors]


class _Jitter(Jitter):
    """Lengthens a pause by up to a half, so that processes do not retry at the same time."""

    def recalculate(self, duration: float) -> float:
        return duration * (1 + random.random() / 2)


class _LimitedHandler(RetryHandler):
    """Takes a call from the rate limiter before each retry."""

    take: Take

    def prepare_for_next_attempt(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> None:
        self.take(request.url.rpartition("/")[2])
        super().prepare_for_next_attempt(
            state=state, request=request, response=response, error=error
        )


class _ConnectionErrorHandler(_LimitedHandler, ConnectionErrorRetryHandler):
    pass


class _ServerErrorHandler(_LimitedHandler):
    """Retries any 5xx and an empty 200. The SDK's own handler retries 500 and 503 only."""

    def _can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        if response is None:
            return False
        return response.status_code >= 500 or (response.status_code == 200 and not response.body)


def retry_after(headers: Any) -> float:
    """Return the seconds of Retry-After, or the default when it is no number."""
    for name, value in headers.items():
        if name.lower() == "retry-after" and str(value).isascii() and str(value).isdigit():
            return float(value)
    return DEFAULT_RETRY_AFTER
