"""Caching in browsers: nothing is cached while a user is signed in."""

import pytest
from django.test import Client
from pytest_django import Settings

from tests.factories import UserFactory
from tests.views.conftest import Cast


def keeps_nothing(answer: object) -> bool:
    return "no-store" in answer.get("Cache-Control", "")  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["catch-up/", "search/?q=launch", "c/C0PUBLIC/", "c/C0NONE/", "/settings/", "/help/"]
)
def test_pages_of_a_signed_in_user_are_not_cached(cast: Cast, path: str) -> None:
    """Neither a whole page nor a part, an error or a redirect."""
    address = path if path.startswith("/") else cast.path(path)
    for headers in ({}, {"HX-Request": "true"}):
        assert keeps_nothing(cast.clients["member"].get(address, headers=headers))


def test_public_pages_may_be_cached(cast: Cast) -> None:
    answer = cast.clients["nobody"].get("/help/")
    assert answer.status_code == 200 and not keeps_nothing(answer)


def test_static_files_are_cached_for_signed_in_users(cast: Cast, settings: Settings) -> None:
    (settings.STATIC_ROOT / "kept.css").write_text("a {}")
    client = Client()  # looks at the files when it begins
    client.force_login(cast.users["member"])
    answer = client.get("/static/kept.css")
    assert answer.status_code == 200
    assert "max-age" in answer["Cache-Control"] and not keeps_nothing(answer)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/logout/", "/admin/logout/"])
def test_signing_out_clears_the_cache(client: Client, path: str) -> None:
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    assert "Clear-Site-Data" not in client.get("/settings/")
    left = client.post(path)
    assert "_auth_user_id" not in client.session
    assert left["Clear-Site-Data"] == '"cache"'
