"""The page of the fake Slack with a hub: Slackbot, and digests at once."""

from datetime import UTC

import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.models import Line, SlackDigest
from memories.rules.ingest.timestamps import to_micros
from tests.slack.demo_slack import send_digests
from tests.slack.fake_page import act, render_page
from tests.slack_app.conftest import OPEN, ShareTransaction, Team

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture
def team(team: Team, httpserver: HTTPServer, share_transaction: ShareTransaction) -> Team:
    """Pass what the page sends to the hub of the test."""

    def pass_on(request: Request) -> Response:
        kind, headers = request.headers["Content-Type"], dict(request.headers)
        with share_transaction():
            answer = team.client.post(request.path, request.data, kind, headers=headers)
        return Response(answer.content, answer.status_code)

    httpserver.expect_request("/mcp").respond_with_handler(pass_on)
    team.slack.hub_url = httpserver.url_for("").rstrip("/")
    team.cast.workspace.change_settings({"slack_mcp": True, "slack_digests": True})
    return team


def do(team: Team, name: str, **form: str) -> str:
    """Send a form of the page; return the page after it."""
    user = team.id_of(name)
    act(team.slack, {"user": user, "channel": OPEN, **form})
    return render_page(team.slack, user, OPEN)


def test_slackbot_answers_with_the_rights_of_the_person(team: Team) -> None:
    for name, may_read in (("tom", True), ("mika", False)):
        page = do(team, name, do="slackbot", text="Who earns a lot?")
        assert ("om earns a lot" in page) is may_read
        assert "As of " in page and "Question to Slackbot" in page
    team.cast.workspace.change_settings({"slack_mcp": False})
    assert "This is switched off here." in do(team, "tom", do="slackbot", text="Who earns?")


def test_digests_are_sent_at_once_and_again(team: Team) -> None:
    assert "Send digests now" not in render_page(team.slack, team.id_of("mika"), OPEN)
    team.slack.send_digests = send_digests
    Line.objects.update(at_us=to_micros(timezone.now()))
    assert "Digests sent: 0." in do(team, "mika", do="digests")
    SlackDigest.objects.choose(team.people["mika"], "daily", timezone.now(), UTC)
    for count in (1, 2):
        page = do(team, "mika", do="digests")
        assert "Digests sent: 1." in page and "We launch on Monday" in page
        shown = [answer.text for answer in team.slack.shown_to(team.id_of("mika"))]
        assert sum("Open Catch up" in text for text in shown) == count
