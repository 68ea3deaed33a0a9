"""Sync: people, channels, members and messages of a workspace, read from Slack.

Objects are stored like those of an import. A sync may stop at any point and run again. An error
only reduces access: an old list of members expires, and a channel that Slack does not call public
becomes private.
"""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, Min, Q

from memories.models import Channel, ChannelSync, SlackConnection, Workspace
from memories.pipeline.access import channel_audience
from memories.pipeline.ingest.roster import (
    demote_unlisted_people,
    set_members,
    store_channels,
    store_people,
)
from memories.pipeline.locks import lock_workspace
from memories.pipeline.sync import connecting
from memories.pipeline.sync.channel_fetcher import ChannelFetcher, OutOfTime, time_limit
from memories.pipeline.sync.coverage import coverage_of
from memories.pipeline.sync.history import HistoryReader
from memories.pipeline.sync.sync_report import ChannelReport, SyncReport, SyncState
from memories.pipeline.sync.threads import ThreadReader
from memories.rules.ingest.slack_objects import parse_slack_id
from memories.rules.json_values import as_dict
from memories.rules.sync import resync_schedule
from memories.slack.web import SlackClient, SlackError

logger = logging.getLogger(__name__)

# States of channels that the bot can read.
READABLE = (SyncState.SYNCED, SyncState.LIMITED, SyncState.UNFINISHED)
# Errors that need a person: no sync is scheduled.
NO_RETRY = ("wrong_team", "unknown_channel", "forgotten")


