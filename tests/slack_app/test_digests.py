"""Digests in a fake Slack: once in a period, for their readers alone, and refusals in words."""

from datetime import UTC, timedelta

import pytest
import time_machine
from django.core.cache import cache

from memories import tasks
from memories.models import Channel, Line, Member, Person, SlackDigest
from memories.rules.memory.digests import RETRY_AFTER
from memories.slack_app import digests
from memories.slack_app.digests import send_due
from tests.factories import MONDAY, MemberFactory, make_version
from tests.slack.fake_app import Shown
from tests.slack_app.conftest import OPEN, SECRET, Team
from tests.views.conftest import Cast

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

TUESDAY = MONDAY.replace(hour=8) + timedelta(days=1)  # an hour after a period ended


@pytest.fixture
def team(team: Team) -> Team:
    team.cast.workspace.change_settings({"slack_digests": True})
    return team


def choose(owner: Person | Channel, frequency: str = "daily") -> SlackDigest:
    SlackDigest.objects.choose(owner, frequency, MONDAY, UTC)
    return SlackDigest.objects.of(owner).get()


def post_text(team: Team, channel: str) -> str:
    [post] = team.slack.posts(channel)
    return Shown("", channel, post).text


def test_each_period_has_one_message(team: Team) -> None:
    choose(team.people["mika"])
    choose(team.cast.public)
    assert [send_due(MONDAY), send_due(TUESDAY), send_due(TUESDAY)] == [0, 2, 0]
    [shown] = team.slack.shown_to(team.id_of("mika"))
    for text in (shown.text, post_text(team, OPEN)):
        assert "Since 5 Jan 2026" in text and "We launch on Monday" in text
        assert "/w/team/catch-up/" in text
    assert send_due(TUESDAY + timedelta(days=1)) == 0  # nothing new
    assert SlackDigest.objects.filter(sent_at=TUESDAY).count() == 2


def test_the_day_is_that_of_the_person(team: Team) -> None:
    team.cast.workspace.change_settings({"time_zone": "Asia/Tokyo"})
    user = team.cast.users["member"]
    user.time_zone = "America/Los_Angeles"
    user.save()
    choose(team.people["mika"])
    assert send_due(TUESDAY) == 1
    [shown] = team.slack.shown_to(team.id_of("mika"))
    assert "Since 4 Jan 2026" in shown.text  # at 7:00 there, midnight in Tokyo


def test_a_channel_without_lines_in_force_has_no_message(team: Team) -> None:
    choose(team.cast.public)
    Line.objects.update(outcome=Line.Outcome.SUPERSEDED)
    assert send_due(TUESDAY) == 0


