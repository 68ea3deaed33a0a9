"""Which troubles of a call to Slack are waited out, and for how long."""

import random
from http.client import HTTPException
from typing import Any
from urllib.error import URLError

from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
)
from slack_sdk.http_retry.builtin_interval_calculators import BackoffRetryIntervalCalculator
from slack_sdk.http_retry.handler import RetryHandler
from slack_sdk.http_retry.jitter import Jitter
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState

RETRIES = 3
PAUSE = 0.5  # seconds before the first retry; each further one waits twice as long
LONGEST_WAIT = 30  # seconds; a longer rate limit is not slept through
UNKNOWN_WAIT = 60.0  # seconds, when Slack limits without saying for how long

# ValueError: a body that breaks off, or is no text.
_CONNECTION = [URLError, ConnectionError, TimeoutError, HTTPException, ValueError]


def retry_handlers(pause: float) -> list[RetryHandler]:
    """For a WebClient; they count their retries together."""
    waits = BackoffRetryIntervalCalculator(pause, _Spread())
    return [
        ConnectionErrorRetryHandler(RETRIES, waits, _CONNECTION),
        _ServerTrouble(RETRIES, waits),
        _ShortRateLimit(RETRIES),
    ]


class _Spread(Jitter):
    """Up to half as long again, so that processes do not come back in step."""

    def recalculate(self, duration: float) -> float:
        return duration * (1 + random.random() / 2)


class _ServerTrouble(RetryHandler):
    """Any 5xx, and a 200 that is not Slack speaking: the SDK retries 500 and 503 alone."""

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


class _ShortRateLimit(RateLimitErrorRetryHandler):
    """Sleeps through a 429 only when that is short."""

    def _can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        if response is None or response.status_code != 429:
            return False
        headers = {name: values[0] for name, values in response.headers.items()}
        return retry_after(headers) <= LONGEST_WAIT


def retry_after(headers: Any) -> float:
    """Retry-After, or a guess where it is not a number."""
    for name, value in headers.items():
        if name.lower() == "retry-after" and str(value).isascii() and str(value).isdigit():
            return float(value)
    return UNKNOWN_WAIT
