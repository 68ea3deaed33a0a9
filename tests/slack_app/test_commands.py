"""/memory in a fake Slack: each answer, each refusal, and forged and repeated requests."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer

from memories.models import Member, Note, SlackEvent
from memories.pipeline.search import indexing
from memories.pipeline.slack_app import answering
from memories.pipeline.slack_app.answering import process_request
from memories.slack.responses import respond
from memories.slack.web import SlackError
from memories.slack_app.answers import answer_request
from memories.slack_app.commands import SHARE
from tests.factories import MemberFactory, MessageFactory
from tests.llm.endpoint import FakeEndpoint, use_model
from tests.slack.fake_app import signed_form
from tests.slack_app.conftest import OPEN, SECRET, Team

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

STATE = SlackEvent.State


def test_help_lists_the_commands(team: Team) -> None:
    for text in ("help", "", "ask", "note"):
        assert "/memory ask QUESTION" in team.say("mika", text).text
    assert "“sing a song” is no command." in team.say("mika", "sing a song").text


def test_ask_lists_the_texts_about_the_question_with_links(team: Team) -> None:
    shown = team.say("mika", "ask When do we launch?")
    assert "We launch on Monday" in shown.text
    assert f"/w/{team.cast.workspace.slug}/c/{OPEN}/" in shown.text
    assert shown.body["response_type"] == "ephemeral"


def test_ask_says_whether_the_model_does_not_know_or_does_not_answer(
    team: Team, settings: Any, httpserver: HTTPServer
) -> None:
    endpoint = FakeEndpoint(httpserver)
    use_model(settings, httpserver)
    endpoint.reply_with("We launch on Monday [1].", "We launch on Friday [1].", "")
    question = "ask When do we launch?"
    assert "• We launch on Monday [" in team.say("mika", question).text
    for reason in ("I don't know. These texts", "The model did not answer"):
        shown = team.say("mika", question).text
        assert reason in shown and "We launch on Monday" in shown and "Friday" not in shown


def test_ask_does_not_know_what_only_a_private_channel_says(
    team: Team, settings: Any, httpserver: HTTPServer
) -> None:
    endpoint = FakeEndpoint(httpserver)
    endpoint.reply_with("We launch on Monday [1].")
    question = "ask Which salary does Tom earn after the launch?"
    for model in (False, True):
        if model:
            use_model(settings, httpserver)
        shown = team.say("mika", question).text
        assert "I don't know. These texts are nearest" in shown and "We launch on Monday" in shown
    assert not endpoint.requests


@pytest.mark.parametrize(
    ("name", "answers"), [("tom", True), ("mika", False), ("ann", False), ("visitor", False)]
)
def test_an_answer_has_the_rights_of_the_caller(team: Team, name: str, answers: bool) -> None:
    for channel in (OPEN, SECRET):
        shown = team.say(name, "ask Who earns a lot?", channel)
        assert ("om earns a lot" in shown.text) is answers
        assert ("I don't know." in shown.text) is not answers


def test_a_person_without_an_account_reads_public_channels(team: Team) -> None:
    assert "We launch on Monday" in team.say("ann", "ask When do we launch?").text


def test_catch_up_lists_new_lines(team: Team) -> None:
    MessageFactory(channel=team.cast.public, at=timezone.now())
    assert "Nothing is new." in team.say("mika", "catch up").text
    shown = team.say("mika", "catch up 2026-01-01")
    assert "Since 1 Jan 2026" in shown.text
    assert "We launch on Monday" in shown.text and "#launch" in shown.text
    assert "earns" not in shown.text
    assert "“soon” is no period." in team.say("mika", "catch up soon").text


def test_an_editor_keeps_a_note_once(team: Team) -> None:
    user = team.people["mika"].user
    assert user is not None
    refused = team.say("mika", "note The stand is in hall 4")
    assert "Only editors write notes here." in refused.text
    assert not Note.objects.exists()
    MemberFactory(workspace=team.cast.workspace, user=user, role=Member.Role.EDITOR)
    for _ in range(2):
        assert "Note saved." in team.say("mika", "note The stand is in hall 4").text
    note = Note.objects.get()
    assert (note.content, note.channel, note.author) == (
        "The stand is in hall 4",
        team.cast.public,
        user,
    )


def find_citation(prompt: str, words: str) -> str:
    """Return the number of the first text in a prompt with these words, as a citation."""
    match = re.search(rf"^(\d+) \[.*{words}", prompt, re.MULTILINE)
    assert match is not None
    return f"[{match[1]}]"


class TestShare:
    def test_a_shared_answer_is_visible_in_the_channel(self, team: Team) -> None:
        team.cast.public.memberships.all().delete()  # the guest leaves
        shown = team.say("mika", "ask When do we launch?")
        team.press("mika", shown, SHARE)
        [post] = team.slack.posts(OPEN)
        assert "We launch on Monday" in str(post["blocks"])
        assert f"<@{team.id_of('mika')}>" in str(post["blocks"])

    def test_an_answer_is_shared_once(self, team: Team) -> None:
        team.cast.public.memberships.all().delete()  # the guest leaves
        shown = team.say("mika", "ask When do we launch?")
        for _ in range(2):
            team.press("mika", shown, SHARE)
        assert len(team.slack.posts(OPEN)) == 1
        assert "<!date^" in str(team.slack.posts(OPEN))
        assert "a moment ago" in str(team.slack.shown_to(team.id_of("mika"))[-1])

    def test_a_question_notifies_nobody(self, team: Team) -> None:
        team.cast.public.memberships.all().delete()  # the guest leaves
        shown = team.say("mika", "ask <!channel> When do we launch?")
        team.press("mika", shown, SHARE)
        [post] = team.slack.posts(OPEN)
        assert "<!channel>" not in str(post) and "&lt;!channel&gt;" in post["text"]

    def test_no_answer_from_a_private_channel_can_be_shared_elsewhere(self, team: Team) -> None:
        question = "ask Who earns a lot?"
        assert SHARE not in team.say("tom", question, OPEN).buttons()
        team.press("tom", team.say("tom", question, SECRET), SHARE)
        assert "om earns a lot" in str(team.slack.posts(SECRET))

    def test_a_sentence_is_shared_only_with_the_readers_of_all_texts_of_its_prompt(
        self, team: Team, settings: Any, httpserver: HTTPServer
    ) -> None:
        team.cast.public.memberships.all().delete()  # the guest leaves
        endpoint = FakeEndpoint(httpserver)
        use_model(settings, httpserver)
        sentence = "We launch on Monday, so he earns a lot"
        endpoint.reply_by(lambda prompt: f"{sentence} {find_citation(prompt, 'launch on Monday')}.")
        for channel, is_whole in ((OPEN, False), (SECRET, True)):
            shown = team.say("tom", "ask When do we launch, and who earns a lot?", channel)
            assert sentence in shown.text
            team.press("tom", shown, SHARE)
            [post] = team.slack.posts(channel)
            assert "We launch on Monday" in str(post["blocks"])
            assert ("he earns" in str(post["blocks"])) is is_whole

    def test_the_readers_are_checked_again(self, team: Team) -> None:
        shown = team.say("tom", "ask Who earns a lot?", SECRET)
        value = shown.buttons()[SHARE]
        team.send(team.slack.press(team.id_of("tom"), OPEN, SHARE, value))
        assert "The answer was not shared." in team.slack.shown_to(team.id_of("tom"))[-1].text
        team.send(team.slack.press(team.id_of("mika"), SECRET, SHARE, value))
        assert "The answer was not shared." in team.slack.shown_to(team.id_of("mika"))[-1].text
        assert not team.slack.posts(OPEN) and not team.slack.posts(SECRET)

    def test_a_guest_in_the_channel_reads_this_channel_only(self, team: Team) -> None:
        note = "The launch needs a permit"
        Note.objects.write(team.cast.workspace, note)
        indexing.index_pending()
        shown = team.say("mika", "ask Does the launch need a permit?")
        assert note in shown.text and SHARE not in shown.buttons()


class TestRetries:
    """Slack takes the answer, and its confirmation is lost."""

    @pytest.fixture(autouse=True)
    def lost_confirmation(self, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lose the first confirmation."""
        lost = iter([SlackError("unreachable", "", permanent=False)])

        def respond_in_vain(*args: Any) -> None:
            respond(*args)
            for error in lost:
                raise error

        monkeypatch.setattr(answering, "respond", respond_in_vain)

    def test_a_question_is_paid_once(
        self, team: Team, settings: Any, httpserver: HTTPServer
    ) -> None:
        endpoint = FakeEndpoint(httpserver)
        use_model(settings, httpserver)
        endpoint.reply_with("We launch on Monday [1].")
        team.send(team.slack.command(team.id_of("mika"), OPEN, "ask When do we launch?"))
        retry(team)
        first, second = team.slack.shown_to(team.id_of("mika"))
        assert "Slack did not confirm an earlier answer." in second.text
        assert "We launch on Monday" in second.text
        assert len(endpoint.requests) == 1

    def test_an_answer_is_posted_once(self, team: Team) -> None:
        value = json.dumps({"q": "", "keys": [f"message-{team.cast.messages[0].pk}"], "answer": []})
        team.send(team.slack.press(team.id_of("tom"), SECRET, SHARE, value))
        retry(team)
        assert len(team.slack.posts(SECRET)) == 1
        [shown] = team.slack.shown_to(team.id_of("tom"))
        assert "Slack did not confirm that the answer was posted." in shown.text


