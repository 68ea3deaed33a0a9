"""Channels that a reader follows or mutes."""

import re

import pytest

from memories.models import Channel, ChannelPreference
from tests.factories import ChannelFactory, make_channel_memory
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow


@pytest.fixture
def talk(cast: Cast) -> list[Channel]:
    """Four more channels with news, oldest first."""
    channels = ChannelFactory.create_batch(4, workspace=cast.workspace)
    for channel in channels:
        make_channel_memory(channel=channel)
    return channels


def choose(cast: Cast, channel: Channel, choice: str, name: str = "member", **data: str) -> int:
    path = cast.path(f"c/{channel.slack_id}/follow/")
    return cast.clients[name].post(path, {"choice": choice, **data}).status_code


def listed(cast: Cast, name: str = "member") -> list[str]:
    """The titles of the entries of Catch up."""
    page = cast.clients[name].get(cast.path("catch-up/")).content.decode()
    return re.findall(r'<h2 id="entry-\d+-title">#([\w-]+)', page)


def test_followed_channels_come_first_and_muted_channels_are_hidden(
    cast: Cast, talk: list[Channel]
) -> None:
    assert len(listed(cast)) == 5
    assert choose(cast, talk[2], "follow") == choose(cast, talk[3], "mute") == 302
    names = listed(cast)
    assert names[0] == talk[2].name and talk[3].name not in names and len(names) == 4
    assert len(listed(cast, "editor")) == 5, "it is the reader's own choice"
    choose(cast, talk[3], "")
    assert talk[3].name in listed(cast)


def test_a_jump_list_opens_the_entries(cast: Cast, talk: list[Channel]) -> None:
    page = cast.clients["member"].get(cast.path("catch-up/")).content.decode()
    targets = re.findall(r'<a href="#(news-\d+)">', page)
    assert len(targets) == 5
    for target in targets:
        assert f'id="{target}"' in page


@pytest.mark.nightly("quicker tests run the same lines")
def test_followed_channels_are_on_the_first_page(
    cast: Cast, talk: list[Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memories.views.memory.catch_up.PAGE_SIZE", 2)
    choose(cast, talk[0], "follow")
    assert listed(cast)[0] == talk[0].name
    page = cast.clients["member"].get(cast.path("catch-up/")).content.decode()
    [more] = re.findall(r'<a class="button" href="([^"]+cursor=[^"]+)"', page)
    following = cast.clients["member"].get(more.replace("&amp;", "&")).content.decode()
    names = re.findall(r'<h2 id="entry-\d+-title">#([\w-]+)', following)
    assert len(names) == 2 and not set(names) & set(listed(cast))


@pytest.mark.nightly("quicker tests run the same lines")
def test_the_buttons_are_on_the_channel_and_the_list_shows_the_choice(cast: Cast) -> None:
    choose(cast, cast.public, "follow")
    page = cast.clients["member"].get(cast.path("c/C0PUBLIC/")).content.decode()
    assert "Unfollow channel" in page and "Mute channel" in page
    for choice, badge in (("follow", "following"), ("mute", "muted")):
        choose(cast, cast.public, choice)
        page = cast.clients["member"].get(cast.path()).content.decode()
        assert f'<span class="badge">{badge}</span>' in page and "Mute channel" not in page


@pytest.mark.parametrize(
    ("name", "slack_id", "choice", "status"),
    [
        ("member", "C0PUBLIC", "star", 404),
        ("member", "C0PRIVATE", "follow", 404),
        ("outsider", "C0PUBLIC", "follow", 404),
        ("nobody", "C0PUBLIC", "follow", 302),
    ],
)
def test_readers_without_access_cannot_follow(
    cast: Cast, name: str, slack_id: str, choice: str, status: int
) -> None:
    path = cast.path(f"c/{slack_id}/follow/")
    assert cast.clients[name].post(path, {"choice": choice}).status_code == status
    assert not ChannelPreference.objects.exists()


def test_it_returns_to_the_page_of_the_button(cast: Cast) -> None:
    path = cast.path("c/C0PUBLIC/follow/")
    for given, target in (
        (cast.path(), cast.path()),
        ("https://x.example/", cast.path("c/C0PUBLIC/")),
    ):
        response = cast.clients["member"].post(path, {"choice": "mute", "next": given})
        assert response["Location"] == target
