"""Slack → people, channels, members and messages of a workspace.

The same storing code and outcomes as an import. A sync may be stopped and run again, and what goes
wrong narrows what is known and who may read, never widens it: an old list of members grows stale,
and a channel that Slack no longer calls public is private from then on.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from memories.models import Channel, ChannelSync, SlackConnection, Workspace
from memories.pipeline.access import audience
from memories.pipeline.ingest.roster import (
    demote_unlisted_people,
    set_members,
    store_channels,
    store_people,
)
from memories.pipeline.locks import lock_workspace
from memories.pipeline.sync import connecting
from memories.pipeline.sync.channel_fetcher import ChannelFetcher, OutOfTime, Walked, stop_watch
from memories.pipeline.sync.coverage import Coverage, coverage_of
from memories.pipeline.sync.history import HistoryReader
from memories.pipeline.sync.threads import Threads
from memories.rules.ingest.message_text import as_dict
from memories.rules.ingest.outcomes import Tally
from memories.rules.ingest.slack_objects import parse_slack_id
from memories.rules.sync import resync_schedule
from memories.slack.web import Identity, SlackClient, SlackError

logger = logging.getLogger(__name__)


class State(StrEnum):
    """How a sync left a channel."""

    SYNCED = "synced"
    NOT_MEMBER = "not_member"  # the bot has to be invited
    FAILED = "failed"
    LIMITED = "limited"  # Slack gives no more calls for now: the next sync goes on
    UNFINISHED = "unfinished"  # time was up: the next sync goes on
    HIDDEN = "hidden"  # was public, and Slack lists it no longer
    SWITCHED_OFF = "switched_off"  # private, and the workspace's settings say not to read those


@dataclass
class ChannelReport:
    """``failures`` are sentences; ``not_before``: when Slack lets us come back, where it told."""

    channel_id: str
    channel_name: str
    state: State
    walked: Walked = field(default_factory=Walked)
    failures: list[str] = field(default_factory=list)
    code: str = ""
    not_before: datetime | None = None
    coverage: Coverage | None = None

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
            "coverage": self.coverage.as_json() if self.coverage else None,
        }

    def goes_wrong(self, error: SlackError, not_before: datetime | None) -> None:
        """A failure counts for more than a limit, and the limit that ends last for most."""
        if error.code != "ratelimited":
            self.state, self.code = State.FAILED, error.code
            self.failures.append(error.message)
        elif self.state is not State.FAILED:
            self.state, self.code = State.LIMITED, error.code
        if not_before and (self.not_before is None or not_before > self.not_before):
            self.not_before = not_before


@dataclass
class SyncReport:
    """``error``: why the whole sync stopped, "" when it did not; ``code`` is Slack's word for it.

    ``calls`` counts the pages asked for, by method; ``not_followed`` the channels that are not read
    because nobody chose them.
    """

    workspace: str
    tally: Tally = field(default_factory=Tally)
    channels: list[ChannelReport] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    not_followed: int = 0
    slow_plan: bool = False
    error: str = ""
    code: str = ""
    not_before: datetime | None = None

    def call_by(self, names: Mapping[str, str]) -> None:
        """Channels by these names (by Slack id), and nameless where a reader knows none."""
        for channel in self.channels:
            channel.channel_name = names.get(channel.channel_id, "")

    def of(self, *states: State) -> list[ChannelReport]:
        return [channel for channel in self.channels if channel.state in states]

    def as_json(self) -> dict[str, Any]:
        return {
            "workspace": self.workspace,
            "error": self.error,
            "code": self.code,
            "not_before": self.not_before.isoformat() if self.not_before else None,
            "slow_plan": self.slow_plan,
            "not_followed": self.not_followed,
            **self.tally.as_json(),
            "by_channel": [channel.as_json() for channel in self.channels],
            "calls": dict(sorted(self.calls.items())),
        }


def sync_workspace(
    workspace: Workspace,
    client: SlackClient,
    now: datetime,
    channels: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
    full: bool = False,
    goes_on: bool = False,
    stopwatch: Callable[[], float] = time.monotonic,
) -> SyncReport:
    """Read what is new in Slack, of the channels that are followed.

    ``channels``: only these, by id or name, and follow them from now on. ``full``: look all over
    them, not only where it is time to. ``goes_on``: what was listed or walked minutes ago need not
    be again. ``seconds``: ask for no page after so long. The channels whose turn was
    longest ago come first. Raises `Busy` when an import or another sync of the workspace is at work;
    all other trouble is in the report.
    """
    with lock_workspace(workspace):
        sync = _Sync(workspace, client, now, seconds, stopwatch)
        try:
            sync.run(channels, full=full, goes_on=goes_on)
        except SlackError as error:
            sync.stop(error)
        sync.end()
    _log(sync.report)
    return sync.report


class _Sync:
    def __init__(
        self,
        workspace: Workspace,
        client: SlackClient,
        now: datetime,
        seconds: float | None,
        stopwatch: Callable[[], float],
    ) -> None:
        self.workspace = workspace
        self.client = client
        self.now = now
        self.report = SyncReport(workspace.slug)
        self._stopwatch = stopwatch
        self._began = stopwatch()
        self._in_time = stop_watch(seconds, stopwatch)

    def not_before(self, error: SlackError) -> datetime | None:
        if error.retry_after is None:
            return None
        passed = self._stopwatch() - self._began
        return self.now + timedelta(seconds=passed + error.retry_after)

    def run(self, requested: Sequence[str] | None, *, full: bool, goes_on: bool) -> None:
        if not (goes_on and resync_schedule.is_fresh(self.workspace.listed_at, self.now)):
            self._roster(private=requested is not None)
        turns = [
            _Turn(self, channel) for channel in self._followed(requested) if self._may_read(channel)
        ]
        back = resync_schedule.looks_back_first(self.now)
        try:
            for turn in turns:
                turn.begin(full=full)
            for turn in turns:
                turn.look_back() if back else turn.look(goes_on=goes_on)
            for turn in turns:
                turn.look(goes_on=goes_on) if back else turn.look_back()
        finally:
            for turn in turns:
                turn.end()
        self._is_known(whole=requested is None)

    def stop(self, error: SlackError) -> None:
        report = self.report
        report.error, report.code = error.message, error.code
        report.not_before = self.not_before(error)
        connecting.disconnect_if_rejected(self.workspace, self.client, error, self.now)

    def end(self) -> None:
        report = self.report
        report.calls = self.client.calls.copy()
        report.slow_plan = self.client.slow_plan
        if report.slow_plan:
            SlackConnection.objects.of(self.workspace).is_slow()
        if report.code not in ("wrong_team", "unknown_channel", "forgotten"):
            self.workspace.sync_again(self._next_look())

    def _next_look(self) -> datetime:
        """As soon as Slack lets us where there is more to read; the worker's clock is rough."""
        report = self.report
        if report.error:
            return report.not_before or self.now + timedelta(minutes=1)
        if report.of(State.UNFINISHED):
            return self.now
        limits = [
            channel_report.not_before
            for channel_report in report.of(State.LIMITED)
            if channel_report.not_before
        ]
        return min([*limits, self.now + resync_schedule.SYNC_EVERY])

    def _is_known(self, *, whole: bool) -> None:
        """Conversations are known as far as those channels are that could be read at all; one in its
        first walk holds up nobody, for nothing of it is remembered yet."""
        rows = self.workspace.channels.past_first_sync()
        if whole:
            ids = [channel_report.channel_id for channel_report in self.report.of(*_READABLE)]
            rows = rows.filter(slack_id__in=ids)
        else:  # of the others, as far as the syncs before have come
            rows = rows.followed().filter(bot_is_in=True)
            if not self.workspace.memory_settings.read_private_channels:
                rows = rows.public()
        as_of = list(rows.values_list("sync__synced_at", flat=True))
        known_moments = [moment for moment in as_of if moment is not None]
        if len(known_moments) == len(as_of):
            self.workspace.has_been_synced(min(known_moments, default=self.now))

    # Who and what is there

    def _roster(self, *, private: bool) -> None:
        self._connect(self.client.identity())
        named = set()
        for page in self.client.people():
            self.report.tally.add(store_people(self.workspace, page, live=True))
            named |= {parse_slack_id(as_dict(raw).get("id")) for raw in page}
        if unnamed := demote_unlisted_people(self.workspace, named):
            logger.warning("sync of %s: Slack lists %s people no more", self.workspace, unnamed)
        self._channels(private=private)
        self.workspace.has_been_listed(self.now)

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

    def _channels(self, *, private: bool) -> None:
        """Store the channels as Slack lists them, and which of them the bot is in."""
        raws = self._listed(private=private)
        # A channel that Slack does not call public in so many words is private.
        kinds = ["public" if raw.get("is_private") is False else "private" for raw in raws]
        self.report.tally.add(
            store_channels(
                self.workspace, zip(raws, kinds, strict=True), known_at=self.now, live=True
            )
        )
        listed = {parse_slack_id(raw.get("id")) for raw in raws}
        for channel in self.workspace.channels.public():
            if channel.slack_id not in listed:
                # Deleted, or made private without the bot: nobody can tell who may read it.
                with transaction.atomic():
                    channel.describe({"kind": Channel.Kind.PRIVATE})
                    audience.follow(channel, Channel.Kind.PUBLIC, was_shared=channel.is_shared)
                self._add_report(channel, State.HIDDEN)
        joined = {parse_slack_id(raw.get("id")) for raw in raws if raw.get("is_member") is True}
        self.workspace.channels.set_bot_channels(joined)

    def _listed(self, *, private: bool) -> list[dict[str, Any]]:
        """Private channels only where somebody wants them read: their scope is asked for then."""
        reads_private = self.workspace.memory_settings.read_private_channels
        followed = self.workspace.channels.followed().exclude(kind=Channel.Kind.PUBLIC)
        if reads_private or private or followed.exists():
            try:
                return self._list(private=True)
            except SlackError as error:
                if reads_private or error.code != "missing_scope":
                    raise
        return self._list(private=False)

    def _list(self, *, private: bool) -> list[dict[str, Any]]:
        return [as_dict(raw) for page in self.client.channels(private=private) for raw in page]

    def _followed(self, requested: Sequence[str] | None) -> list[Channel]:
        rows = self.workspace.channels.select_related("workspace").order_by(
            F("sync__last_read_at").asc(nulls_first=True), "pk"
        )
        if requested is None:
            followed = list(rows.followed())
            self.report.not_followed = self.workspace.channels.count() - len(followed)
            return followed
        names = {name.removeprefix("#") for name in requested}
        channels = list(rows.filter(Q(slack_id__in=names) | Q(name__in=names)))
        unknown = names.difference(
            (row.slack_id for row in channels), (row.name for row in channels)
        )
        if unknown:
            raise SlackError(
                "unknown_channel",
                f"Slack shows the bot no channel {', '.join(sorted(unknown))}."
                " Private channels are seen only once the bot is invited.",
                permanent=True,
            )
        if forgotten := [row.slack_id for row in channels if row.forgotten_at is not None]:
            raise SlackError(
                "forgotten",
                f"{', '.join(forgotten)} was forgotten: it is not read from Slack any more.",
                permanent=True,
            )
        for channel in channels:
            channel.follow(by=None, on=True)
        return channels

    def _may_read(self, channel: Channel) -> bool:
        if channel.bot_is_in:
            return True
        ChannelSync.objects.of(channel).record_result("not_in_channel", "", None)
        if not channel.is_archived and not self._is_reported(channel):
            self._add_report(channel, State.NOT_MEMBER).coverage = coverage_of(channel, self.now)
        return False

    def _is_reported(self, channel: Channel) -> bool:
        return any(
            channel_report.channel_id == channel.slack_id for channel_report in self.report.channels
        )

    def _add_report(self, channel: Channel, state: State) -> ChannelReport:
        self.report.channels.append(ChannelReport(channel.slack_id, channel.name, state))
        return self.report.channels[-1]


