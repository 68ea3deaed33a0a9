"""The frame of every page: help, navigation and error pages."""

import re

import pytest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver
from django.utils import timezone, translation

from memories.models import ChannelPreference, Seen
from memories.views.access import access
from tests.factories import ChannelFactory, MemberFactory, make_channel_memory
from tests.views.conftest import Cast

HELP = '<a href="/help/">'


def column(cast: Cast, path: str, name: str = "member") -> str:
    """Return the navigation beside the page."""
    return cast.clients[name].get(path).content.decode().partition("<main")[0]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["catch-up/", "jobs/", "c/C0PUBLIC/", "/settings/", "/factors/"])
def test_help_is_between_the_theme_and_the_name(cast: Cast, path: str) -> None:
    beside = column(cast, path if path.startswith("/") else cast.path(path))
    assert beside.count(HELP) == 1
    assert beside.index('name="theme"') < beside.index(HELP) < beside.index('class="who"')


def test_help_is_open_to_everybody(cast: Cast) -> None:
    for client in cast.clients.values():
        page = client.get("/help/").content.decode()
        assert "Short-term memory" in page and "#salaries" not in page.partition("<main")[2]
    assert HELP in cast.clients["nobody"].get("/login/").content.decode()


def test_the_order_of_the_column(cast: Cast) -> None:
    beside = column(cast, cast.path("catch-up/"), "insider")
    at = [
        beside.index(f'href="{cast.path(path)}"')
        for path in ("catch-up/", "search/", "notes/", "", "c/C0PUBLIC/", "jobs/", "jobs/cost/")
    ]
    at += [
        beside.index(arguments) for arguments in (cast.path("settings/"), 'name="language"', HELP)
    ]
    assert at == sorted(at)


@pytest.mark.parametrize("path", ["/settings/", "/help/"])
def test_other_pages_have_the_navigation_of_the_only_workspace(cast: Cast, path: str) -> None:
    assert f'href="{cast.path("catch-up/")}"' in column(cast, path)
    MemberFactory(user=cast.users["member"])
    assert '<a href="/"><svg' in column(cast, path), "of two neither is meant"


def test_second_factor_pages_link_back(cast: Cast) -> None:
    assert '<a href="/"><svg' in column(cast, "/factors/")


@pytest.mark.parametrize(
    ("name", "path", "status"), [("member", "settings/", 403), ("outsider", "catch-up/", 404)]
)
def test_error_pages_keep_language_and_theme(cast: Cast, name: str, path: str, status: int) -> None:
    cast.users[name].save_preferences(language="ja", theme="dark")
    response = cast.clients[name].get(cast.path(path))
    page = response.content.decode()
    assert response.status_code == status
    assert '<html lang="ja" data-theme="dark">' in page
    assert 'name="language"' in page and 'name="theme"' in page and HELP in page


def test_the_page_of_status_500_does_too(rf: RequestFactory) -> None:
    request = rf.get("/w/team/jobs/")
    request.theme = "dark"  # type: ignore[attr-defined]
    handler = get_resolver().resolve_error_handler(500)
    with translation.override("ja"):
        response = handler(request)
    page = response.content.decode()
    assert response.status_code == 500
    assert '<html lang="ja" data-theme="dark">' in page and 'name="theme"' in page
    assert re.search(r'name="csrfmiddlewaretoken" value="\w{64}"', page)


@pytest.mark.parametrize(
    ("method", "path", "is_compressed"),
    [("get", "catch-up/", True), ("get", "search/?q=Acme", False), ("post", "search/", False)],
)
def test_pages_that_may_repeat_input_are_not_compressed(
    cast: Cast, method: str, path: str, is_compressed: bool
) -> None:
    client = cast.clients["member"]
    answer = getattr(client, method)(cast.path(path), headers={"accept-encoding": "gzip"})
    assert (answer.headers.get("content-encoding") == "gzip") is is_compressed


def test_pages_without_navigation_have_the_keys_too(cast: Cast) -> None:
    page = cast.clients["member"].get(cast.path("settings/")).content.decode()
    assert 'popovertarget="keys"' in page and page.count('id="keys"') == 1


def shown(cast: Cast) -> list[str]:
    """The channels in the navigation of the member."""
    return re.findall(r'<a href="/w/team/c/(\w+)/"', column(cast, cast.path("jobs/")))


@pytest.mark.slow
def test_the_navigation_lists_followed_channels_or_those_that_changed_last(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "NAV_RECENT", 2)
    channels = ChannelFactory.create_batch(4, workspace=cast.workspace)
    for channel in channels:
        make_channel_memory(channel=channel)
    assert sorted(shown(cast)) == sorted(channel.slack_id for channel in channels[2:])
    assert f'href="{cast.path()}#channels-title"' in column(cast, cast.path("jobs/"))
    path = cast.path(f"c/{channels[0].slack_id}/follow/")
    cast.clients["member"].post(path, {"choice": "follow"})
    assert shown(cast) == [channels[0].slack_id]
    cast.clients["member"].post(path, {"choice": "mute"})
    assert channels[0].slack_id not in shown(cast)


def test_changes_of_unlisted_channels_are_counted_unless_muted(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "NAV_RECENT", 2)
    channels = ChannelFactory.create_batch(4, workspace=cast.workspace)
    for channel in channels:
        make_channel_memory(channel=channel)
    counts = re.compile(r'id="nav-unseen">(\d*)')
    assert counts.findall(column(cast, cast.path("jobs/"))) == ["5"]
    Seen.objects.of(cast.users["member"], channels[0].memories.get()).mark(1, timezone.now())
    assert counts.findall(column(cast, cast.path("jobs/"))) == ["4"]
    mute = cast.path(f"c/{channels[1].slack_id}/follow/")
    cast.clients["member"].post(mute, {"choice": "mute"})
    assert counts.findall(column(cast, cast.path("jobs/"))) == ["3"]


@pytest.mark.parametrize(
    ("name", "path", "is_open"),
    [("member", "catch-up/", False), ("member", "jobs/", True), ("insider", "people/", True)],
)
def test_the_area_for_managing_is_open_on_its_own_pages(
    cast: Cast, name: str, path: str, is_open: bool
) -> None:
    assert ('<details class="nav-fold" open>' in column(cast, cast.path(path), name)) is is_open


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_the_queries_of_the_frame_do_not_grow_with_channels(cast: Cast) -> None:
    """A page without rows of its own, with 5 and with 65 channels, all of them followed."""

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert cast.clients["member"].get("/help/").status_code == 200
        return len(captured)

    def add(n: int) -> None:
        for channel in ChannelFactory.create_batch(n, workspace=cast.workspace):
            make_channel_memory(channel=channel)
            ChannelPreference.objects.choose(cast.users["member"], channel, "follow")

    add(5)
    before = queries()
    add(60)
    assert queries() == before
    assert len(shown(cast)) == access.NAV_FOLLOWED
