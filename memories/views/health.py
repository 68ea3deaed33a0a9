"""How a workspace does, as far as its reader is told: for the page of jobs and the navigation.

The worker and the model are for members to know of, not for guests.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings

from memories.models import Channel, Generation, Heartbeat, Reader, SlackConnection, Workspace
from memories.pipeline.coverage import coverage_of
from memories.pipeline.operate import trouble_of
from memories.rules.health import Signs
from memories.rules.waits import Trouble

# Why a channel is not read further, where that is nobody's fault and goes on by itself, or is meant.
EVERYDAY = {"", "walking", "threads", "new", "ratelimited", "not_followed", "forgotten", "late"}


def trouble(workspace: Workspace, now: datetime, *, is_told: bool) -> Trouble | None:
    """What keeps memories from being made."""
    return trouble_of(workspace, now) if is_told else None


def stopped(workspace: Workspace, *, is_told: bool) -> SlackConnection | None:
    """The connection to Slack that ended."""
    if not is_told:
        return None
    return SlackConnection.objects.stopped().filter(workspace=workspace).first()


def signs(
    workspace: Workspace,
    reader: Reader,
    channels: Iterable[Channel],
    now: datetime,
    *,
    is_told: bool,
    has_trouble: bool,
    is_stopped: bool,
) -> Signs:
    """Two queries where all is well, three else. Who may read what is asked only where something
    failed: that rule is the longest there is, and every page asks for the signs."""
    is_connected = workspace.connected_at is not None
    read = (coverage_of(channel, now) for channel in channels) if is_connected else ()
    dead = Generation.objects.of_workspace(workspace).filter(state=Generation.State.DEAD)
    return Signs(
        worker_at=Heartbeat.objects.last_beat() if is_told else now,
        worker_lasts=timedelta(seconds=settings.MEMORYHUB_HEARTBEAT_MAX),
        is_connected=is_connected,
        synced_at=workspace.synced_at,
        is_stopped=is_stopped,
        has_trouble=has_trouble,
        failing_channels=sum(coverage.code not in EVERYDAY for coverage in read),
        failed_jobs=dead.shown_to(reader).count() if dead.exists() else 0,
    )
