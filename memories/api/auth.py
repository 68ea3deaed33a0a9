"""Authentication of requests by API keys and access tokens, with scopes and rate limits."""

import logging
import threading
from collections.abc import Callable, Hashable
from datetime import datetime
from functools import wraps
from typing import Any

from django.conf import settings
from django.db import close_old_connections
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from memories.api.problems import Problem
from memories.models import ApiKey, Reader
from memories.models.access.audience import read_once
from memories.views.paths import full_url

logger = logging.getLogger(__name__)


class RateLimit:
    """The requests of each client in the current minute, counted in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = 0
        self._counts: dict[Hashable, int] = {}

    def take(self, client: Hashable, limit: int, now: datetime) -> int:
        """Count a request. Return how many remain in this minute, -1 if it exceeds the limit."""
        minute = int(now.timestamp()) // 60
        with self._lock:
            if minute != self._minute:
                self._minute, self._counts = minute, {}
            self._counts[client] = self._counts.get(client, 0) + 1
            return max(-1, limit - self._counts[client])


rate_limit = RateLimit()


class KeyAuth(HttpBearer):
    """Authenticate a request by ``Authorization: Bearer mhr_…``; sets `request.auth` to the key."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiKey | None:
        return key_of(request, token)


def key_of(request: HttpRequest, token: str) -> ApiKey | None:
    """Return the usable key of a token, None without one. Log its use without texts.

    Raises Problem 429 if the request exceeds the rate limit.
    """
    now = timezone.now()
    key = _find_key(request, token, now)
    if key is None:
        logger.warning("API key refused: %s %s", request.method, request.path)
        return None
    check_rate(request, key.pk, key.requests_per_minute, now)
    key.mark_used(now)
    logger.info("API key %s (%s): %s %s", key.pk, key.name, request.method, request.path)
    return key


def _find_key(request: HttpRequest, token: str, now: datetime) -> ApiKey | None:
    """Return the usable key of a token, or of an access token for the address of the request."""
    key = ApiKey.objects.find(token, now)
    if key is None and settings.MEMORYHUB_OAUTH:
        key = ApiKey.objects.find_by_access_token(token, full_url(request.path), now)
    return key


def reload_key(request: HttpRequest, token: str) -> ApiKey:
    """Return the key of a request that was let in. Raises Problem 401 if it ended since."""
    key = _find_key(request, token, timezone.now())
    if key is None:
        raise _ended()
    return key


def usable_key(pk: int) -> ApiKey:
    """Return the key for a message on standard input, which has no request. Log its use.

    Raises Problem 401 for a key that ended, and 429 if the message exceeds the rate limit.
    """
    close_old_connections()  # outside of requests Django does not replace lost connections
    now = timezone.now()
    usable = ApiKey.objects.usable(now).select_related("user", "workspace")
    key = usable.filter(pk=pk).first()
    if key is None:
        raise _ended()
    _take(key.pk, key.requests_per_minute, now)
    key.mark_used(now)
    logger.info("API key %s (%s): MCP on standard input", key.pk, key.name)
    return key


def _ended() -> Problem:
    return Problem(401, "This key was revoked or has expired.")


def check_rate(request: HttpRequest, client: Hashable, limit: int, now: datetime) -> None:
    """Count a request of the client. Raises Problem 429 if it exceeds the limit of a minute."""
    request.rate_limit = (limit, 0)  # type: ignore[attr-defined]  # of a refusal
    request.rate_limit = (limit, _take(client, limit, now))  # type: ignore[attr-defined]


def _take(client: Hashable, limit: int, now: datetime) -> int:
    """Count a request, and return how many remain. Raises Problem 429 if it exceeds the limit."""
    remaining = rate_limit.take(client, limit, now)
    if remaining < 0:
        seconds = 60 - int(now.timestamp()) % 60
        detail = f"This client may send {limit} requests a minute."
        raise Problem(429, detail, {"Retry-After": str(seconds)})
    return remaining


def reader_of(request: HttpRequest) -> Reader:
    """Return the reader of the request's key at its first use. A GET reads its rights once."""
    if not hasattr(request, "reader"):
        reader: Reader = request.auth.reader(timezone.now())  # type: ignore[attr-defined]
        request.reader = read_once(reader) if request.method == "GET" else reader  # type: ignore[attr-defined]
    return request.reader  # type: ignore[attr-defined,no-any-return]


def needs(scope: ApiKey.Scope) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate an operation that needs a key with this scope."""

    def decorate(operation: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(operation)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            check_scope(request.auth, scope)  # type: ignore[attr-defined]
            return operation(request, *args, **kwargs)

        return checked

    return decorate


def check_scope(key: ApiKey, scope: ApiKey.Scope) -> None:
    """Raise Problem 403 for a key without the scope."""
    if scope not in key.scopes:
        raise Problem(403, f"This key lacks the scope {scope.value!r}.")
