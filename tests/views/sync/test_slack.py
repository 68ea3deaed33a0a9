"""The page of the connection to Slack: the check, and the followed channels."""

import re

import pytest
from django.db import connection as database
from django.test.utils import CaptureQueriesContext

from memories.models import AuditEvent, Channel, Message, Workspace
from tests.factories import ChannelFactory, store_token
from tests.slack.fake_slack import TOKEN, FakeSlack
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow

CSRF_TOKENS = r"[A-Za-z0-9]{64}"  # they differ on each page
HTMX = {"HX-Request": "true"}


def page(cast: Cast, name: str = "insider", path_end: str = "", **more: object) -> str:
    answer = cast.clients[name].get(cast.path(f"slack/{path_end}"), **more)
    assert answer.status_code == 200
    return answer.content.decode()


def followed() -> set[str]:
    return set(Channel.objects.filter(is_followed=True).values_list("slack_id", flat=True))


def test_only_admins_may_open_the_page(cast: Cast) -> None:
    expected = {"editor": 403, "member": 403, "guest": 403, "outsider": 404, "nobody": 302}
    for name, status in (expected | {"insider": 200, "operator": 200}).items():
        assert cast.clients[name].get(cast.path("slack/")).status_code == status
        link = f'href="{cast.path("slack/")}"'
        if name in ("insider", "operator", "editor", "member"):
            shown = cast.clients[name].get(cast.path()).content.decode()
            assert (link in shown) == (status == 200), name
    for name, status in expected.items():
        for path in ("slack/", "slack/test/"):
            data = {"channel": "C0PUBLIC"}
            assert cast.clients[name].post(cast.path(path), data).status_code == status
    assert followed() == set()
    assert cast.clients["insider"].get(cast.path("slack/test/")).status_code == 405


def test_no_channel_is_selected_at_first_and_private_ones_are_marked(cast: Cast) -> None:
    ChannelFactory(workspace=cast.workspace, name="partners", is_shared=True, bot_is_in=True)
    shown = page(cast)
    assert "checked" not in shown and 'name="was"' not in shown
    assert shown.count('class="badge">private<') == 1
    assert shown.count('class="badge">shared with others<') == 1
    assert "without the bot" not in shown, "nothing is connected"
    assert "private channels are turned off in the settings" in shown
    cast.workspace.change_settings({"read_private_channels": True})
    assert "private channels are turned off" not in page(cast)
    store_token(cast.workspace)
    assert page(cast).count("without the bot") == 2


def test_a_private_channel_is_shown_only_to_its_members(cast: Cast) -> None:
    assert "salaries" in page(cast)
    for path in ("", "?q=salar", "?q=C0PRIVATE"):
        shown = page(cast, "operator", path)
        assert "salaries" not in shown
        ChannelFactory(workspace=cast.workspace, kind="private")
        again = page(cast, "operator", path)
        assert re.sub(CSRF_TOKENS, "", shown) == re.sub(CSRF_TOKENS, "", again), (
            "their number is hidden too"
        )
    answer = cast.clients["operator"].post(cast.path("slack/"), {"channel": "C0PRIVATE"})
    assert answer.status_code == 302
    assert followed() == set()


def test_followed_channels_are_saved_and_recorded(cast: Cast) -> None:
    client = cast.clients["insider"]
    answer = client.post(cast.path("slack/"), {"channel": ["C0PUBLIC", "C0PRIVATE"]}, follow=True)
    assert "2 channels are now read." in answer.content.decode()
    assert followed() == {"C0PUBLIC", "C0PRIVATE"}
    assert answer.content.decode().count(" checked") == 2
    data = {"was": ["C0PUBLIC", "C0PRIVATE"], "channel": ["C0PUBLIC"], "q": "l a"}
    answer = client.post(cast.path("slack/"), data, follow=True)
    assert "1 channel is no longer read" in answer.content.decode()
    assert answer.redirect_chain[0][0].startswith(cast.path("slack/?q=l+a"))
    assert followed() == {"C0PUBLIC"}
    rows = AuditEvent.objects.filter(action__startswith="channel_").order_by("pk")
    assert [(event.action, event.actor) for event in rows] == [
        ("channel_follow", "insider"),
        ("channel_follow", "insider"),
        ("channel_unfollow", "insider"),
    ]
    assert "salaries" not in str(list(rows.values()))


