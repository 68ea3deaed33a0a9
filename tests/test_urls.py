"""The project's own addresses: login, language, admin, and common headers."""

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client

from tests.factories import PASSWORD, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> AbstractUser:
    user: AbstractUser = UserFactory(username="alice")
    return user


@pytest.mark.slow
def test_login_and_logout(client: Client, alice: AbstractUser) -> None:
    assert client.get("/login/").status_code == 200
    wrong = client.post("/login/", {"username": "alice", "password": "wrong"})
    assert wrong.status_code == 200
    right = client.post("/login/?next=/admin/", {"username": "alice", "password": PASSWORD})
    assert (right.status_code, right["Location"]) == (302, "/admin/")
    assert client.session["_auth_user_id"] == str(alice.pk)
    assert client.get("/logout/").status_code == 405  # a link must not log anybody out
    assert client.post("/logout/")["Location"] == "/login/"
    assert "_auth_user_id" not in client.session


def test_a_stranger_is_sent_to_the_login(client: Client) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/")


@pytest.mark.parametrize(
    ("accepts", "chosen", "expected"),
    [
        pytest.param("ja", None, "ja", id="the browser's"),
        pytest.param("fr", None, "en", id="one that is not there"),
        pytest.param("en", "ja", "ja", id="chosen"),
    ],
)
def test_the_language(
    client: Client, alice: AbstractUser, accepts: str, chosen: str | None, expected: str
) -> None:
    if chosen:
        client.post("/i18n/setlang/", {"language": chosen})
    answer = client.get("/login/", headers={"Accept-Language": accepts})
    assert answer["Content-Language"] == expected
    assert f'lang="{expected}"' in answer.content.decode()


@pytest.mark.parametrize("path", ["/login/", "/admin/login/", "/livez", "/nowhere/"])
def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline(client: Client, path: str) -> None:
    policy = client.get(path)["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "path", ["/", "/login/", "/nowhere/", "/settings/", "/factors/", "/admin/", "/setup/"]
)
def test_every_answer_may_differ_for_htmx(client: Client, alice: AbstractUser, path: str) -> None:
    """Redirects, errors and the pages of others, too: a cache must not mix page and part."""
    assert "HX-Request" in client.get(path)["Vary"]
    client.force_login(alice)
    assert "HX-Request" in client.get(path)["Vary"]
