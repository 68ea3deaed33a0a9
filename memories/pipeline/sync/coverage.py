"""Coverage: how far a channel is read from Slack, and why not further."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memories.models import Channel, ChannelSync, Workspace
from memories.models.sync.channel_sync import sync_of
from memories.rules.ingest.timestamps import from_micros, micros

TEMPORARY_CODES = ("", "new", "reading_history", "threads", "ratelimited")  # need no person

_TOKEN_TEXT = _("Slack rejects the token of the app.")
_SLACK_ERROR_TEXT = _("Slack had an internal error. The next sync tries again.")
# Lazy texts for the error codes of a sync, in the language of the reader.
_ERROR_TEXTS: dict[str, str | Promise] = {
    "ratelimited": _("Slack is limiting requests. Reading resumes automatically."),
    "failed": _("Some threads were not read. The next sync tries again."),
    "unreachable": _("Slack cannot be reached. The next sync tries again."),
    "channel_not_found": _("The bot no longer has access. Invite it again."),
    "switched_off": _("Private channels are turned off in the workspace settings."),
    "missing_scope": _("A required scope is missing."),
    **dict.fromkeys(("internal_error", "fatal_error", "service_unavailable"), _SLACK_ERROR_TEXT),
    **dict.fromkeys(("request_timeout", "invalid_cursor", "malformed"), _SLACK_ERROR_TEXT),
    **dict.fromkeys(("invalid_auth", "not_authed", "account_inactive"), _TOKEN_TEXT),
    **dict.fromkeys(("token_revoked", "token_expired", "no_permission"), _TOKEN_TEXT),
}


@dataclass(frozen=True)
class Gap:
    """A range of time with unread messages. ``begin`` None: from the very beginning."""

    begin: datetime | None
    end: datetime


@dataclass(frozen=True)
class Coverage:
    """What is read of a channel.

    ``begin`` None: from its very beginning. ``end`` None: nothing yet. ``behind``: seconds since
    the last complete read, None for never. ``code`` and ``why``, its sentence, give the reason why
    the coverage is incomplete, "" if it is complete.
    """

    begin: datetime | None
    end: datetime | None
    gaps: tuple[Gap, ...]
    behind: int | None
    code: str
    why: str | Promise
    synced_at: datetime | None
    retry_at: datetime | None

    @property
    def is_complete(self) -> bool:
        return not self.code

    def as_json(self) -> dict[str, Any]:
        return {
            "from": self.begin.isoformat() if self.begin else None,
            "to": self.end.isoformat() if self.end else None,
            "gaps": [
                {"from": gap.begin.isoformat() if gap.begin else None, "to": gap.end.isoformat()}
                for gap in self.gaps
            ],
            "behind": self.behind,
            "code": self.code,
            "why": str(self.why),
        }


def is_late(workspace: Workspace, now: datetime) -> bool:
    """Return whether the last sync of a connected workspace took place too long ago."""
    connected_at = workspace.connected_at
    if connected_at is None:
        return False
    return workspace.is_late(now - (workspace.synced_at or connected_at))


def coverage_of(channel: Channel, now: datetime) -> Coverage:
    """Return the coverage. No query if the channel was read with its ``sync`` and workspace.

    A read older than `SYNC_MAX_AGE` takes up to two: the connection and the number of channels.
    """
    sync = sync_of(channel)
    gaps = tuple(_gaps(sync))
    end = _moment(sync.history_newest_ts or sync.synced_ts)
    first = bool(gaps) and gaps[0].begin is None
    behind = int((now - sync.synced_at).total_seconds()) if sync.synced_at else None
    code, why = _explain(channel, sync, gaps, behind)
    return Coverage(
        begin=gaps[0].end if first else None,
        end=end,
        gaps=gaps,
        behind=max(0, behind) if behind is not None else None,
        code=code,
        why=why,
        synced_at=sync.synced_at,
        retry_at=sync.retry_at,
    )


def _gaps(sync: ChannelSync) -> list[Gap]:
    """Return the gap that a read in progress leaves above ``synced_ts``."""
    at = _moment(sync.history_reached_ts)
    mark = _moment(sync.synced_ts)
    if at is None or (mark is not None and at <= mark):
        return []
    return [Gap(mark, at)]


def _explain(
    channel: Channel, sync: ChannelSync, gaps: tuple[Gap, ...], behind: int | None
) -> tuple[str, str | Promise]:
    if channel.forgotten_at is not None and not channel.is_followed:
        return "forgotten", _("Its contents were forgotten.")
    if not channel.is_followed:
        return "not_followed", _("Not selected. Its messages are not read from Slack.")
    if not channel.bot_is_in and channel.is_archived:
        return "is_archived", _("The channel is archived.")
    if not channel.bot_is_in:
        return "not_in_channel", _("The bot is not in the channel. Invite it in Slack.")
    if code := sync.error_code:
        return code, _ERROR_TEXTS.get(code) or format_lazy(
            _("Slack refused the request: {code}."), code=code
        )
    if gaps:
        return "reading_history", _("Older messages are being read.")
    if behind is None:
        return "new", _("Not read completely yet.")
    if sync.history_started_at is not None:
        return "threads", _("Thread replies are being read.")
    if channel.workspace.is_late(timedelta(seconds=behind)):
        return "late", _("The last sync was long ago. Check that the worker is running.")
    return "", ""


def _moment(ts: str) -> datetime | None:
    return from_micros(micros(ts)) if ts else None
