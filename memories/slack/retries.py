"""Which troubles of a call to Slack are waited out, and for how long. Each further attempt is a call
like the first: it is taken from the budget. A rate limit is never waited out here."""

import random
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import URLError

from slack_sdk.http_retry.builtin_handlers import ConnectionErrorRetryHandler
from slack_sdk.http_retry.builtin_interval_calculators import BackoffRetryIntervalCalculator
from slack_sdk.http_retry.handler import RetryHandler
from slack_sdk.http_retry.interval_calculator import RetryIntervalCalculator
from slack_sdk.http_retry.jitter import Jitter
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState

RETRIES = 3
PAUSE = 0.5  # seconds before the first retry; each further one waits twice as long
UNKNOWN_WAIT = 60.0  # seconds, when Slack limits without saying for how long

# ValueError: a body that breaks off, or is no text.
_CONNECTION = [URLError, ConnectionError, TimeoutError, HTTPException, ValueError]

Take = Callable[[str], None]


def retry_handlers(pause: float, take: Take) -> list[RetryHandler]:
    """For a WebClient; they count their retries together. ``take`` a call of this method, or raise."""
    waits = BackoffRetryIntervalCalculator(pause, _Spread())
    return [
        _ConnectionTrouble(take, RETRIES, waits, _CONNECTION),
        _ServerTrouble(take, RETRIES, waits),
    ]


class _Spread(Jitter):
    """Up to half as long again, so that processes do not come back in step."""

    def recalculate(self, duration: float) -> float:
        return duration * (1 + random.random() / 2)


class _Metered(RetryHandler):
    """Takes the call before it is made again."""

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


class _ConnectionTrouble(_Metered, ConnectionErrorRetryHandler):
    def __init__(
        self,
        take: Take,
        retries: int,
        waits: RetryIntervalCalculator,
        troubles: list[type[Exception]],
    ) -> None:
        super().__init__(retries, waits, troubles)
        self.take = take


class _ServerTrouble(_Metered):
    """Any 5xx, and a 200 that is not Slack speaking: the SDK retries 500 and 503 alone."""

    def __init__(self, take: Take, retries: int, waits: RetryIntervalCalculator) -> None:
        super().__init__(retries, waits)
        self.take = take

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
    """Retry-After, or a guess where it is not a number."""
    for name, value in headers.items():
        if name.lower() == "retry-after" and str(value).isascii() and str(value).isdigit():
            return float(value)
    return UNKNOWN_WAIT
