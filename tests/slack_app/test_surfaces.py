"""Each surface of the app in Slack, over HTTP and over Socket Mode.

tom is in the private channel and edits. mika may not read it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from memories.models import Line, Note, Proposal, SlackDigest, SlackEvent
from memories.rules.ingest.timestamps import to_micros
from memories.rules.slack_app.manifest import REMEMBER, WRONG
from memories.slack_app.commands import SHARE
from memories.slack_app.shortcuts import LINE, PROPOSE, TEXT
from tests.slack.fake_channel import Json
from tests.slack_app.conftest import FEATURES, OPEN, SECRET, Team

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

STRANGER, NOT_LISTED = "U0STRANGER", "not in the list of people yet"
HIDDEN = ("om earns", "salaries")  # words of the private channel
EVERYTHING = (Note, Proposal, SlackDigest)


@dataclass(frozen=True)
class Surface:
    """``act`` returns the payload of a person's act in a channel. ``shows`` are words of the answer for
    tom in the private channel, ``refuses`` those for mika. ``saves``: the model of the saved row."""

    setting: str
    act: Callable[[Team, str, str], Json]
    shows: str
    refuses: str
    saves: Any = None
    lasts: bool = False  # a late answer is sent, because it needs no response URL
    stranger: str = NOT_LISTED
    refused_in: str = SECRET


def command(text: str) -> Callable[[Team, str, str], Json]:
    return lambda team, user, channel: team.slack.command(user, channel, text)


def shortcut(callback: str) -> Callable[[Team, str, str], Json]:
    return lambda team, user, channel: team.slack.shortcut(user, channel, secret_ts(team), callback)


def secret_ts(team: Team) -> str:
    return team.cast.private.messages.get().ts


def share(team: Team, user: str, channel: str) -> Json:
    keys = [f"message-{team.cast.private.messages.get().pk}"]
    value = json.dumps({"q": "", "keys": keys, "answer": []})
    return team.slack.press(user, channel, SHARE, value)


def correct(team: Team, user: str, channel: str) -> Json:
    line = team.cast.private_memory.current.lines.get()
    typed = {LINE: str(line.pk), TEXT: "He earns little"}
    return team.slack.press(user, channel, PROPOSE, secret_ts(team), typed)


def react(team: Team, user: str, channel: str) -> Json:
    return team.slack.react(user, channel, secret_ts(team))


def post_link(team: Team, user: str, channel: str) -> Json:
    url = f"{settings.MEMORYHUB_URL}/w/{team.cast.workspace.slug}/c/{SECRET}/"
    return team.slack.post_link(user, channel, url)


SURFACES = {
    "catch up": Surface("slack_commands", command("catch up 2020-01-01"), "#salaries", "#launch"),
    "ask": Surface("slack_commands", command("ask Who earns?"), "om earns a lot", "I don't know."),
    "note": Surface(
        *("slack_commands", command("note Use the back door"), "Note saved.", "Only editors"),
        saves=Note,
    ),
    "digest": Surface(
        "slack_commands",
        command("digest here daily"),
        "#salaries: every day",
        "This channel is not in the memory",
        saves=SlackDigest,
    ),
    "share": Surface("slack_commands", share, "om earns a lot", "The answer was not shared."),
    "remember": Surface(
        *("slack_shortcuts", shortcut(REMEMBER), "Note saved.", "not in the memory"), saves=Note
    ),
    "wrong": Surface(
        "slack_shortcuts", shortcut(WRONG), "om earns a lot", "No line that you may read"
    ),
    "correct": Surface(
        *("slack_shortcuts", correct, "waits for the approval", "Nothing was proposed."),
        saves=Proposal,
    ),
    "home": Surface(
        "slack_home",
        lambda team, user, channel: team.slack.open_home(user),
        *("#salaries", "#launch"),
        lasts=True,
    ),
    # Slack shows nothing to people who are not in the channel.
    "reaction": Surface("slack_reaction", react, "Note saved.", "", saves=Note, lasts=True),
    # A preview is for everybody in the channel, whoever posts the link.
    "link": Surface(
        *("slack_unfurls", post_link, "om earns a lot", "Memory Hub"),
        lasts=True,
        stranger="om earns a lot",
        refused_in=OPEN,
    ),
}
surfaces = pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES)


@pytest.fixture(params=["http", "socket"])
def team(team: Team, request: pytest.FixtureRequest) -> Team:
    team.cast.workspace.change_settings({"slack_digests": True})
    team.slack.add_user(STRANGER, "stranger")
    team.slack.channels[SECRET].members.append(STRANGER)
    Line.objects.update(at_us=to_micros(timezone.now()))
    if request.param == "socket":
        request.getfixturevalue("socket")
    return team


def shown_on_screen(team: Team) -> list[str]:
    """Return all that the app has shown in Slack, as JSON."""
    screen = team.slack.screen
    posts = [post for channel in (OPEN, SECRET) for post in team.slack.posts(channel)]
    shown = [answer.body for answer in screen.shown]
    return [_as_json(body) for body in (*shown, *screen.homes.values(), *screen.unfurls, *posts)]


def _as_json(body: Json) -> str:
    return json.dumps(body, ensure_ascii=False)


def clear_screen(team: Team) -> None:
    team.slack.screen.shown.clear()
    team.slack.screen.homes.clear()
    team.slack.screen.unfurls.clear()


def count_saved() -> int:
    return sum(model.objects.count() for model in EVERYTHING)


@surfaces
def test_a_request_is_answered_once(team: Team, surface: Surface) -> None:
    saved = count_saved()
    payload = surface.act(team, team.id_of("tom"), SECRET)
    assert team.deliver(payload) == {}
    [shown] = shown_on_screen(team)
    assert surface.shows in shown
    assert count_saved() == saved + bool(surface.saves)
    again = team.deliver(payload)
    assert shown_on_screen(team) == [shown]
    assert ("received before" in str(again)) is ("command" in payload)
    assert count_saved() == saved + bool(surface.saves)
    assert SlackEvent.objects.get().state == SlackEvent.State.DONE


@surfaces
def test_a_refusal_says_why_and_shows_nothing(team: Team, surface: Surface) -> None:
    saved = count_saved()
    team.deliver(surface.act(team, team.id_of("mika"), surface.refused_in))
    shown = "\n".join(shown_on_screen(team))
    assert surface.refuses in shown
    assert not any(words in shown for words in HIDDEN)
    clear_screen(team)
    team.deliver(surface.act(team, STRANGER, SECRET))
    assert surface.stranger in "\n".join(shown_on_screen(team))
    assert count_saved() == saved


@surfaces
def test_another_team_and_a_disabled_feature_get_nothing(team: Team, surface: Surface) -> None:
    saved, tom = count_saved(), team.id_of("tom")
    payload = surface.act(team, tom, SECRET)
    is_command = "command" in payload
    elsewhere = {"team_id": "T0OTHER", "context_team_id": "T0OTHER", "team": {"id": "T0OTHER"}}
    authorizations = {"authorizations": [{"team_id": "T0OTHER"}]}
    answer = team.deliver(payload | elsewhere | authorizations)
    assert ("not connected" in str(answer)) is is_command
    assert not shown_on_screen(team) and not SlackEvent.objects.exists()
    team.cast.workspace.change_settings(dict.fromkeys(FEATURES, False))
    answer = team.deliver(payload)
    shown = "\n".join(shown_on_screen(team))
    is_event = payload.get("type") == "event_callback"
    assert ("switched off" in f"{answer}{shown}") is not is_event
    assert not any(words in shown for words in HIDDEN)
    assert count_saved() == saved


@surfaces
def test_a_late_request_is_saved_and_shown_only_where_slack_accepts_it(
    team: Team, surface: Surface
) -> None:
    saved = count_saved()
    event = team.send_late(surface.act(team, team.id_of("tom"), SECRET))
    assert (surface.shows in "\n".join(shown_on_screen(team))) is surface.lasts
    assert count_saved() == saved + bool(surface.saves)
    assert event.body == ""


@surfaces
@pytest.mark.parametrize("team", ["http"], indirect=True)
@pytest.mark.parametrize("options", [{"secret": "another"}, {"at": 1_767_603_600}], ids=str)
def test_a_forged_or_old_request_is_refused(
    team: Team, surface: Surface, options: dict[str, Any]
) -> None:
    response = team.send(surface.act(team, team.id_of("tom"), SECRET), **options)
    assert response.status_code == 401
    assert not shown_on_screen(team) and not SlackEvent.objects.exists()


@pytest.mark.parametrize("team", ["socket"], indirect=True)
def test_junk_on_the_socket_is_acknowledged_and_not_stored(team: Team) -> None:
    for junk in ({"command": "/memory"}, {"type": "block_actions"}, {"type": "message_action"}):
        assert team.deliver(junk) == {}
    assert not SlackEvent.objects.exists() and not shown_on_screen(team)
