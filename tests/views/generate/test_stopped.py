"""The banner of an ended connection to Slack, for each role."""

from datetime import timedelta

import pytest
from django.utils import timezone

from memories.models import Channel, SlackConnection, Workspace
from tests.factories import WorkspaceFactory
from tests.views.conftest import Cast
from tests.views.test_banner import ADMINS, MEMBERS, banner

WORDS = {"uninstalled": "was removed from Slack", "revoked": "revoked the token"}


def stop(cast: Cast, state: str) -> SlackConnection:
    connection = SlackConnection.objects.of(cast.workspace)
    connection.set_token("xoxb-1-abcd", by=None)
    connection.stop(state, "Slack says so.", timezone.now())
    return connection


@pytest.mark.slow
@pytest.mark.parametrize(
    "state", ["uninstalled", pytest.param("revoked", marks=pytest.mark.nightly("another word"))]
)
def test_members_see_the_banner_and_guests_do_not(cast: Cast, state: str) -> None:
    stop(cast, state)
    for name in MEMBERS:
        for path in (cast.path(), cast.path("c/C0PUBLIC/"), f"/m/{cast.memory.pk}/versions/"):
            text = banner(cast.clients[name], path)
            assert WORDS[state] in text
            assert (
                "New messages are not read" in text and "Messages that were read are kept" in text
            )
            assert (f'href="{cast.path("slack/")}"' in text) is (name in ADMINS)
            assert "abcd" not in text
    assert banner(cast.clients["guest"], cast.path("c/C0PUBLIC/")) == ""


def test_a_working_connection_has_no_banner(cast: Cast) -> None:
    assert banner(cast.clients["member"], cast.path()) == ""
    connection = stop(cast, "revoked")
    connection.set_token("xoxb-2-efgh", by=None)
    assert banner(cast.clients["member"], cast.path()) == ""


def test_another_workspaces_connection_has_no_banner(cast: Cast) -> None:
    connection = SlackConnection.objects.of(WorkspaceFactory())
    connection.stop("revoked", "Slack says so.", timezone.now())
    assert banner(cast.clients["member"], cast.path()) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        "uninstalled",
        pytest.param("not asked for a day", marks=pytest.mark.nightly("another cause")),
        pytest.param("revoked", marks=pytest.mark.nightly("another word")),
    ],
)
def test_a_workspace_without_a_recent_sync_is_hidden(cast: Cast, way: str) -> None:
    now = timezone.now()
    Workspace.objects.update(connected_at=now, listed_at=now)
    Channel.objects.update(members_known_at=now)
    assert banner(cast.clients["member"], cast.path()) == ""
    if way in WORDS:
        stop(cast, way)
    else:
        Workspace.objects.update(listed_at=now - timedelta(hours=25))
    for name in (*MEMBERS, "guest"):
        text = banner(cast.clients[name], cast.path())
        assert "hidden until Slack confirms it" in text
        assert "Messages that were read are kept" not in text
        assert (WORDS.get(way, "Check the connection") in text) is (
            name in ADMINS if way not in WORDS else name != "guest"
        )
        page = cast.clients[name].get(cast.path()).content.decode()
        assert "All channels are hidden" in page and "launch" not in page
        assert (f'href="{cast.path("slack/")}"' in text) is (name in ADMINS)
        for path in (cast.path("c/C0PUBLIC/"), f"/m/{cast.memory.pk}/versions/"):
            assert cast.clients[name].get(path).status_code == 404
    assert cast.clients["insider"].get(cast.path("slack/")).status_code == 200
    Workspace.objects.update(listed_at=now)
    SlackConnection.objects.all().delete()
    assert cast.clients["member"].get(cast.path("c/C0PUBLIC/")).status_code == 200
