"""Marks on the page Catch up."""

import re

import pytest
from django.test import Client

from memories.models import (
    Seen,
)
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_version,
)
from tests.views.conftest import Cast
from tests.views.memory.test_catch_up import entry, mark, page


@pytest.mark.slow
def test_marking_without_javascript(cast: Cast) -> None:
    response = mark(cast, cast.memory, 2)
    path = f"/w/team/catch-up/?marked={cast.memory.pk}"
    assert (response.status_code, response["Location"]) == (
        302,
        f"{path}#entry-{cast.memory.pk}",
    )
    text = cast.clients["member"].get(path).content.decode()
    html = entry(text, cast.memory)
    assert "seen up to v2" in html and 'name="undo"' in html
    assert "We launch" not in html
    assert "#launch is marked as seen up to v2." in text
    assert not entry(page(cast), cast.memory), "asked again it is over"
    assert "Nothing new since" in page(cast)


@pytest.mark.slow
def test_undoing_without_javascript(cast: Cast) -> None:
    mark(cast, cast.memory, 1)
    mark(cast, cast.memory, 2)
    response = mark(cast, cast.memory, 2, undo=1)
    text = cast.clients["member"].get(response["Location"].partition("#")[0]).content.decode()
    assert "#launch is marked as not seen." in text
    assert "v1 to v2" in entry(text, cast.memory)
    mark(cast, cast.memory, 2, undo=1)
    assert "There is no seen mark to undo." in page(cast)


def test_marking_keeps_the_position_in_the_list(cast: Cast) -> None:
    response = mark(cast, cast.memory, 2, since="7d", cursor="0-5-7-9")
    assert (
        f"/w/team/catch-up/?since=7d&cursor=0-5-7-9&marked={cast.memory.pk}#"
        in response["Location"]
    )
    response = mark(cast, cast.memory, 2, since="//evil.example", cursor="x")
    assert response["Location"].startswith("/w/team/catch-up/?marked=")


def test_marking_with_htmx_folds_the_entry_and_updates_counts(cast: Cast) -> None:
    text = mark(cast, cast.memory, 2, "insider", htmx=True).content.decode()
    assert "<html" not in text
    html = entry(text, cast.memory)
    assert "seen up to v2" in html and "autofocus" in html
    assert text.count('name="undo"') == 2, "in the entry and in the toast"
    assert re.search(r'id="nav-unseen" hx-swap-oob="true">1<', text)
    assert f'id="nav-channel-{cast.public.pk}" hx-swap-oob="true"' in text
    again = mark(cast, cast.memory, 2, "insider", htmx=True, undo=1).content.decode()
    assert "Mark as seen" in entry(again, cast.memory) and "autofocus" in entry(again, cast.memory)
    assert re.search(r'id="nav-unseen" hx-swap-oob="true">2<', again)


def test_only_the_version_on_screen_is_marked(cast: Cast) -> None:
    text = mark(cast, cast.memory, 1, htmx=True).content.decode()
    assert "v1 to v2" in entry(text, cast.memory)


@pytest.mark.parametrize("number", ["", "0", "3", "x", "-1", "9" * 30])
def test_an_unknown_version_is_not_marked(cast: Cast, number: str) -> None:
    path = cast.path(f"seen/{cast.memory.pk}/")
    assert cast.clients["member"].post(path, {"number": number}).status_code == 404
    assert not Seen.objects.exists()


def test_only_a_post_marks(cast: Cast) -> None:
    path = cast.path(f"seen/{cast.memory.pk}/")
    assert cast.clients["member"].get(path).status_code == 405
    assert cast.clients["nobody"].post(path, {"number": 2})["Location"].startswith("/login/")
    assert cast.clients["outsider"].post(path, {"number": 2}).status_code == 404
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(cast.users["member"])
    assert strict.post(path, {"number": 2}).status_code == 403
    assert not Seen.objects.exists()


@pytest.mark.slow
def test_marks_of_other_accounts_and_workspaces_do_not_count(cast: Cast) -> None:
    second = WorkspaceFactory(slug="other")
    MemberFactory(workspace=second, user=cast.users["member"])
    memory = make_channel_memory(channel=ChannelFactory(workspace=second))
    path = f"/w/team/seen/{memory.pk}/"
    assert cast.clients["member"].post(path, {"number": 1}).status_code == 404
    mark(cast, cast.memory, 2, "editor")
    assert entry(page(cast), cast.memory) and not entry(page(cast, "editor"), cast.memory)


@pytest.mark.slow
def test_private_channels_are_for_their_members(cast: Cast) -> None:
    assert "Tom earns a lot" in entry(page(cast, "insider"), cast.private_memory)
    for name in ("member", "editor", "guest", "operator"):
        text = page(cast, name)
        assert "Tom earns" not in text and "salaries" not in text
        assert not entry(text, cast.private_memory)
        assert mark(cast, cast.private_memory, 1, name).status_code == 404
    assert not Seen.objects.exists()


@pytest.mark.slow
def test_a_mark_gives_no_access_to_a_removed_member(cast: Cast) -> None:
    mark(cast, cast.private_memory, 1, "insider")
    make_version(memory=cast.private_memory, text="- Tom earns more")
    assert "<ins>more</ins>" in page(cast, "insider")
    cast.private.memberships.all().delete()
    for query in ("", f"?marked={cast.private_memory.pk}", "?since=7d"):
        text = page(cast, "insider", query)
        assert "Tom earns" not in text and "salaries" not in text
    assert mark(cast, cast.private_memory, 1, "insider", undo=1).status_code == 404
    assert Seen.objects.get().number == 1
