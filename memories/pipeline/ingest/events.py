"""What Slack tells by itself → rows: stored at once, worked on later, idempotent like a sync.

Events are for speed. A lost one is made good by the next sync, so everything here may fail; and
they narrow at once who may read, and never widen it.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from memories.models import Channel, SlackConnection, SlackEvent, Workspace
from memories.pipeline.access import audience
from memories.pipeline.ingest.roster import store_channels, store_people
from memories.pipeline.ingest.store import store_messages
from memories.rules.ingest.events import (
    EVENT_RETENTION,
    Action,
    Challenge,
    Create,
    Describe,
    EventEnvelope,
    Join,
    Leave,
    Narrow,
    Narrowing,
    RateLimited,
    Skip,
    Stop,
    Store,
    UpdatePerson,
    action_for,
    parse_payload,
    read_body,
)
from memories.rules.ingest.outcomes import Result, Tally
from memories.rules.ingest.timestamps import from_micros
from memories.slack.signature import SIGNATURE, TIMESTAMP, is_signed

logger = logging.getLogger(__name__)

TAKEN_UP_AT_ONCE = 100
# Slack's clock and ours: so much later than an event a check must be to outweigh it.
CLOCKS_DIFFER = timedelta(minutes=1)


# -- as it comes in


def is_signed_by_slack(body: bytes, headers: Mapping[str, str], now: datetime) -> bool:
    """Whether the signature over the raw body is Slack's, and a fresh one."""
    return is_signed(
        settings.SLACK_SIGNING_SECRET,
        headers.get(TIMESTAMP),
        headers.get(SIGNATURE),
        body,
        now=now.timestamp(),
    )


@dataclass(frozen=True)
class ReceivedEvent:
    """``call``: the workspaces (row ids) for which a task has to be queued; ``challenge``: what
    Slack wants back, "" in every event."""

    call: tuple[int, ...] = ()
    challenge: str = ""


def receive_event(body: bytes) -> ReceivedEvent | None:
    """A signed body, stored; None when it is nothing that Slack sends."""
    try:
        raw = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    return store_payload(raw)


def store_payload(raw: object) -> ReceivedEvent | None:
    """Store what Slack tells, once. No call of Slack or of a model, and nothing is decided here but
    what need not be kept: of a team that is not ours, and of direct messages."""
    parsed = parse_payload(raw)
    if parsed is None or isinstance(parsed, Challenge):
        return None if parsed is None else ReceivedEvent(challenge=parsed.text)
    ours = _workspaces(parsed.teams)
    if not ours:
        logger.info("an event of a team that is not ours")
        return ReceivedEvent()
    team_id = ours[0].team_id
    if isinstance(parsed, RateLimited):
        logger.warning("Slack leaves out the events of a minute: too many in team %s", team_id)
        limited = EventEnvelope(
            f"rate.{team_id}.{parsed.minute}", parsed.teams, "app_rate_limited", {}, ""
        )
        SlackEvent.objects.store(limited, team_id, body="", skipped="left out by Slack")
        return ReceivedEvent()
    action = action_for(parsed.event, [])
    if isinstance(action, Skip):
        SlackEvent.objects.store(parsed, team_id, body="", skipped=action.reason)
        return ReceivedEvent()
    SlackEvent.objects.store(parsed, team_id, body=parsed.body)
    first = SlackEvent.objects.of_team(team_id).is_first_queued(parsed.event_id)
    return ReceivedEvent(call=(ours[0].pk,) if first else ())


def _workspaces(teams: Iterable[str]) -> list[Workspace]:
    """Those of the first of these teams that we have."""
    for team_id in teams:
        if workspaces := list(Workspace.objects.filter(team_id=team_id).order_by("pk")):
            return workspaces
    return []


# -- later


def workspaces_with_events(now: datetime) -> list[int]:
    """For which (row ids) a task has something to do: one for each team."""
    teams = set(SlackEvent.objects.due(now).order_by().values_list("team_id", flat=True).distinct())
    return [ours[0].pk for team_id in sorted(teams) if (ours := _workspaces([team_id]))]


def process_events(workspace: Workspace, *, seconds: float) -> bool:
    """Work on what waits, the oldest first, until nothing does; True when time was up before."""
    deadline = time.monotonic() + seconds
    events = SlackEvent.objects.of_team(workspace.team_id)
    worked = 0
    while batch := list(events.due(timezone.now())[:TAKEN_UP_AT_ONCE]):
        for event in batch:
            began = time.monotonic()
            if began > deadline:
                return True
            worked += process_event(event, timezone.now())
            if connection.vendor == "sqlite":
                # One writes at a time, and whoever waits only looks now and then: leave the web
                # every second moment to store what Slack tells next.
                time.sleep(time.monotonic() - began)
    if worked:
        connections = SlackConnection.objects.filter(workspace__team_id=workspace.team_id)
        connections.update(event_at=timezone.now())
    return False


