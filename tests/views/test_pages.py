"""Theme, language and error pages."""

import pytest
from django.test import Client

from memories.models import Memory
from tests.views.conftest import Cast


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theme", "attribute"),
    [("dark", 'data-theme="dark"'), ("light", 'data-theme="light"'), ("", ""), ("evil", "")],
)
def test_a_theme_is_stored_in_a_cookie(cast: Cast, theme: str, attribute: str) -> None:
    client = cast.clients["member"]
    response = client.post("/theme/", {"theme": theme, "next": "/w/team/"})
    assert (response.status_code, response["Location"]) == (302, "/w/team/")
    first_line = client.get("/w/team/").content.decode().split("<head>")[0]
    assert attribute in first_line
    assert ("data-theme" in first_line) is bool(attribute)


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", ""])
def test_the_theme_form_returns_only_to_paths_of_this_site(client: Client, target: str) -> None:
    assert client.post("/theme/", {"theme": "dark", "next": target})["Location"] == "/"


def test_a_link_cannot_set_a_theme(client: Client) -> None:
    assert client.get("/theme/?theme=dark").status_code == 405


def test_an_unknown_cookie_is_not_written_into_the_page(cast: Cast) -> None:
    client = cast.clients["member"]
    client.cookies["theme"] = '"><script>'
    assert "<script>" not in client.get("/w/team/").content.decode().split("<head>")[0]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_page_declares_its_language(cast: Cast, language: str) -> None:
    client = cast.clients["member"]
    client.post("/i18n/setlang/", {"language": language, "next": "/w/team/"})
    assert f'<html lang="{language}"' in client.get("/w/team/").content.decode()


def test_the_error_page_needs_no_database(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Memory.objects.__class__, "filter", broken)
    client = cast.clients["member"]
    client.raise_request_exception = False
    response = client.get(cast.path("c/C0PUBLIC/"))
    assert response.status_code == 500
    assert "Something went wrong" in response.content.decode()


@pytest.mark.parametrize(
    ("path", "status", "arguments"),
    [("/nowhere/", 404, "Not found"), ("/w/team/settings/", 403, "Your role does not allow this")],
)
def test_error_pages_have_texts_of_their_own(
    cast: Cast, path: str, status: int, arguments: str
) -> None:
    response = cast.clients["editor"].get(path)
    assert response.status_code == status
    assert arguments in response.content.decode()


def test_an_expired_form_changes_nothing(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.users["editor"])
    response = client.post(f"/m/{cast.memory.pk}/edit/", {"text": "- x", "based_on": 2})
    assert response.status_code == 403
    assert "Nothing was changed." in response.content.decode()
    assert cast.memory.versions.count() == 2


def test_a_page_loads_no_foreign_file_and_has_no_inline_code(cast: Cast) -> None:
    response = cast.clients["editor"].get(cast.path("c/C0PUBLIC/"))
    page = response.content.decode()
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert " style=" not in page and "<style" not in page
    assert " onclick=" not in page and "hx-on" not in page
    assert page.count("<script") == page.count("<script src=")


def test_a_text_that_was_sent_after_the_session_ended_is_shown(cast: Cast) -> None:
    client, data = Client(), {"content": "Freeze on Fridays <b>", "title": ""}
    client.get("/login/")  # gives the token of forms
    response = client.post(cast.path("notes/"), data)
    page = response.content.decode()
    assert response.status_code == 403 and "Nothing was saved." in page
    assert "Freeze on Fridays &lt;b&gt;</textarea>" in page
    assert f'href="/login/?next={cast.path("notes/")}"' in page
    htmx = client.post(cast.path("notes/"), data, headers={"HX-Request": "true"})
    assert htmx.status_code == 302
    assert client.post(cast.path("seen/"), {"seen": "1:1"}).status_code == 302
    refused = Client(enforce_csrf_checks=True).post(cast.path("notes/"), data)
    assert refused.status_code == 403 and 'href="/login/"' in refused.content.decode()
