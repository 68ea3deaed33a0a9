"""How a workspace does, as far as its reader is told: for the page of jobs and the navigation.

The worker and the model are for members to know of, not for guests.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memories.models import Heartbeat, Job, Reader, SlackConnection, Workspace
from memories.models.generate.job_queries import JobQuerySet
from memories.models.ingest.channels import ChannelQuerySet
from memories.pipeline.generate.job_control import find_trouble
from memories.rules.generate.job_status import Blocker
from memories.rules.health import HealthSignals

# Why a channel is not read further, where that is nobody's fault and goes on by itself, or is meant.
EVERYDAY = {"", "walking", "threads", "new", "ratelimited", "not_followed", "forgotten", "late"}
COUNTED = 100  # jobs, on pages


def trouble(workspace: Workspace, now: datetime, *, is_told: bool) -> Blocker | None:
    """What keeps memories from being made."""
    return find_trouble(workspace, now) if is_told else None


def stopped(workspace: Workspace, *, is_told: bool) -> SlackConnection | None:
    """The connection to Slack that ended."""
    if not is_told:
        return None
    return SlackConnection.objects.stopped().filter(workspace=workspace).first()


def signs(
    workspace: Workspace,
    reader: Reader,
    channels: ChannelQuerySet,
    now: datetime,
    *,
    is_told: bool,
    has_trouble: bool,
    is_stopped: bool,
) -> HealthSignals:
    """Two or three queries where all is well. Who may read what is asked only where something
    failed: that rule is the longest there is, and every page asks for the signs."""
    is_connected = workspace.connected_at is not None
    dead = Job.objects.listed_in(workspace).filter(state=Job.State.DEAD)
    return HealthSignals(
        worker_at=Heartbeat.objects.last_beat() if is_told else now,
        worker_lasts=timedelta(seconds=settings.MEMORYHUB_HEARTBEAT_MAX),
        is_connected=is_connected,
        synced_at=workspace.synced_at,
        is_stopped=is_stopped,
        has_trouble=has_trouble,
        failing_channels=channels.failing(EVERYDAY).count() if is_connected else 0,
        failed_jobs=_count(dead, reader) if dead.exists() else 0,
    )


def failed_words(failed: int) -> str:
    if failed > COUNTED:
        return _("More than %(n)s jobs failed.") % {"n": COUNTED}
    return ngettext("%(n)s job failed.", "%(n)s jobs failed.", failed) % {"n": failed}


def _count(dead: JobQuerySet, reader: Reader) -> int:
    """How many of these the reader is shown, exact up to `COUNTED`."""
    return dead.shown_to(reader).order_by("-pk").values("pk")[: COUNTED + 1].count()