def process_event(event: SlackEvent, now: datetime) -> bool:
    """Do what one event tells, once. False: somebody else does, or it is over. An error is kept
    with the event, which is tried again later."""
    if not event.claim(now, now + timedelta(seconds=settings.MEMORYHUB_LEASE)):
        return False
    try:
        with transaction.atomic():
            event.finish(skipped=_work(event, now))
    except Exception as error:
        logger.exception("event %s, attempt %d", event.pk, event.attempts)
        pause = settings.MEMORYHUB_BACK_OFF * 2 ** (event.attempts - 1)
        event.fail(type(error).__name__, now + timedelta(seconds=pause))
    return True


def prune(now: datetime) -> int:
    """Remove events that are old, done or not; how many those were."""
    return SlackEvent.objects.prune(now - EVENT_RETENTION)


def _work(event: SlackEvent, now: datetime) -> str:
    """Why there was nothing to do, "" when there was."""
    raw, bots, seconds = read_body(event.body)
    action = action_for(raw, bots)
    if isinstance(action, Skip):
        return action.reason
    at = from_micros(seconds * 1_000_000) if seconds else event.received_at
    reasons = [
        _do(workspace, action, event, at=at, now=now)
        for workspace in Workspace.objects.filter(team_id=event.team_id)
    ]
    return "" if "" in reasons else next(iter(reasons), "a team that is not ours")


def _do(
    workspace: Workspace, action: Action, event: SlackEvent, *, at: datetime, now: datetime
) -> str:
    match action:
        case UpdatePerson(raw):
            return _left_out(store_people(workspace, [raw]))
        case Stop(state, reason):
            return _stop(workspace, state, reason, at=at, now=now)
        case Create(slack_id, raw, kind):
            if workspace.channels.filter(slack_id=slack_id).exists():
                return "channel is known"
            return _left_out(store_channels(workspace, [(raw, kind)], known_at=now))
        case Skip(reason):
            return reason
    channel = workspace.channels.filter(slack_id=action.channel).first()
    if channel is None:
        return "channel is not known"
    match action:
        case Store():
            return _store(channel, action, event, now)
        case Join(is_bot=True):
            channel.describe({"bot_is_in": True})
        case Join():
            channel.mark_members_changed(now)
        case Leave(person=""):
            _without_bot(channel)
        case Leave(person=person):
            # In this order: a sync under way that holds the old list sees it, or is undone.
            channel.mark_members_changed(now)
            channel.memberships.filter(person__slack_id=person).delete()
        case Describe(values=values):
            channel.describe(values)
        case Narrow(reason=reason):
            _narrow(channel, reason, now)
    return ""


def _store(channel: Channel, action: Store, event: SlackEvent, now: datetime) -> str:
    if action.private and channel.is_public:
        _narrow(channel, Narrowing.PRIVATE, now)
    deleted_ts = action.deleted_ts
    # What is deleted in Slack goes, wherever we have it from.
    if not Channel.objects.followed().filter(pk=channel.pk).exists() and not (
        deleted_ts and channel.messages.filter(ts=deleted_ts).exists()
    ):
        return "channel is not followed"
    if not (channel.may_be_read or deleted_ts):
        return "private channels are switched off"
    if deleted_ts:
        SlackEvent.objects.of_team(event.team_id).failed().redact(deleted_ts)
    return _left_out(store_messages(channel, [action.raw], now))


def _left_out(tally: Tally) -> str:
    """Why the one object was not stored."""
    for _thing, outcome, _count in tally.sorted_outcomes():
        if outcome.result in (Result.SKIPPED, Result.QUARANTINED):
            return outcome.reason
    return ""


def _narrow(channel: Channel, why: Narrowing, now: datetime) -> None:
    """Fewer people read it from now on: what rests on it in the workspace's memories goes too."""
    was, was_shared = channel.kind, channel.is_shared
    values: dict[str, object] = {"narrowed_at": now}
    if why is Narrowing.SHARED:
        values["is_shared"] = True
    elif channel.is_public:
        values["kind"] = Channel.Kind.PRIVATE
    if why is Narrowing.DELETED:
        values["is_archived"] = True
    channel.describe(values)
    audience.follow(channel, was, was_shared=was_shared)


def _without_bot(channel: Channel) -> None:
    """Nobody tells us any more who leaves a private channel, so its members are unknown."""
    values: dict[str, object] = {"bot_is_in": False}
    if not channel.is_public:
        values["members_known_at"] = None
    channel.describe(values)


def _stop(workspace: Workspace, state: str, why: str, *, at: datetime, now: datetime) -> str:
    connection = SlackConnection.objects.of(workspace)
    if settings.SLACK_BOT_TOKEN:
        connection.uses(settings.SLACK_BOT_TOKEN)
    checked = connection.checked_at if connection.is_live else None
    if checked and checked > at + CLOCKS_DIFFER:
        return "older than the token"
    connection.stops(state, why, now)
    logger.warning("Slack: %s, workspace %s", state, workspace.pk)
    return ""
