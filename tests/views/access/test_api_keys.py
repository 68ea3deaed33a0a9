"""The page on which people make and revoke API keys."""

import re
from typing import Any

import pytest
from django.core.cache import cache

from memories.models import ApiKey
from tests.oauth import App
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow

NEW = {"name": "laptop", "days": "90", "channels": ""}


def make(cast: Cast, who: str, **given: str) -> str:
    page = cast.clients[who].post(cast.path("keys/"), NEW | given)
    assert page.status_code == 200
    match = re.search(r"<code>(mh[rw]_[^<]+)</code>", page.content.decode())
    assert match is not None
    return match[1]


def test_a_key_is_shown_once_and_reads_as_its_maker(cast: Cast) -> None:
    token = make(cast, "insider", channels="salaries", notes="on")
    assert token not in cast.clients["insider"].get(cast.path("keys/")).content.decode()
    key = ApiKey.objects.get()
    assert (key.user, key.scopes) == (cast.users["insider"], ["notes", "read"])
    answer = cast.clients["nobody"].get(
        "/api/v1/channels", headers={"Authorization": f"Bearer {token}"}
    )
    assert [channel["name"] for channel in answer.json()["items"]] == ["salaries"]


def test_the_page_shows_the_keys_and_where_to_use_them(cast: Cast) -> None:
    make(cast, "member")
    page = cast.clients["member"].get(cast.path("keys/")).content.decode()
    assert '<code id="mcp-url">http://testserver/mcp</code>' in page
    assert "reads as" not in page, "it is the reader's own"
    page = cast.clients["insider"].get(cast.path("keys/")).content.decode()
    assert "reads as member" in page


def test_a_form_offers_only_what_the_role_allows(cast: Cast) -> None:
    offers = {
        who: [
            name in cast.clients[who].get(cast.path("keys/")).context["form"].fields
            for name in ("notes", "propose")
        ]
        for who in ("guest", "member", "editor")
    }
    assert cast.clients["member"].post(cast.path("keys/")).status_code == 422
    assert offers == {"guest": [False] * 2, "member": [False, True], "editor": [True] * 2}


def test_revoked_it_opens_nothing(cast: Cast) -> None:
    token = make(cast, "member")
    path = cast.path(f"keys/{ApiKey.objects.get().pk}/revoke/")
    assert cast.clients["member"].post(path).status_code == 302
    headers = {"Authorization": f"Bearer {token}"}
    assert cast.clients["nobody"].get("/api/v1/status", headers=headers).status_code == 401
    assert "revoked" in cast.clients["member"].get(cast.path("keys/")).content.decode()


@pytest.mark.parametrize(
    ("who", "status"), [("member", 302), ("insider", 302), ("editor", 404), ("outsider", 404)]
)
def test_members_revoke_their_own_keys_and_admins_all(cast: Cast, who: str, status: int) -> None:
    make(cast, "member")
    path = cast.path(f"keys/{ApiKey.objects.get().pk}/revoke/")
    assert cast.clients[who].post(path).status_code == status


def test_an_admin_sees_no_private_name_by_a_key(cast: Cast) -> None:
    cast.private.memberships.all().delete()
    key, _token = ApiKey.objects.issue(
        cast.workspace, name="x", by=None, user=cast.users["member"], channels=[cast.private]
    )
    page = cast.clients["insider"].get(cast.path("keys/")).content.decode()
    assert str(key.lookup) in page and "salaries" not in page


def test_operators_make_keys_for_public_channels(cast: Cast) -> None:
    make(cast, "operator", is_public="on", requests_per_minute="60", propose="on")
    key = ApiKey.objects.get()
    assert (key.user, key.created_by) == (None, cast.users["operator"])
    assert (key.requests_per_minute, key.scopes) == (60, ["propose", "read"])
    assert key.expires_at is not None and key.reader(key.created_at).is_public


def test_others_make_no_keys_for_public_channels(cast: Cast) -> None:
    make(cast, "member", is_public="on", requests_per_minute="60")
    key = ApiKey.objects.get()
    assert (key.user, key.requests_per_minute) == (cast.users["member"], 120)


@pytest.mark.parametrize(
    ("who", "given", "words"),
    [
        ("member", {"name": ""}, "required"),
        ("member", {"days": "5"}, "valid choice"),
        ("member", {"channels": "salaries"}, "No channel salaries"),
    ],
)
def test_invalid_input_is_explained(
    cast: Cast, who: str, given: dict[str, str], words: str
) -> None:
    page = cast.clients[who].post(cast.path("keys/"), NEW | given)
    assert page.status_code == 422 and words in page.content.decode()
    assert not ApiKey.objects.exists()


def test_a_member_cannot_make_a_key_that_writes(cast: Cast) -> None:
    assert make(cast, "member", notes="on").startswith("mhr_")


def test_connected_apps_are_listed_and_revoked_like_keys(cast: Cast, settings: Any) -> None:
    settings.MEMORYHUB_OAUTH, settings.MEMORYHUB_URL = True, "http://testserver"
    cache.clear()  # the limit of registrations
    app = App.register()
    tokens = app.connect(cast.clients["member"], {"channels": "launch", "propose": "on"})
    key = ApiKey.objects.get()
    page = cast.clients["member"].get(cast.path("keys/")).content.decode()
    apps = page[page.index("Connected apps") :]
    assert "Claude" in apps and "http://127.0.0.1:7777" in apps
    assert "#launch" in apps and "can propose corrections" in apps and key.lookup not in page
    assert "Claude" not in cast.clients["editor"].get(cast.path("keys/")).content.decode()
    page = cast.clients["insider"].get(cast.path("keys/")).content.decode()
    assert "reads as member" in page[page.index("Claude") :]
    path = cast.path(f"keys/{key.pk}/revoke/")
    assert cast.clients["editor"].post(path).status_code == 404
    assert cast.clients["member"].post(path).status_code == 302
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert cast.clients["nobody"].get("/api/v1/status", headers=headers).status_code == 401
    assert app.refresh(tokens["refresh_token"]).status_code == 400
