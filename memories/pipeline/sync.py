"""Slack → people, channels, members and messages of a workspace.

The same storing code and outcomes as an import. A sync may be stopped and run again, and what goes
wrong narrows what is known and who may read, never widens it: an old list of members grows stale,
and a channel that Slack no longer calls public is private from then on.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import F

from memories.models import Channel, Workspace
from memories.pipeline.locks import storing
from memories.pipeline.roster import set_members, store_channels, store_people
from memories.pipeline.walk import OutOfTime, Walk, Walked
from memories.rules.outcomes import Tally
from memories.rules.slack import slack_id
from memories.rules.slacktext import as_dict
from memories.slack.web import Identity, SlackClient, SlackError

logger = logging.getLogger(__name__)


class State(StrEnum):
    """How a sync left a channel."""

    SYNCED = "synced"
    NOT_MEMBER = "not_member"  # the bot has to be invited
    FAILED = "failed"
    UNFINISHED = "unfinished"  # time was up: the next sync goes on
    HIDDEN = "hidden"  # was public, and Slack lists it no longer


@dataclass
class ChannelReport:
    """``failures`` are sentences; ``not_before``: when Slack lets us come back, where it told."""

    channel_id: str
    channel_name: str
    state: State
    walked: Walked = field(default_factory=Walked)
    failures: list[str] = field(default_factory=list)
    not_before: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "channel_id": self.channel_id,
            "channel_name": self.channel_name,
            "state": self.state.value,
            "new": self.walked.new,
            "updated": self.walked.updated,
            "deleted": self.walked.deleted,
            "threads": self.walked.threads,
            "from": self.walked.asked_from,
            "to": self.walked.mark,
            "errors": self.failures,
            "not_before": self.not_before.isoformat() if self.not_before else None,
        }


@dataclass
class SyncReport:
    """``error``: why the whole sync stopped, "" when it did not; ``code`` is Slack's word for it.

    ``calls`` counts the pages asked for, by method.
    """

    workspace: str
    tally: Tally = field(default_factory=Tally)
    channels: list[ChannelReport] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    error: str = ""
    code: str = ""
    not_before: datetime | None = None

    def of(self, state: State) -> list[ChannelReport]:
        return [channel for channel in self.channels if channel.state is state]

    def as_json(self) -> dict[str, Any]:
        return {
            "workspace": self.workspace,
            "error": self.error,
            "code": self.code,
            "not_before": self.not_before.isoformat() if self.not_before else None,
            **self.tally.as_json(),
            "by_channel": [channel.as_json() for channel in self.channels],
            "calls": dict(sorted(self.calls.items())),
        }


def configured_client() -> SlackClient:
    """Slack as the settings name it; raises `SlackError` when there is no token."""
    return SlackClient(settings.SLACK_BOT_TOKEN, settings.SLACK_BASE_URL)


def sync_workspace(
    workspace: Workspace,
    client: SlackClient,
    now: datetime,
    channels: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
) -> SyncReport:
    """Read what is new in Slack; ``channels``: only these, by id or name.

    ``seconds``: begin no channel and no thread after so long. The channels whose members were
    read longest ago come first, so that each gets its turn. Raises `Busy` when an import or
    another sync of the workspace is at work; all other trouble is in the report.
    """
    with storing(workspace):
        sync = _Sync(workspace, client, now, seconds)
        try:
            sync.run(channels)
        except SlackError as error:
            sync.report.error = error.message
            sync.report.code = error.code
            sync.report.not_before = sync.not_before(error)
        sync.report.calls = client.calls.copy()
    _log(sync.report)
    return sync.report


class _Sync:
    def __init__(
        self, workspace: Workspace, client: SlackClient, now: datetime, seconds: float | None
    ) -> None:
        self.workspace = workspace
        self.client = client
        self.now = now
        self.report = SyncReport(workspace.slug)
        self._began = time.monotonic()
        self._deadline = None if seconds is None else self._began + seconds

    def not_before(self, error: SlackError) -> datetime | None:
        if error.retry_after is None:
            return None
        passed = time.monotonic() - self._began
        return self.now + timedelta(seconds=passed + error.retry_after)

    def run(self, wanted: Sequence[str] | None) -> None:
        self._connect(self.client.identity())
        for page in self.client.people():
            self.report.tally.add(store_people(self.workspace, page))
        joined = self._channels()
        rows = self._wanted(wanted)
        for channel in rows:
            if channel.slack_id in joined:
                self._channel(channel)
            elif channel.is_public and not channel.is_archived:
                self._tell(channel, State.NOT_MEMBER)
        if wanted is None and not self.report.of(State.UNFINISHED):
            self.workspace.has_been_synced(self.now)

    def _connect(self, identity: Identity) -> None:
        """From now on only fresh lists of members count. Another team's token changes nothing."""
        workspace = self.workspace
        if not identity.team_id:
            raise SlackError("malformed", "auth.test: Slack names no team.", permanent=False)
        if workspace.team_id and workspace.team_id != identity.team_id:
            raise SlackError(
                "wrong_team",
                f"The token belongs to the Slack team {identity.team_id}, and workspace"
                f" {workspace.slug} is {workspace.team_id}.",
                permanent=True,
            )
        workspace.connect(
            identity.team_id, name=identity.team_name, domain=identity.domain, now=self.now
        )

    def _channels(self) -> set[str]:
        """Store the channels as Slack lists them; returns the ids of those that the bot is in."""
        raws = [as_dict(raw) for page in self.client.channels() for raw in page]
        # A channel that Slack does not call public in so many words is private.
        kinds = ["public" if raw.get("is_private") is False else "private" for raw in raws]
        self.report.tally.add(
            store_channels(
                self.workspace, zip(raws, kinds, strict=True), known_at=self.now, live=True
            )
        )
        listed = {slack_id(raw.get("id")) for raw in raws}
        for channel in self.workspace.channels.public():
            if channel.slack_id not in listed:
                # Deleted, or made private without the bot: nobody can tell who may read it.
                channel.describe({"kind": Channel.Kind.PRIVATE})
                self._tell(channel, State.HIDDEN)
        return {slack_id(raw.get("id")) for raw in raws if raw.get("is_member") is True}

    def _wanted(self, wanted: Sequence[str] | None) -> list[Channel]:
        rows = self.workspace.channels.select_related("workspace").order_by(
            F("members_known_at").asc(nulls_first=True), "pk"
        )
        if wanted is None:
            return list(rows)
        names = {name.removeprefix("#") for name in wanted}
        found = [row for row in rows if row.slack_id in names or row.name in names]
        unknown = names.difference((row.slack_id for row in found), (row.name for row in found))
        if unknown:
            raise SlackError(
                "unknown_channel",
                f"Slack shows the bot no channel {', '.join(sorted(unknown))}."
                " Private channels are seen only once the bot is invited.",
                permanent=True,
            )
        return found

    def _channel(self, channel: Channel) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._tell(channel, State.UNFINISHED)
            return
        report = self._tell(channel, State.SYNCED)
        walk = Walk(channel, self.client, self.now, self._deadline)
        report.walked = walk.walked
        steps: list[Callable[[], None]] = [partial(self._members, channel), walk.run]
        try:
            for step in steps:
                self._try(step, report)
        finally:
            self.report.tally.add(walk.walked.tally)
        report.failures += walk.walked.failures
        if report.failures:
            report.state = State.FAILED

    def _try(self, step: Callable[[], None], report: ChannelReport) -> None:
        """What goes wrong with one channel stays with it, unless Slack refuses the token."""
        try:
            step()
        except OutOfTime:
            report.state = State.UNFINISHED
        except SlackError as error:
            report.state = State.FAILED
            report.failures.append(error.message)
            report.not_before = self.not_before(error) or report.not_before
            if error.refuses_token:
                raise

    def _members(self, channel: Channel) -> None:
        """All or nothing: a walk that breaks off leaves the old list, and its old date."""
        ids = [slack_id(one) for page in self.client.members(channel.slack_id) for one in page]
        set_members(channel, [one for one in ids if one], self.now)

    def _tell(self, channel: Channel, state: State) -> ChannelReport:
        self.report.channels.append(ChannelReport(channel.slack_id, channel.name, state))
        return self.report.channels[-1]


def _log(report: SyncReport) -> None:
    logger.info(
        "sync",
        extra={
            "workspace": report.workspace,
            "code": report.code,
            "calls": report.calls.total(),
            "new": sum(channel.walked.new for channel in report.channels),
            "failed": len(report.of(State.FAILED)),
        },
    )
    for channel in report.of(State.FAILED):
        for failure in channel.failures:
            logger.warning("sync of channel %s: %s", channel.channel_id, failure)
    if report.error:
        logger.error("sync of %s: %s", report.workspace, report.error)
