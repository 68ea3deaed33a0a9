"""Slack events: receive and store them at once, process them later.

Events make the hub fast. The next sync repairs a lost one, so any step here may fail. An event may
only reduce who reads a channel. Processing an event twice has the same result.
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
from memories.pipeline.access import channel_audience
from memories.pipeline.ingest.requests import store_request
from memories.pipeline.ingest.roster import store_channels, store_people
from memories.pipeline.ingest.store import store_messages
from memories.rules.ingest.events import (
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
from memories.rules.slack_app.payloads import parse_event
from memories.slack.signature import SIGNATURE, TIMESTAMP, is_signed

logger = logging.getLogger(__name__)

BATCH = 100
# Allowance for a difference between Slack's clock and ours, when a check is later than an event.
CLOCK_TOLERANCE = timedelta(minutes=1)


# Receiving


def is_signed_by_slack(body: bytes, headers: Mapping[str, str], now: datetime) -> bool:
    """Return whether Slack signed the raw body, not long before ``now``."""
    return is_signed(
        settings.SLACK_SIGNING_SECRET,
        headers.get(TIMESTAMP),
        headers.get(SIGNATURE),
        body,
        now=now.timestamp(),
    )


@dataclass(frozen=True)
class ReceivedEvent:
    """``workspace_id`` is the workspace that needs a task, None when none does. ``request_id`` is the
    row of a request that needs one. ``challenge`` is the text of the response, "" for events."""

    workspace_id: int | None = None
    request_id: int | None = None
    challenge: str = ""


def receive_event(body: bytes) -> ReceivedEvent | None:
    """Store a signed body; return None when Slack does not send such a body."""
    try:
        raw = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    return store_payload(raw)


def store_payload(raw: object) -> ReceivedEvent | None:
    """Store an event once; return None for a payload that Slack does not send.

    It calls neither Slack nor a model. Events of unknown teams are not stored, and events without
    an action are stored without their body.
    """
    parsed = parse_payload(raw)
    if parsed is None or isinstance(parsed, Challenge):
        return None if parsed is None else ReceivedEvent(challenge=parsed.text)
    workspaces = workspaces_of_first(parsed.teams)
    if not workspaces:
        logger.info("event of an unknown team")
        return ReceivedEvent()
    team_id = workspaces[0].team_id
    if isinstance(parsed, EventEnvelope):
        request = parse_event(parsed.event, parsed.event_id, team_id)
        if request is not None:
            stored = store_request(request)
            return ReceivedEvent(request_id=stored if isinstance(stored, int) else None)
    if isinstance(parsed, RateLimited):
        logger.warning("Slack drops the events of a minute: too many in team %s", team_id)
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
    if SlackEvent.objects.of_team(team_id).is_first_queued(parsed.event_id):
        return ReceivedEvent(workspaces[0].pk)
    return ReceivedEvent()


def workspaces_of_first(teams: Iterable[str]) -> list[Workspace]:
    """Return the workspaces of the first team that has any."""
    for team_id in teams:
        if workspaces := list(Workspace.objects.filter(team_id=team_id).order_by("pk")):
            return workspaces
    return []


# Processing


def workspaces_with_events(now: datetime) -> list[int]:
    """Return the row id of one workspace of each team that has due events."""
    teams = set(
        SlackEvent.objects.due(now)
        .without_requests()
        .order_by()
        .values_list("team_id", flat=True)
        .distinct()
    )
    return [
        workspaces[0].pk
        for team_id in sorted(teams)
        if (workspaces := workspaces_of_first([team_id]))
    ]


def process_events(workspace: Workspace, *, seconds: float) -> bool:
    """Process the team's due events, the oldest first; return whether time ran out."""
    deadline = time.monotonic() + seconds
    events = SlackEvent.objects.of_team(workspace.team_id).without_requests()
    processed = 0
    while batch := list(events.due(timezone.now())[:BATCH]):
        for event in batch:
            began = time.monotonic()
            if began > deadline:
                return True
            processed += process_event(event, timezone.now())
            if connection.vendor == "sqlite":
                # SQLite has one writer, and waiting processes poll. Leave the web server half of
                # the time for storing new events.
                time.sleep(time.monotonic() - began)
    if processed:
        connections = SlackConnection.objects.filter(workspace__team_id=workspace.team_id)
        connections.update(event_at=timezone.now())
    return False


def process_event(event: SlackEvent, now: datetime) -> bool:
    """Carry out an event's action; return False without the claim. An error schedules a retry."""
    if not event.claim(now, now + timedelta(seconds=settings.MEMORYHUB_LEASE)):
        return False
    try:
        with transaction.atomic():
            event.finish(skipped=_run_action(event, now))
    except Exception as error:
        logger.exception("event %s failed, attempt %d", event.pk, event.attempts)
        event.fail(type(error).__name__, now)
    return True