def test_many_channels_have_pages_and_a_search(cast: Cast) -> None:
    for n in range(230):
        ChannelFactory(workspace=cast.workspace, slack_id=f"CX{n}", name=f"team-{n:03}")
    first, last = page(cast), page(cast, path_end="?page=3")
    assert "Page 1 of 3" in " ".join(first.split()) and first.count('name="channel"') == 100
    assert last.count('name="channel"') == 32 and "page=2" in last
    matches = page(cast, path_end="?q=%23team-22")
    assert matches.count('name="channel"') == 10
    part = page(cast, path_end="?q=team-22", headers=HTMX)
    assert part.lstrip().startswith("<section") and part.count('name="channel"') == 10
    none = page(cast, path_end="?q=nowhere")
    assert "No channel contains" in none and "All channels</a>" in none
    data = {"q": "team-22", "channel": ["CX220"]}
    cast.clients["insider"].post(cast.path("slack/"), data)
    cast.clients["insider"].post(cast.path("slack/"), {"page": "2", "channel": ["CX150"]})
    assert followed() == {"CX220", "CX150"}


def test_queries_do_not_grow_with_channels(cast: Cast) -> None:
    def queries() -> int:
        with CaptureQueriesContext(database) as caught:
            page(cast)
        return len(caught)

    store_token(cast.workspace)
    before = queries()
    for n in range(40):
        ChannelFactory(workspace=cast.workspace, slack_id=f"CX{n}")
    assert queries() == before


def test_an_empty_workspace_shows_the_next_step(cast: Cast, db: None) -> None:
    Channel.objects.all().delete()
    shown = page(cast, "operator")
    assert "No channels yet." in shown and "Not connected" in shown
    assert "after you set a token" in shown and "Test the connection" not in shown
    assert "No token is set." in shown and 'role="search"' not in shown
    assert "slack/test/" not in shown and "First steps</a>" in shown
    assert "First steps</a>" not in page(cast, "insider").split('id="channels"')[1]


class TestTest:
    def test_a_successful_check_is_shown(self, cast: Cast, bare_slack: FakeSlack) -> None:
        store_token(cast.workspace)
        assert "Not tested yet" in page(cast)
        answer = cast.clients["insider"].post(cast.path("slack/test/"), follow=True)
        assert "The connection works. All required data can be read." in answer.content.decode()
        shown = page(cast)
        assert ">Connected<" in shown and f"…{TOKEN[-4:]}" in shown and TOKEN not in shown
        assert "channels:history" in shown
        assert bare_slack.counts() == {"auth.test": 1}, "pages make no call"

    def test_a_missing_scope_is_shown_with_its_remedy(
        self, cast: Cast, bare_slack: FakeSlack
    ) -> None:
        store_token(cast.workspace)
        bare_slack.scopes.discard("channels:history")
        answer = cast.clients["insider"].post(cast.path("slack/test/"), headers=HTMX)
        part = answer.content.decode()
        assert part.lstrip().startswith("<section") and 'id="toast" hx-swap-oob' in part
        assert "<code>channels:history</code>" in part and "install it again" in part
        assert "messages and threads of public channels" in part
        assert "channels:history</code>" in page(cast), "it is stored"
        cast.workspace.change_settings({"read_emails": True})
        assert "users:read.email</code>" in page(cast), "for the current settings"

    def test_a_rejected_token_is_shown(self, cast: Cast, bare_slack: FakeSlack) -> None:
        store_token(cast.workspace)
        bare_slack.token_error = "token_revoked"
        answer = cast.clients["insider"].post(cast.path("slack/test/"), follow=True)
        assert answer.content.decode().count("The token was revoked") == 2

    def test_after_a_successful_check_the_first_sync_starts(
        self,
        cast: Cast,
        bare_slack: FakeSlack,
        tasks_at_once: None,
        django_capture_on_commit_callbacks: object,
    ) -> None:
        store_token(cast.workspace)
        for person in cast.workspace.people.all():  # unlisted people read nothing
            bare_slack.add_user(person.slack_id, person.name)
        bare_slack.add_channel("CNEW", "brand-new", members=[cast.author.slack_id])
        bare_slack.say("CNEW", cast.author.slack_id, "not to be read", "1700000000.000100")
        client, path = cast.clients["insider"], cast.path("slack/test/")
        assert "Start" in client.post(path, headers=HTMX).content.decode()
        with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
            client.post(path, {"begin": "1"})
        workspace = Workspace.objects.get(pk=cast.workspace.pk)
        assert workspace.connected_at and "Begin" not in page(cast)
        assert "brand-new" in page(cast)
        assert not Message.objects.filter(channel__slack_id="CNEW").exists(), "it is not followed"

    def test_after_a_failed_check_no_sync_starts(self, cast: Cast, bare_slack: FakeSlack) -> None:
        store_token(cast.workspace)
        bare_slack.scopes.discard("users:read")
        cast.clients["insider"].post(cast.path("slack/test/"), {"begin": "1"})
        assert Workspace.objects.get(pk=cast.workspace.pk).connected_at is None