def retry(team: Team) -> None:
    """Run the task of the failed request again."""
    event = SlackEvent.objects.get(state=STATE.WAITING)
    assert process_request(event.pk, answer_request, timezone.now() + timedelta(minutes=1))
    event.refresh_from_db()
    assert event.state == STATE.DONE


class TestRequests:
    @pytest.mark.parametrize("wrong", ["secret", "time", "body", "unsigned"])
    def test_a_forged_request_is_refused(self, team: Team, wrong: str) -> None:
        command = team.slack.command(team.id_of("mika"), OPEN, "help")
        secret = {"secret": "another"} if wrong == "secret" else {}
        old = {"at": timezone.now().timestamp() - 301} if wrong == "time" else {}
        raw, headers = signed_form(command, **secret, **old)
        if wrong == "unsigned":
            del headers["X-Slack-Signature"]
        response = team._post("/slack/commands/", raw + b"&x=1" * (wrong == "body"), headers)
        assert response.status_code == 401
        assert b"no signature of Slack" in response.content
        assert not SlackEvent.objects.exists()

    def test_a_repeated_request_is_answered_once(self, team: Team) -> None:
        command = team.slack.command(team.id_of("mika"), OPEN, "help")
        assert team.send(command).content == b""
        again = team.send(command)
        assert "received before" in again.json()["text"]
        assert len(team.slack.shown_to(team.id_of("mika"))) == 1

    def test_a_disabled_feature_is_explained(self, team: Team) -> None:
        team.cast.workspace.change_settings({"slack_commands": False})
        response = team.send(team.slack.command(team.id_of("mika"), OPEN, "help"))
        assert "switched off" in response.json()["text"]
        assert not SlackEvent.objects.exists()

    def test_an_unknown_team_or_person_gets_a_reason(self, team: Team) -> None:
        command = team.slack.command("U0STRANGER", OPEN, "help")
        assert team.send(command).content == b""
        assert "not in the list of people yet" in team.slack.shown_to("U0STRANGER")[0].text
        response = team.send(team.slack.command("U1", OPEN, "help") | {"team_id": "T0OTHER"})
        assert "not connected" in response.json()["text"]

    @pytest.mark.parametrize("fields", [{}, {"command": "/memory"}, {"payload": "[" * 5000}])
    def test_junk_is_refused(self, team: Team, fields: dict[str, Any]) -> None:
        raw, headers = signed_form({"command": "", **fields})
        assert team._post("/slack/interactivity/", raw, headers).status_code == 400

    def test_a_late_question_is_not_answered(self, team: Team) -> None:
        event = team.send_late(team.slack.command(team.id_of("mika"), OPEN, "help"))
        assert (event.state, event.reason) == (STATE.SKIPPED, "too late to answer")

    def test_a_late_note_is_kept(self, team: Team) -> None:
        command = team.slack.command(team.id_of("tom"), OPEN, "note The stand is in hall 4")
        event = team.send_late(command)
        assert (event.state, Note.objects.get().content) == (STATE.DONE, "The stand is in hall 4")
        assert not team.slack.shown_to(team.id_of("tom"))

    def test_a_foreign_response_url_is_never_called(self, team: Team) -> None:
        command = team.slack.command(team.id_of("mika"), OPEN, "help")
        team.send(command | {"response_url": "http://127.0.0.1:9/steal"})
        event = SlackEvent.objects.get()
        assert event.reason == "Slack refuses the answer: invalid_url"

    def test_a_deactivated_account_reads_nothing(self, team: Team) -> None:
        user = team.people["mika"].user
        assert user is not None
        user.is_active = False
        user.save()
        assert "You may read nothing here." in team.say("mika", "ask When do we launch?").text