def _run_action(event: SlackEvent, now: datetime) -> str:
    """Run an event's action in all workspaces of its team.

    Return "" when one of them carried it out, else the reason why the first one did not.
    """
    raw, bots, seconds = read_body(event.body)
    action = action_for(raw, bots)
    if isinstance(action, Skip):
        return action.reason
    sent_at = from_micros(seconds * 1_000_000) if seconds else event.received_at
    reasons = [
        _run_in_workspace(workspace, action, event, sent_at=sent_at, now=now)
        for workspace in Workspace.objects.filter(team_id=event.team_id)
    ]
    return "" if "" in reasons else next(iter(reasons), "another team")


def _run_in_workspace(
    workspace: Workspace, action: Action, event: SlackEvent, *, sent_at: datetime, now: datetime
) -> str:
    match action:
        case UpdatePerson(raw):
            return _skip_reason(store_people(workspace, [raw], is_event=True))
        case Stop(state, reason):
            return _stop(workspace, state, reason, sent_at=sent_at, now=now)
        case Create(slack_id, raw, kind):
            if workspace.channels.filter(slack_id=slack_id).exists():
                return "channel is known"
            return _skip_reason(store_channels(workspace, [(raw, kind)], known_at=now))
        case Skip(reason):
            return reason
    channel = workspace.channels.filter(slack_id=action.channel).first()
    if channel is None:
        return "channel is not known"
    match action:
        case Store():
            return _store(channel, action, event, now)
        case Join(is_bot=True):
            channel.update_fields({"bot_is_in": True})
        case Join():
            channel.mark_members_changed(now)
        case Leave(person=""):
            values: dict[str, object] = {"bot_is_in": False}
            if not channel.is_public:  # no event will report who leaves it
                values["members_known_at"] = None
            channel.update_fields(values)
        case Leave(person=person):
            # In this order: a running sync with the old list sees the mark, or its list is undone.
            channel.mark_members_changed(now)
            channel.memberships.filter(person__slack_id=person).delete()
        case Describe(values=values):
            channel.update_fields(values)
        case Narrow(reason=narrowing):
            _narrow(channel, narrowing, now)
    return ""


def _store(channel: Channel, action: Store, event: SlackEvent, now: datetime) -> str:
    if action.private and channel.is_public:
        _narrow(channel, Narrowing.PRIVATE, now)
    deleted_ts = action.deleted_ts
    # A deletion counts in channels that are no longer followed, too.
    if not Channel.objects.followed().filter(pk=channel.pk).exists() and not (
        deleted_ts and channel.messages.filter(ts=deleted_ts).exists()
    ):
        return "channel is not followed"
    if not (channel.allows_sync or deleted_ts):
        return "private channels are switched off"
    if deleted_ts:
        SlackEvent.objects.of_team(event.team_id).failed().redact(deleted_ts)
    return _skip_reason(store_messages(channel, [action.raw], now))


def _skip_reason(tally: Tally) -> str:
    """Return why the only object of a tally was not stored, "" when it was."""
    for _type, outcome, _count in tally.sorted_outcomes():
        if outcome.result in (Result.SKIPPED, Result.QUARANTINED):
            return outcome.reason
    return ""


def _narrow(channel: Channel, narrowing: Narrowing, now: datetime) -> None:
    """Reduce the readers of a channel, and of the workspace's memories that rest on it."""
    was, was_shared = channel.kind, channel.is_shared
    values: dict[str, object] = {"access_narrowed_at": now}
    if narrowing is Narrowing.SHARED:
        values["is_shared"] = True
    elif channel.is_public:
        values["kind"] = Channel.Kind.PRIVATE
    if narrowing is Narrowing.DELETED:
        values["is_archived"] = True
    channel.update_fields(values)
    channel_audience.update_audience(channel, was, was_shared=was_shared)


def _stop(
    workspace: Workspace, state: str, reason: str, *, sent_at: datetime, now: datetime
) -> str:
    connection = SlackConnection.objects.of(workspace)
    if settings.SLACK_BOT_TOKEN:
        connection.use_environment_token(settings.SLACK_BOT_TOKEN)
    checked = connection.checked_at if connection.is_live else None
    if checked and checked > sent_at + CLOCK_TOLERANCE:
        return "older than the token"
    connection.stop(state, reason, now)
    logger.warning("Slack: %s, workspace %s", state, workspace.pk)
    return ""
