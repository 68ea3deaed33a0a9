"""Preferences of reading: stored with the account, or in a cookie for anonymous visitors."""

import pytest
from django.test import Client

from memories.models import User
from tests.views.conftest import Cast

CHOSEN = {"language": "ja", "time_zone": "Asia/Tokyo", "theme": "dark", "density": "compact"}


def fresh(cast: Cast, name: str) -> Client:
    """Another browser of the same person."""
    client = Client()
    client.force_login(cast.users[name])
    return client


@pytest.mark.slow
def test_preferences_apply_in_every_browser(cast: Cast) -> None:
    client = cast.clients["member"]
    before = client.get("/settings/").content.decode()
    assert '<html lang="en"' in before and "data-theme=" not in before.split("<head>")[0]
    assert client.post("/settings/", CHOSEN)["Location"] == "/settings/"
    for browser in (client, fresh(cast, "member")):
        page = browser.get(cast.path("c/C0PUBLIC/"))
        assert page["Content-Language"] == "ja"
        whole = '<html lang="ja" data-theme="dark" data-density="compact">'
        assert whole in page.content.decode()
        assert "2026年1月5日" in page.content.decode()
    assert '<html lang="en"' in cast.clients["editor"].get(cast.path()).content.decode()


@pytest.mark.slow
def test_times_are_shown_in_the_readers_zone(cast: Cast) -> None:
    cast.workspace.change_settings({"time_zone": "America/New_York"})
    cast.users["member"].save_preferences(time_zone="Asia/Tokyo")
    for name, time in (("member", "5 Jan 2026, 18:00"), ("editor", "5 Jan 2026, 04:00")):
        assert time in cast.clients[name].get(cast.path("c/C0PUBLIC/")).content.decode()


def test_days_of_messages_too(cast: Cast) -> None:
    path = cast.path("c/C0PUBLIC/messages/")
    assert 'data-day="2026-01-05"' in cast.clients["member"].get(path).content.decode()
    cast.users["member"].save_preferences(time_zone="Pacific/Pago_Pago")
    page = cast.clients["member"].get(path).content.decode()
    assert 'data-day="2026-01-04"' in page and 'data-day="2026-01-05"' not in page


def test_an_unknown_zone_is_ignored() -> None:
    assert User(time_zone="Mars/Base").zone is None
    assert User(time_zone="../etc").zone is None
    assert User().zone is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [{"time_zone": "Mars/Base"}, {"language": "tlh"}, {"theme": "pink"}, {"density": "airy"}],
    ids=str,
)
def test_invalid_choices_are_not_saved(cast: Cast, wrong: dict[str, str]) -> None:
    assert cast.clients["member"].post("/settings/", {**CHOSEN, **wrong}).status_code == 422
    user = User.objects.get(username="member")
    assert (user.language, user.time_zone, user.theme) == ("", "", "")


def test_the_buttons_below_keep_it_too(cast: Cast) -> None:
    client = cast.clients["member"]
    client.post("/theme/", {"theme": "light"})
    client.post("/i18n/setlang/", {"language": "ja"})
    user = User.objects.get(username="member")
    assert (user.theme, user.language) == ("light", "ja")
    client.post("/theme/", {"theme": ""})
    client.post("/i18n/setlang/", {"language": "xx"})
    user.refresh_from_db()
    assert (user.theme, user.language) == ("system", "ja")
    client.cookies["theme"] = "dark"  # an older choice of this browser
    assert "data-theme" not in client.get(cast.path()).content.decode().split("<head>")[0]


def test_without_an_account_it_is_a_cookie(cast: Cast) -> None:
    client = cast.clients["nobody"]
    client.post("/theme/", {"theme": "dark"})
    client.post("/i18n/setlang/", {"language": "ja"})
    assert '<html lang="ja" data-theme="dark">' in client.get("/login/").content.decode()
    assert not User.objects.exclude(theme="", language="").exists()


def test_a_user_changes_only_their_own_preferences(cast: Cast) -> None:
    assert cast.clients["nobody"].get("/settings/")["Location"].startswith("/login/")
    cast.clients["outsider"].post("/settings/", CHOSEN)
    assert User.objects.exclude(theme="").get().username == "outsider"
