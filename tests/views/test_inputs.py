"""Invalid input is refused, and forms return only to paths of this site."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import Group
from django.http import HttpResponse
from django.test import RequestFactory

from memories.views.inputs import StorableInput
from tests.views.conftest import Cast

NUL = "a\0b"
WORDS = "The address or the form contains an invalid value"


@pytest.mark.parametrize(
    ("method", "path", "data"),
    [
        ("get", "/w/team/people/", {"q": NUL}),
        ("get", "/w/team/people/", {NUL: "q"}),
        ("get", "/w/team/slack/", {"q": NUL}),
        ("get", "/w/team/search/", {"q": NUL}),
        ("get", "/w/team/context/", {"persona": NUL}),
        ("get", "/w/team/c/C%00/", {}),
        ("post", "/w/team/people/", {"name": NUL, "role": "editor"}),
        ("post", "/w/team/notes/", {"content": NUL}),
        ("post", "/login/", {"login": NUL, "password": "x"}),
        ("get", "/admin/memories/person/", {"q": NUL}),
        ("get", "/admin/memories/message/", {"state": NUL}),
        ("post", "/admin/memories/price/add/", {"model": NUL}),
    ],
)
def test_input_that_no_database_can_store_is_refused(
    cast: Cast, method: str, path: str, data: Any
) -> None:
    response = getattr(cast.clients["operator"], method)(path, data)
    assert response.status_code == 400
    assert WORDS in response.content.decode()


def test_an_impossible_key_of_a_choice_is_refused(cast: Cast) -> None:
    """SQLite cannot compare it, and PostgreSQL finds no such row."""
    data = {"name": "x", "permissions": "1" + "0" * 20}
    response = cast.clients["operator"].post("/admin/auth/group/add/", data)
    words = {400: WORDS, 200: "Select a valid choice"}[response.status_code]
    assert words in response.content.decode()
    assert not Group.objects.exists()


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/x-www-form-urlencoded", 200),
        ("application/x-www-form-urlencoded; charset=Shift_JIS", 200),
        ("application/json; charset=ISO-8859-1", 200),
        ("text/plain; charset=hex", 400),
        ("text/plain; charset=idna", 400),
        ("text/plain; charset=punycode", 400),
        ("text/plain; charset=undefined", 400),
        ("text/plain; charset=utf-7", 400),
        ("text/plain; charset=utf-16", 400),
        ("text/plain; charset*=utf-8''%00", 400),
        ("text/plain; x*=nope''%ff", 400),
        ("text/plain; x*=idna''%ff", 400),
    ],
)
def test_a_content_type_that_nobody_decodes_is_refused(content_type: str, status: int) -> None:
    from memoryhub.wsgi import Request  # it prepares the process when it is imported

    path = "/login/?next=%ff"
    environ = RequestFactory().post(path, b"a=%ff", "text/plain").environ
    request = Request(environ | {"CONTENT_TYPE": content_type})
    assert StorableInput(lambda request: HttpResponse(request.GET["next"]))(
        request
    ).status_code == (status)


def test_an_invalid_cookie_is_refused(cast: Cast) -> None:
    client = cast.clients["nobody"]
    client.cookies["sessionid"] = NUL
    assert client.get("/login/", headers={"Cookie": "sessionid=a\0b"}).status_code == 400


@pytest.mark.parametrize("path", ["/login/", "/login/again/", "/factors/webauthn/reauthenticate/"])
@pytest.mark.parametrize("given", ["http://[", "//[::1", "//evil.example", "x"])
@pytest.mark.parametrize("who", ["operator", "nobody"])
def test_a_sign_in_leads_only_to_paths_of_this_site(
    cast: Cast, who: str, path: str, given: str
) -> None:
    response = cast.clients[who].get(path, {"next": given})
    assert response.status_code in (200, 302)
    assert urlsplit(response.headers.get("Location", "")).netloc == ""


@pytest.mark.parametrize("path", ["/theme/", "/w/team/jobs/resume/"])
@pytest.mark.parametrize(
    ("given", "location"),
    [
        ("/w/team/notes/?q=a", "/w/team/notes/?q=a"),
        ("x", ""),
        ("x.y", ""),
        ("", ""),
        ("//evil.example", ""),
        ("https://evil.example/", ""),
        ("/\\evil.example", ""),
        ("\n/w", ""),
    ],
)
def test_a_form_returns_only_to_paths_of_this_site(
    cast: Cast, path: str, given: str, location: str
) -> None:
    response = cast.clients["operator"].post(path, {"next": given})
    assert response.status_code == 302
    start = "/" if path == "/theme/" else "/w/team/"
    assert response["Location"] == (location or start)