def sync_workspace(
    workspace: Workspace,
    client: SlackClient,
    now: datetime,
    channels: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
    full: bool = False,
    resume: bool = False,
    stopwatch: Callable[[], float] = time.monotonic,
) -> SyncReport:
    """Read new and changed objects of the followed channels, those with the oldest read first.

    ``channels`` limits the sync to these ids or names, and follows them. ``full`` compares all
    messages and threads. ``resume`` skips lists and reads that are minutes old. No page is
    requested after ``seconds``. Raises `Busy` if another import or sync of the workspace runs. The
    report contains all other errors.
    """
    with lock_workspace(workspace):
        sync = _Sync(workspace, client, now, seconds, stopwatch)
        try:
            sync.run(channels, full=full, resume=resume)
        except SlackError as error:
            sync.stop(error)
        sync.finish()
    sync.report.log()
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
        self.has_time = time_limit(seconds, stopwatch)
        self._stopwatch = stopwatch
        self._start = stopwatch()

    def retry_at(self, error: SlackError) -> datetime | None:
        """Return when Slack allows the next call, if it said."""
        if error.retry_after is None:
            return None
        passed = self._stopwatch() - self._start
        return self.now + timedelta(seconds=passed + error.retry_after)

    def run(self, requested: Sequence[str] | None, *, full: bool, resume: bool) -> None:
        if not (resume and resync_schedule.is_fresh(self.workspace.listed_at, self.now)):
            self._list_everything(with_private=requested is not None)
        channels = self._followed(requested)
        syncs = [_ChannelSync(self, channel) for channel in channels if self._has_bot(channel)]
        is_resync_first = resync_schedule.starts_with_resync(self.now)
        try:
            if full:
                for sync in syncs:
                    sync.request_full_resync()
            for is_resync in (is_resync_first, not is_resync_first):
                for sync in syncs:
                    sync.resync() if is_resync else sync.read_new(resume=resume)
        finally:
            for sync in syncs:
                sync.finish()
        self._set_synced_at(is_whole=requested is None)

    def stop(self, error: SlackError) -> None:
        report = self.report
        report.error, report.code = error.message, error.code
        report.retry_at = self.retry_at(error)
        connecting.disconnect_if_rejected(self.workspace, self.client, error, self.now)

    def finish(self) -> None:
        report = self.report
        report.calls = self.client.calls.copy()
        report.slow_plan = self.client.slow_plan
        if report.slow_plan:
            SlackConnection.objects.of(self.workspace).mark_slow()
        if report.code not in NO_RETRY:
            self.workspace.schedule_sync(self._next_sync_at())

    def _next_sync_at(self) -> datetime:
        """Return when Slack allows the next call, if there is more to read."""
        report = self.report
        if report.error:
            return report.retry_at or self.now + timedelta(minutes=1)
        if report.in_state(SyncState.UNFINISHED):
            return self.now
        limits = [each.retry_at for each in report.in_state(SyncState.LIMITED)]
        return min([*filter(None, limits), self.now + resync_schedule.SYNC_INTERVAL])

    def _set_synced_at(self, *, is_whole: bool) -> None:
        """Set how far all readable channels are read.

        Channels in their first sync do not count, because nothing of them is remembered yet.
        """
        rows = self.workspace.channels.past_first_sync()
        if is_whole:
            ids = [each.channel_id for each in self.report.in_state(*READABLE)]
            rows = rows.filter(slack_id__in=ids)
        else:  # other channels are read as far as earlier syncs came
            rows = rows.followed().filter(bot_is_in=True)
            if not self.workspace.memory_settings.read_private_channels:
                rows = rows.public()
        if not rows.filter(sync__synced_at=None).exists():
            oldest = rows.aggregate(oldest=Min("sync__synced_at"))["oldest"]
            self.workspace.mark_synced(oldest or self.now)

    # People and channels

    def _list_everything(self, *, with_private: bool) -> None:
        self._connect()
        listed = set()
        for page in self.client.people():
            self.report.tally.add(store_people(self.workspace, page, live=True))
            listed |= {parse_slack_id(as_dict(raw).get("id")) for raw in page}
        if unlisted := demote_unlisted_people(self.workspace, listed):
            logger.warning("sync of %s: Slack no longer lists %s people", self.workspace, unlisted)
        self._store_channels(self._channel_list(with_private=with_private))
        self.workspace.mark_listed(self.now)

    def _connect(self) -> None:
        """Connect the workspace to the team of the token: from now on lists of members expire."""
        workspace, identity = self.workspace, self.client.identity()
        if token_error := connecting.find_token_error(workspace, identity):
            code, text = token_error
            raise SlackError(code, str(text), permanent=code != "malformed")
        connections = SlackConnection.objects.filter(workspace=workspace)
        connections.update(bot_id=identity.bot_id)  # its posts are not stored
        workspace.connect(
            identity.team_id, name=identity.team_name, domain=identity.domain, now=self.now
        )

    def _channel_list(self, *, with_private: bool) -> list[dict[str, Any]]:
        """List the channels. Private ones need a scope, so they are listed only where wanted."""
        reads_private = self.workspace.memory_settings.read_private_channels
        followed = self.workspace.channels.followed().exclude(kind=Channel.Kind.PUBLIC)

        def fetch(*, private: bool) -> list[dict[str, Any]]:
            pages = self.client.channels(private=private)
            return [as_dict(raw) for page in pages for raw in page]

        if reads_private or with_private or followed.exists():
            try:
                return fetch(private=True)
            except SlackError as error:
                if reads_private or error.code != "missing_scope":
                    raise
        return fetch(private=False)

    def _store_channels(self, raws: list[dict[str, Any]]) -> None:
        """Store the listed channels, and in which of them the bot is."""
        # A channel is private unless Slack explicitly calls it public.
        kinds = ["public" if raw.get("is_private") is False else "private" for raw in raws]
        pairs = zip(raws, kinds, strict=True)
        self.report.tally.add(store_channels(self.workspace, pairs, known_at=self.now, live=True))
        listed = {parse_slack_id(raw.get("id")) for raw in raws}
        for channel in self.workspace.channels.public():
            if channel.slack_id not in listed:
                # It was deleted, or became private without the bot: its readers are unknown.
                with transaction.atomic():
                    channel.update_fields({"kind": Channel.Kind.PRIVATE})
                    channel_audience.update_audience(
                        channel, Channel.Kind.PUBLIC, was_shared=channel.is_shared
                    )
                self.add_report(channel, SyncState.HIDDEN)
        joined = {parse_slack_id(raw.get("id")) for raw in raws if raw.get("is_member") is True}
        self.workspace.channels.set_bot_channels(joined)

    # Followed channels

    def _followed(self, requested: Sequence[str] | None) -> list[Channel]:
        """Return the channels to read, and follow the requested ones."""
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
                " The bot sees private channels only after an invitation.",
                permanent=True,
            )
        if forgotten := [row.slack_id for row in channels if row.forgotten_at is not None]:
            raise SlackError(
                "forgotten",
                f"{', '.join(forgotten)} was forgotten and is no longer read from Slack.",
                permanent=True,
            )
        for channel in channels:
            channel.follow(by=None, on=True)
        return channels

    def _has_bot(self, channel: Channel) -> bool:
        """Return if the bot is in the channel. Otherwise record that it is not."""
        if channel.bot_is_in:
            return True
        ChannelSync.objects.of(channel).record_result("not_in_channel", "", None)
        is_reported = any(each.channel_id == channel.slack_id for each in self.report.channels)
        if not channel.is_archived and not is_reported:
            report = self.add_report(channel, SyncState.NOT_MEMBER)
            report.coverage = coverage_of(channel, self.now)
        return False

    def add_report(self, channel: Channel, state: SyncState) -> ChannelReport:
        report = ChannelReport(channel.slack_id, channel.name, state)
        self.report.channels.append(report)
        return report


