"""Messages of the app in Slack: private answers, shared answers, the Home tab and previews.

And what shortcuts and reactions leave in the hub.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.conf import settings
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memories.api.queries import context_for, search_for
from memories.api.slackbot import SlackbotCaller
from memories.models import Channel, Line
from memories.pipeline.ask.asking import Answer, ask
from memories.pipeline.search import indexing
from memories.rules.ask.answer import Sentence
from memories.rules.slack_app.manifest import REMEMBER, WRONG
from memories.rules.slack_app.payloads import (
    BUTTON,
    COMMAND,
    HOME,
    LINKS,
    MCP,
    REACTION,
    SHORTCUT,
    AppRequest,
)
from memories.slack_app.answers import answer_request
from memories.slack_app.callers import find_caller
from memories.slack_app.commands import SHARE
from memories.slack_app.digests import build_digest
from memories.slack_app.shortcuts import LINE, PROPOSE, TEXT
from tests.leaks.world import World
from tests.slack.fake_app import Shown

DIGEST = "digest"  # no request: a task sends it
OWN, ALL = "own", "all"  # who sees an answer: the person, or everybody in the channel
HUB = "hub"  # who reads the pages after everybody has used the shortcuts and the reaction
PRESSER = "admin"
QUESTION = "ask What was decided?"


def slack_asks(world: World, typed: str) -> Iterator[tuple[str, str, AppRequest]]:
    """Yield who sees the answer, the place of a channel, and the request without its person."""
    indexing.index_pending()
    keys = list(_keys(world))
    links = [f"{settings.MEMORYHUB_URL}/v/{pk}/" for pk in _versions(world)]
    for kind in (HOME, DIGEST):  # they come from no channel
        yield OWN, "", AppRequest(key="k", team="T1", user="", channel="", kind=kind)
    for place, channel in world.channels.items():
        fields = {"key": "k", "team": "T1", "user": "", "channel": channel.slack_id}
        for text in (QUESTION, "catch up 2020-01-01"):
            yield OWN, place, AppRequest(**fields, kind=COMMAND, text=text)
        yield ALL, place, AppRequest(**fields, kind=DIGEST)
        yield OWN, place, AppRequest(**fields, kind=MCP, text=typed)
        yield ALL, place, AppRequest(**fields, kind=LINKS, links=links)
        yield ALL, place, AppRequest(**fields, kind=COMMAND, text=QUESTION)
        for key in keys:
            value = json.dumps({"q": "", "keys": [key], "answer": []})
            yield ALL, place, AppRequest(**fields, kind=BUTTON, name=SHARE, text=value)
        for request in _about_message(channel, fields):
            yield OWN, place, request
        yield HUB, place, AppRequest(**fields, kind=SHORTCUT)


def _about_message(channel: Channel, fields: dict[str, str]) -> Iterator[AppRequest]:
    """Yield the shortcuts, the reaction and a correction for a message on which lines rest."""
    for message in channel.messages.filter(lines__version__in=_current(channel)).distinct()[:1]:
        yield AppRequest(**fields, kind=SHORTCUT, name=REMEMBER, ts=message.ts)
        yield AppRequest(**fields, kind=SHORTCUT, name=WRONG, ts=message.ts)
        yield AppRequest(**fields, kind=REACTION, ts=message.ts)
        for line in message.lines.filter(version__in=_current(channel))[:1]:
            typed = {LINE: str(line.pk), TEXT: f"Not so: {line.text}"}
            yield AppRequest(**fields, kind=BUTTON, name=PROPOSE, text=message.ts, typed=typed)


def see(world: World, role: str, who: str, place: str, request: AppRequest) -> str:
    """Return what a role sees of an answer, "" for a channel that it is not in."""
    if who == HUB:
        return _see_in_hub(world, role, world.channels[place])
    if who == ALL and role not in world.audiences.get(place, ()):
        return ""
    asker = role if who == OWN else PRESSER
    person = world.people.get(asker)
    values = {**vars(request), "user": person.slack_id if person else "U0NOBODY"}
    if request.kind == DIGEST:
        owner = world.channels[place] if who == ALL else person
        since = timezone.now() - timedelta(days=3650)
        return json.dumps(build_digest(owner, since, timezone.now()) if owner else "")
    if request.kind == MCP:
        return _see_by_slackbot(world, AppRequest(**values))
    if who == ALL and request.kind == COMMAND:
        values |= {"kind": BUTTON, "name": SHARE, "text": _share_value(world, values)}
    with transaction.atomic():
        answer = answer_request(AppRequest(**values), world.team, timezone.now())
        transaction.set_rollback(True)
    if who == ALL and answer.get("response_type") == "ephemeral":
        return ""
    return json.dumps(answer, ensure_ascii=False)


def _see_in_hub(world: World, role: str, channel: Channel) -> str:
    """Return what a role reads of notes and proposals after each person has sent all requests about
    a message of the channel."""
    client, slug = Client(SERVER_NAME="localhost"), world.team.slug
    client.force_login(world.users[role])
    with transaction.atomic():
        for person in world.people.values():
            sent = {"key": "k", "team": "T1", "user": person.slack_id, "channel": channel.slack_id}
            for request in _about_message(channel, sent):
                answer_request(request, world.team, timezone.now())
        paths = [
            reverse("notes-index", args=[slug]),
            reverse("review-index", args=[slug]),
            reverse("channels-detail", args=[slug, channel.slack_id]),
        ]
        text = "".join(client.get(path).content.decode() for path in paths)
        transaction.set_rollback(True)
    return text


def _share_value(world: World, values: dict[str, Any]) -> str:
    """Return the value of the button under an answer whose sentences mix the texts of the prompt.

    They cite a text of the channel, if there is one.
    """

    def mix(*args: Any) -> Answer:
        passages = ask(*args[:-1]).passages
        own = [passage.key in keys for passage in passages]
        cited = own.index(True) if any(own) else 0
        texts = [f"{passages[cited].text} {passage.text}" for passage in passages]
        return Answer(passages, [Sentence(text, (cited + 1,)) for text in texts])

    channel = Channel.objects.get(slack_id=values["channel"])
    keys = {f"message-{pk}" for pk in channel.messages.values_list("pk", flat=True)}
    with patch("memories.slack_app.commands.ask", mix):
        answer = answer_request(AppRequest(**values), world.team, timezone.now())
    return Shown("", "", answer).buttons().get(SHARE, "")


def _see_by_slackbot(world: World, request: AppRequest) -> str:
    now = timezone.now()
    caller = find_caller(request, world.team, now)
    if isinstance(caller, str):
        return caller
    slackbot = SlackbotCaller(caller)
    context = context_for(slackbot, query=request.text, budget=20_000, now=now)
    return context.text + search_for(slackbot, request.text, "", 50, now).model_dump_json()


def _keys(world: World) -> Iterator[str]:
    """Yield the keys of one message, line and note of each channel."""
    for channel in world.channels.values():
        lines = Line.objects.filter(version__in=_versions(world), version__memory__channel=channel)
        for rows in (channel.messages.all(), lines, channel.notes.all()):
            yield from (f"{row._meta.model_name}-{row.pk}" for row in rows[:1])


def _versions(world: World) -> list[int]:
    return [pk for channel in world.channels.values() for pk in _current(channel)]


def _current(channel: Channel) -> list[int]:
    return [memory.current_id for memory in channel.memories.all() if memory.current_id]
