"""How far a channel is read from Slack, and why not further: what a person has to know of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memories.models import Channel, ChannelSync, Workspace
from memories.models.sync.channel_sync import sync_of
from memories.rules.health import SYNC_MAX_AGE
from memories.rules.ingest.timestamps import from_micros, micros

BY_ITSELF = ("", "new", "walking", "threads", "ratelimited")  # codes that nobody has to act on

_TOKEN = _("Slack refuses the token of the app.")
_SLACKS_OWN = _("Slack had an error of its own; the next sync tries again.")
# What the last sync met, by its code: said when it is read, in its reader's language.
_MET: dict[str, str | Promise] = {
    "ratelimited": _("Slack gives no more for now; it goes on by itself."),
    "failed": _("Some threads were not read; the next sync tries again."),
    "unreachable": _("Slack cannot be reached; the next sync tries again."),
    "channel_not_found": _("Slack shows it to the bot no more: invite the bot again."),
    "switched_off": _("Private channels are switched off in the workspace's settings."),
    "missing_scope": _("The app lacks a scope that this needs."),
    **dict.fromkeys(("internal_error", "fatal_error", "service_unavailable"), _SLACKS_OWN),
    **dict.fromkeys(("request_timeout", "invalid_cursor", "malformed"), _SLACKS_OWN),
    **dict.fromkeys(("invalid_auth", "not_authed", "account_inactive"), _TOKEN),
    **dict.fromkeys(("token_revoked", "token_expired", "no_permission"), _TOKEN),
}


@dataclass(frozen=True)
class Gap:
    """Messages between these moments are not all read yet; None: from the very beginning."""

    begin: datetime | None
    end: datetime


@dataclass(frozen=True)
class Coverage:
    """What is read of a channel. ``begin`` None: from its very beginning; ``end`` None: nothing yet.

    ``behind``: seconds since Slack was last compared with it up to its newest message, None when
    never. ``code`` is a word for why it is not further, "" when it is as far as can be, and ``why``
    its sentence.
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
    def is_whole(self) -> bool:
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
    """Whether a connected workspace's last sync was so long ago that somebody has to look."""
    last = workspace.synced_at or workspace.connected_at
    return workspace.connected_at is not None and last is not None and now - last > SYNC_MAX_AGE


def coverage_of(channel: Channel, now: datetime) -> Coverage:
    """Return the coverage. No query if the channel was read with its ``sync``."""
    sync = sync_of(channel)
    gaps = tuple(_gaps(sync))
    end = _moment(sync.history_newest_ts or sync.synced_ts)
    first = bool(gaps) and gaps[0].begin is None
    behind = int((now - sync.synced_at).total_seconds()) if sync.synced_at else None
    code, why = _why(channel, sync, gaps, behind)
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
    """A walk under way leaves one between the mark and how far down it has come."""
    at = _moment(sync.history_reached_ts)
    mark = _moment(sync.synced_ts)
    if at is None or (mark is not None and at <= mark):
        return []
    return [Gap(mark, at)]


def _why(
    channel: Channel, sync: ChannelSync, gaps: tuple[Gap, ...], behind: int | None
) -> tuple[str, str | Promise]:
    if channel.forgotten_at is not None and not channel.is_followed:
        return "forgotten", _("Everything in it was forgotten.")
    if not channel.is_followed:
        return "not_followed", _("Nobody chose it: its messages are not read from Slack.")
    if not channel.bot_is_in:
        return "not_in_channel", _("The bot is not in it: invite it in Slack.")
    if code := sync.error_code:
        return code, _MET.get(code) or format_lazy(_("Slack refuses it: {code}."), code=code)
    if gaps:
        return "walking", _("Older messages are being read.")
    if behind is None:
        return "new", _("It was not read to the end yet.")
    if sync.history_started_at is not None:
        return "threads", _("Replies of threads are being read.")
    if behind > SYNC_MAX_AGE.total_seconds():
        return "late", _("The last sync was long ago: is the worker running?")
    return "", ""


def _moment(ts: str) -> datetime | None:
    return from_micros(micros(ts)) if ts else None