class _ChannelSync:
    """The sync of one channel. Its errors do not stop the others, unless the token is refused."""

    def __init__(self, workspace_sync: _Sync, channel: Channel) -> None:
        self.workspace_sync = workspace_sync
        self.channel = channel
        self.client, self.now = workspace_sync.client, workspace_sync.now
        self.report = workspace_sync.add_report(channel, SyncState.SYNCED)
        fetcher = ChannelFetcher(channel, self.client, self.now, workspace_sync.has_time)
        self.row = fetcher.sync
        self.stats = self.report.stats = fetcher.stats
        self.history = HistoryReader(fetcher)
        self.threads = ThreadReader(fetcher)
        self._has_started = False
        # Members are read in any case, because they decide who may read stored messages.
        self._reads_messages = channel.allows_sync

    def request_full_resync(self) -> None:
        self.row.request_full_resync(self.now - resync_schedule.THREAD_PERIOD)
        self.channel.messages.roots().update(replies_read_at=None)

    def read_new(self, *, resume: bool) -> None:
        """Read members, new messages, the hot window and changed threads."""
        self._has_started = True
        channel = self.channel
        is_due = resync_schedule.are_members_due(channel.members_known_at, self.now)
        if is_due or channel.have_members_changed:
            self._try(self._read_members)
        if self._reads_messages:
            self._try(partial(self.history.read, resume=resume))
            self._try(self.threads.read_changed)

    def resync(self) -> None:
        """Compare older messages and threads that are due."""
        if self._reads_messages:
            self._try(self.history.continue_resync)
            self._try(self.threads.resync)

    def finish(self) -> None:
        report, stats, row = self.report, self.stats, self.row
        self.workspace_sync.report.tally.add(stats.tally)
        report.failures += stats.failures
        if stats.failures:
            report.state = SyncState.FAILED
        elif not self._has_started and report.state is SyncState.SYNCED:
            report.state = SyncState.UNFINISHED
        is_fine = report.state in (SyncState.SYNCED, SyncState.UNFINISHED)
        if not self._reads_messages and is_fine:
            report.state, report.code = SyncState.SWITCHED_OFF, "switched_off"
        if stats.pages:
            row.set_last_read(self.now)
        if self._reads_messages and not self.threads.has_unread:
            row.finish_threads()
        text = " ".join(report.failures)
        row.record_result(report.code or ("failed" if text else ""), text, report.retry_at)
        report.coverage = coverage_of(self.channel, self.now)

    def _read_members(self) -> None:
        """Store the complete list of members. An error keeps the old list and its time."""
        pages = self.client.members(self.channel.slack_id)
        ids = [slack_id for page in pages for raw in page if (slack_id := parse_slack_id(raw))]
        set_members(self.channel, ids, self.now, live=True)

    def _try(self, step: Callable[[], None]) -> None:
        """Run a step. Record its error, and raise it again if Slack refuses the token."""
        try:
            step()
        except OutOfTime:
            if self.report.state is SyncState.SYNCED:
                self.report.state = SyncState.UNFINISHED
        except SlackError as error:
            self.report.add_error(error, self.workspace_sync.retry_at(error))
            if error.refuses_token:
                raise
