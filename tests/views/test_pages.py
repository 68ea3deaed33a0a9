"""Theme, language, and the pages nobody wants to see."""

import pytest
from django.test import Client

from memories.models import Memory
from tests.views.conftest import Cast


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theme", "attribute"),
    [("dark", 'data-theme="dark"'), ("light", 'data-theme="light"'), ("", ""), ("evil", "")],
)
def test_a_theme_is_kept_in_a_cookie(cast: Cast, theme: str, attribute: str) -> None:
    client = cast.clients["member"]
    response = client.post("/theme/", {"theme": theme, "next": "/w/team/"})
    assert (response.status_code, response["Location"]) == (302, "/w/team/")
    first_line = client.get("/w/team/").content.decode().split("<head>")[0]
    assert attribute in first_line
    assert ("data-theme" in first_line) is bool(attribute)


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", ""])
def test_the_theme_leads_nowhere_else(client: Client, target: str) -> None:
    assert client.post("/theme/", {"theme": "dark", "next": target})["Location"] == "/"


def test_a_theme_is_never_set_by_a_link(client: Client) -> None:
    assert client.get("/theme/?theme=dark").status_code == 405


def test_a_cookie_from_elsewhere_is_not_written_into_the_page(cast: Cast) -> None:
    client = cast.clients["member"]
    client.cookies["theme"] = '"><script>'
    assert "<script>" not in client.get("/w/team/").content.decode().split("<head>")[0]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_page_says_its_language(cast: Cast, language: str) -> None:
    client = cast.clients["member"]
    client.post("/i18n/setlang/", {"language": language, "next": "/w/team/"})
    assert f'<html lang="{language}"' in client.get("/w/team/").content.decode()


def test_the_page_of_errors_needs_nothing(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Memory.objects.__class__, "filter", broken)
    client = cast.clients["member"]
    client.raise_request_exception = False
    response = client.get(cast.path("c/C0PUBLIC/"))
    assert response.status_code == 500
    assert "Something broke" in response.content.decode()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [("/nowhere/", 404, "Not found"), ("/w/team/settings/", 403, "Not yours to change")],
)
def test_errors_are_told_in_our_words(cast: Cast, path: str, status: int, words: str) -> None:
    response = cast.clients["editor"].get(path)
    assert response.status_code == status
    assert words in response.content.decode()


def test_a_form_that_is_too_old_says_that_nothing_changed(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.users["editor"])
    response = client.post(f"/m/{cast.memory.pk}/edit/", {"text": "- x", "based_on": 2})
    assert response.status_code == 403
    assert "Nothing was changed." in response.content.decode()
    assert cast.memory.versions.count() == 2


def test_a_page_loads_nothing_from_elsewhere_and_has_nothing_inline(cast: Cast) -> None:
    response = cast.clients["editor"].get(cast.path("c/C0PUBLIC/"))
    page = response.content.decode()
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert " style=" not in page and "<style" not in page
    assert " onclick=" not in page and "hx-on" not in page
    assert page.count("<script") == page.count("<script src=")