class _Turn:
    """One channel's part in a sync. What goes wrong with it stays with it, unless Slack refuses the
    token."""

    def __init__(self, sync: _Sync, channel: Channel) -> None:
        self.sync = sync
        self.channel = channel
        self.report = sync._add_report(channel, State.SYNCED)
        reading = ChannelFetcher(channel, sync.client, sync.now, sync._in_time)
        self.channel_sync = reading.sync
        self.walked = self.report.walked = reading.walked
        self.history = HistoryReader(reading)
        self.threads = Threads(reading)
        self._has_looked = False
        # If not, its members are asked for all the same: who may read what is kept may change.
        self._is_read = channel.may_be_read

    def begin(self, *, full: bool) -> None:
        if full:
            self.channel_sync.request_full_resync(self.sync.now - resync_schedule.PACE)
            self.channel.messages.roots().update(replies_read_at=None)

    def look(self, *, goes_on: bool) -> None:
        """Who is in it, what is new, and what moved in the hot window."""
        self._has_looked = True
        due = resync_schedule.members_are_due(self.channel.members_known_at, self.sync.now)
        if due or self.channel.have_members_changed:
            self._try(self._members)
        if not self._is_read:
            return
        self._try(partial(self.history.run, goes_on=goes_on))
        self._try(self.threads.read_owed)

    def look_back(self) -> None:
        """What else it is time to compare with Slack."""
        if not self._is_read:
            return
        self._try(self.history.sweep_on)
        self._try(self.threads.turn_ring)

    def end(self) -> None:
        report, channel, now = self.report, self.channel, self.sync.now
        self.sync.report.tally.add(self.walked.tally)
        report.failures += self.walked.failures
        if self.walked.failures:
            report.state = State.FAILED
        elif not self._has_looked and report.state is State.SYNCED:
            report.state = State.UNFINISHED
        if not self._is_read and report.state in (State.SYNCED, State.UNFINISHED):
            report.state, report.code = State.SWITCHED_OFF, "switched_off"
        if self.walked.pages:
            self.channel_sync.set_last_read(now)
        if self._is_read and not self.threads.are_owed:
            self.channel_sync.finish_threads()
        text = " ".join(report.failures)
        self.channel_sync.record_result(
            report.code or ("failed" if text else ""), text, report.not_before
        )
        report.coverage = coverage_of(channel, now)

    def _members(self) -> None:
        """All or nothing: a walk that breaks off leaves the old list, and its old date."""
        pages = self.sync.client.members(self.channel.slack_id)
        ids = [parse_slack_id(member) for page in pages for member in page]
        set_members(
            self.channel, [member_id for member_id in ids if member_id], self.sync.now, live=True
        )

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OutOfTime:
            if self.report.state is State.SYNCED:
                self.report.state = State.UNFINISHED
        except SlackError as error:
            self.report.goes_wrong(error, self.sync.not_before(error))
            if error.refuses_token:
                raise


# What these are known up to holds for the workspace; the others cannot be waited for.
_READABLE = (State.SYNCED, State.LIMITED, State.UNFINISHED)


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
