"""Reports of a sync, for the log, the command and its JSON."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from memories.pipeline.sync.channel_fetcher import ReadStats
from memories.pipeline.sync.coverage import Coverage
from memories.rules.ingest.outcomes import Tally
from memories.slack.web import SlackError

logger = logging.getLogger(__name__)


class SyncState(StrEnum):
    """The state of a channel after a sync."""

    SYNCED = "synced"
    NOT_MEMBER = "not_member"  # the bot needs an invitation
    FAILED = "failed"
    LIMITED = "limited"  # by Slack's rate limit: the next sync continues
    UNFINISHED = "unfinished"  # the time limit is over: the next sync continues
    HIDDEN = "hidden"  # it was public, and Slack lists it no more
    SWITCHED_OFF = "switched_off"  # it is private, and the settings exclude private channels


@dataclass
class ChannelReport:
    """``failures`` are sentences. ``retry_at`` is when Slack allows the next call, if it said."""

    channel_id: str
    channel_name: str
    state: SyncState
    stats: ReadStats = field(default_factory=ReadStats)
    failures: list[str] = field(default_factory=list)
    code: str = ""
    retry_at: datetime | None = None
    coverage: Coverage | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "channel_id": self.channel_id,
            "channel_name": self.channel_name,
            "state": self.state.value,
            "new": self.stats.new,
            "updated": self.stats.updated,
            "deleted": self.stats.deleted,
            "threads": self.stats.threads,
            "from": self.stats.start_ts,
            "to": self.stats.end_ts,
            "errors": self.failures,
            "retry_at": self.retry_at.isoformat() if self.retry_at else None,
            "coverage": self.coverage.as_json() if self.coverage else None,
        }

    def add_error(self, error: SlackError, retry_at: datetime | None) -> None:
        """Record an error. A failure outweighs a rate limit, and the latest limit counts."""
        if error.code != "ratelimited":
            self.state, self.code = SyncState.FAILED, error.code
            self.failures.append(error.message)
        elif self.state is not SyncState.FAILED:
            self.state, self.code = SyncState.LIMITED, error.code
        if retry_at and (self.retry_at is None or retry_at > self.retry_at):
            self.retry_at = retry_at


@dataclass
class SyncReport:
    """``error`` and Slack's ``code`` say why the whole sync stopped, "" if it did not."""

    workspace: str
    tally: Tally = field(default_factory=Tally)
    channels: list[ChannelReport] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)  # requested pages by method
    not_followed: int = 0  # channels that nobody chose
    slow_plan: bool = False
    error: str = ""
    code: str = ""
    retry_at: datetime | None = None

    def set_channel_names(self, names: Mapping[str, str]) -> None:
        """Set the names by Slack id, "" for channels that the reader may not read."""
        for channel in self.channels:
            channel.channel_name = names.get(channel.channel_id, "")

    def in_state(self, *states: SyncState) -> list[ChannelReport]:
        return [channel for channel in self.channels if channel.state in states]

    def as_json(self) -> dict[str, Any]:
        return {
            "workspace": self.workspace,
            "error": self.error,
            "code": self.code,
            "retry_at": self.retry_at.isoformat() if self.retry_at else None,
            "slow_plan": self.slow_plan,
            "not_followed": self.not_followed,
            **self.tally.as_json(),
            "by_channel": [channel.as_json() for channel in self.channels],
            "calls": dict(sorted(self.calls.items())),
        }

    def log(self) -> None:
        failed = self.in_state(SyncState.FAILED)
        logger.info(
            "sync",
            extra={
                "workspace": self.workspace,
                "code": self.code,
                "calls": self.calls.total(),
                "new": sum(channel.stats.new for channel in self.channels),
                "failed": len(failed),
            },
        )
        for channel in failed:
            for failure in channel.failures:
                logger.warning("sync of channel %s: %s", channel.channel_id, failure)
        if self.error:
            logger.error("sync of %s: %s", self.workspace, self.error)
