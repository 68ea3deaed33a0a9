"""The operations of webhooks: added, listed and removed by the key that owns them."""

from collections.abc import Callable
from typing import Any

import pytest

from memories.models import Webhook
from tests.api.conftest import Ask

pytestmark = pytest.mark.django_db
URL = "https://bot.example.com/memory"


def add(ask: Ask, token: str, url: str = URL, **headers: str) -> Any:
    return ask(
        token,
        "webhooks",
        "post",
        data={"url": url},
        content_type="application/json",
        headers=headers,
    )


def test_its_secret_is_shown_once(ask: Ask, token: Callable[..., str]) -> None:
    key = token("member")
    added = add(ask, key)
    assert added.status_code == 201 and added.json()["secret"].startswith("whsec_")
    listed = ask(key, "webhooks").json()["items"]
    assert [row["url"] for row in listed] == [URL] and "secret" not in listed[0]
    assert ask(key, f"webhooks/{listed[0]['id']}", "delete").status_code == 204
    assert ask(key, "webhooks").json()["items"] == []


def test_another_key_sees_and_removes_nothing(ask: Ask, token: Callable[..., str]) -> None:
    pk = add(ask, token("member")).json()["id"]
    another = token("member")
    assert ask(another, "webhooks").json()["items"] == []
    assert ask(another, f"webhooks/{pk}", "delete").status_code == 404
    assert Webhook.objects.filter(pk=pk).exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/x",
        "http://127.0.0.1:65379/",
        "http://169.254.169.254/latest",
        "http://db.internal/",
        "http://10.1.2.3/",
    ],
)
def test_a_host_that_is_not_public_is_refused(
    ask: Ask, token: Callable[..., str], url: str
) -> None:
    refused = add(ask, token("member"), url)
    assert refused.status_code == 403 and "not public" in refused.json()["detail"]


@pytest.mark.parametrize(
    "url", ["ftp://a.example", "https://", "https://a.example/\x00", "x" * 600]
)
def test_an_invalid_address_is_refused(ask: Ask, token: Callable[..., str], url: str) -> None:
    assert add(ask, token("member"), url).status_code == 422


def test_a_key_has_at_most_ten(ask: Ask, token: Callable[..., str]) -> None:
    key = token("member")
    statuses = [add(ask, key).status_code for _ in range(11)]
    assert statuses == [201] * 10 + [409]


def test_a_repeated_request_adds_nothing(ask: Ask, token: Callable[..., str]) -> None:
    key, header = token("member"), {"Idempotency-Key": "first"}
    first = add(ask, key, **header)
    for _ in range(9):
        add(ask, key)
    # The tenth one does not refuse the repeated request, which adds no eleventh.
    again = add(ask, key, **header)
    assert (again.status_code, again.json()) == (201, first.json())
    assert Webhook.objects.count() == 10
    assert add(ask, key, f"{URL}/2", **header).status_code == 422
    assert ask(key, f"webhooks/{first.json()['id']}", "delete").status_code == 204
    assert add(ask, key, **header).status_code == 404
