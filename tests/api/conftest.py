"""The team of the view tests, with API keys."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from memories.api import auth
from memories.models import ApiKey
from tests.views.conftest import Cast, cast, cast_from_the_start, shared_cast

__all__ = ["cast", "cast_from_the_start", "shared_cast"]

Ask = Callable[..., HttpResponse]


@pytest.fixture(autouse=True)
def fresh_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the counts: keys of rolled-back tests have the same primary keys."""
    monkeypatch.setattr(auth, "rate_limit", auth.RateLimit())


@pytest.fixture
def token(cast: Cast) -> Callable[..., str]:
    """A function that makes a key for a user ("" for public channels only). Returns its token."""

    def make(user: str = "", **options: Any) -> str:
        account = cast.users[user] if user else None
        return ApiKey.objects.issue(
            cast.workspace, name=user or "bot", by=None, user=account, **options
        )[1]

    return make


@pytest.fixture
def ask() -> Ask:
    """Send a request to the API with a token."""
    client = Client(raise_request_exception=False)

    def send(token: str, path: str, method: str = "get", **options: Any) -> HttpResponse:
        headers = options.pop("headers", {}) | {"Authorization": f"Bearer {token}"}
        send = getattr(client, method)
        return send(f"/api/v1/{path}", headers=headers, **options)  # type: ignore[no-any-return]

    return send