def test_a_killed_worker_posts_once(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(team.cast.public)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(SlackDigest, "finish", lambda *args, **kwargs: exit_now())
        send_due(TUESDAY)
    assert send_due(TUESDAY + timedelta(minutes=10)) == 0  # claimed
    assert [send_due(TUESDAY + RETRY_AFTER), send_due(TUESDAY + RETRY_AFTER)] == [1, 0]
    assert len(team.slack.posts(OPEN)) == 1


@pytest.mark.parametrize("at_once", [1, 100])
def test_the_next_task_sends_the_others(
    team: Team, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(digests, "AT_ONCE", at_once)
    owners = [team.people["mika"], team.people["tom"], team.cast.public]
    for owner in owners:
        choose(owner)
    with time_machine.travel(TUESDAY):
        tasks.digests()
    assert SlackDigest.objects.filter(sent_at__gte=TUESDAY).count() == len(owners)


def test_two_tasks_send_nothing_twice(team: Team) -> None:
    choose(team.cast.public)
    cache.set(tasks.DIGESTS_LOCK, 1)
    with time_machine.travel(TUESDAY):
        tasks.digests()
    assert not team.slack.posts(OPEN)


def exit_now() -> None:
    raise KeyboardInterrupt


def test_two_workers_post_once(team: Team) -> None:
    choose(team.cast.public)
    first, second = (SlackDigest.objects.due(TUESDAY).get() for _ in range(2))
    assert [first.claim(TUESDAY), second.claim(TUESDAY)] == [True, False]


class TestReaders:
    def test_a_channel_gets_what_each_of_its_readers_may_read(self, team: Team) -> None:
        make_version(memory=team.cast.private_memory, text="- Tom earns a lot")
        team.cast.public.memberships.all().delete()  # the guest leaves
        for owner in (team.cast.public, team.cast.private):
            choose(owner, "weekly")
        assert send_due(MONDAY + timedelta(days=7)) == 2
        assert "salaries" not in post_text(team, OPEN)
        assert "salaries" in post_text(team, SECRET) and "launch" in post_text(team, SECRET)

    def test_with_a_guest_a_channel_gets_its_own_news_only(self, team: Team) -> None:
        team.cast.private.memberships.create(person=team.people["visitor"])
        choose(team.cast.private, "weekly")
        send_due(MONDAY + timedelta(days=7))
        assert "launch" not in str(team.slack.posts(SECRET))

    @pytest.mark.parametrize("how", ["deactivated", "forgotten", "switched off", "off"])
    def test_the_audience_is_checked_when_it_is_sent(self, team: Team, how: str) -> None:
        mika = team.people["mika"]
        choose(mika)
        if how == "deactivated":
            Person.objects.filter(pk=mika.pk).update(is_deleted=True)
        elif how == "forgotten":
            Person.objects.filter(pk=mika.pk).update(forgotten_at=MONDAY)
        elif how == "switched off":
            team.cast.workspace.change_settings({"slack_digests": False})
        else:
            choose(mika, "")
        assert send_due(TUESDAY) == 0
        assert not team.slack.shown_to(team.id_of("mika"))


class TestRefusals:
    @pytest.mark.parametrize(
        ("how", "words"),
        [
            ("left", "The app is not in the channel."),
            ("archived", "The channel is archived."),
            ("scope", "The app lacks a scope."),
            ("revoked", "The token was revoked."),
            ("other", "Slack: channel_not_found."),
        ],
    )
    def test_a_refusal_is_shown_in_words(self, team: Team, how: str, words: str) -> None:
        choose(team.cast.public)
        channel = team.slack.channels[OPEN]
        if how == "left":
            channel.bot_is_in = False
        elif how == "archived":
            channel.is_archived = True
        elif how == "scope":
            team.slack.scopes.discard("chat:write")
        elif how == "revoked":
            team.slack.token_error = "token_revoked"  # noqa: S105
        else:
            del team.slack.channels[OPEN]
        assert [send_due(TUESDAY), send_due(TUESDAY + timedelta(hours=1))] == [0, 0]
        page = team.cast.clients["insider"].get(team.cast.path("slack/")).content.decode()
        assert "The digest in #launch was not sent." in page and words in page

    def test_a_person_reads_the_refusal_in_slack(self, team: Team) -> None:
        team.slack.takes_messages = False
        choose(team.people["mika"])
        send_due(TUESDAY)
        assert "The app takes no direct messages." in team.say("mika", "digest").text

    def test_temporary_errors_are_tried_again(self, team: Team) -> None:
        choose(team.cast.public)
        team.slack.token_error = "internal_error"  # noqa: S105
        assert send_due(TUESDAY) == 0
        team.slack.token_error = ""
        assert [send_due(TUESDAY), send_due(TUESDAY + RETRY_AFTER)] == [0, 1]
        assert SlackDigest.objects.get().problem == ""


class TestCommand:
    def test_a_person_chooses_their_own(self, team: Team) -> None:
        assert "Direct message: no digest." in team.say("ann", "digest").text
        assert "Direct message: every day, next on" in team.say("ann", "digest daily").text
        assert "Direct message: every Monday" in team.say("ann", "digest weekly").text
        assert "no digest" in team.say("ann", "digest off").text
        assert "“hourly” is no choice." in team.say("ann", "digest hourly").text

    def test_editors_choose_for_a_channel(self, team: Team, cast: Cast) -> None:
        assert "Only editors" in team.say("mika", "digest here daily").text
        assert not SlackDigest.objects.exists()
        user = team.people["mika"].user
        assert user is not None
        MemberFactory(workspace=cast.workspace, user=user, role=Member.Role.EDITOR)
        assert "#launch: every day" in team.say("mika", "digest here daily").text
        assert SlackDigest.objects.get().channel == cast.public
        refused = team.say("mika", "digest here daily", SECRET)
        assert "This channel is not in the memory" in refused.text

    def test_a_disabled_feature_is_explained(self, team: Team) -> None:
        team.cast.workspace.change_settings({"slack_digests": False})
        assert "switched off" in team.say("mika", "digest daily").text
