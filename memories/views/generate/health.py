"""The health of a workspace, for the pages and the API."""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memories.models import Heartbeat, Job, Reader, Workspace
from memories.models.ingest.channels import ChannelQuerySet
from memories.pipeline.sync.coverage import TEMPORARY_CODES, is_late
from memories.rules.health import HealthSignals

# Codes that are no fault of a channel: temporary, chosen by a person, or reported for the workspace.
EXPECTED_CODES = {*TEMPORARY_CODES, "not_followed", "forgotten", "late"}
COUNT_LIMIT = 20  # jobs; each page counts the failed ones


def get_signals(
    workspace: Workspace,
    reader: Reader,
    channels: ChannelQuerySet,
    now: datetime,
    *,
    is_member: bool,
    is_blocked: bool,
    is_stopped: bool,
) -> HealthSignals:
    """Return the signals of a workspace's health. Guests may not see that of the worker."""
    dead = Job.objects.listed_in(workspace).filter(state=Job.State.DEAD).order_by("-pk").only("pk")
    is_connected = workspace.connected_at is not None
    return HealthSignals(
        worker_at=Heartbeat.objects.last_beat() if is_member else now,
        worker_max_age=timedelta(seconds=settings.MEMORYHUB_HEARTBEAT_MAX),
        is_connected=is_connected,
        synced_at=workspace.synced_at,
        is_late=is_late(workspace, now),
        is_stopped=is_stopped,
        is_blocked=is_blocked,
        failing_channels=channels.failing(EXPECTED_CODES).count() if is_connected else 0,
        failed_jobs=len(dead.first_shown_to(reader, COUNT_LIMIT + 1)),
    )


def describe_failed(failed: int) -> str:
    if failed > COUNT_LIMIT:
        return _("More than %(n)s jobs failed.") % {"n": COUNT_LIMIT}
    return ngettext("%(n)s job failed.", "%(n)s jobs failed.", failed) % {"n": failed}
