"""The health of a workspace, for the page of jobs and the navigation."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memories.models import Heartbeat, Job, Reader, Workspace
from memories.models.access.kept_sql import fetch
from memories.models.ingest.channels import ChannelQuerySet
from memories.pipeline.sync.coverage import TEMPORARY_CODES
from memories.rules.health import HealthSignals

# Codes of channels that are not read further for an expected reason.
EXPECTED_CODES = {*TEMPORARY_CODES, "not_followed", "forgotten", "late"}
COUNT_LIMIT = 100  # jobs


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
    """Return the signals of a workspace's health. Guests may not see that of the worker.

    Every page calls this. Who may read failed jobs is an expensive query, so it runs only if there
    are any.
    """
    is_connected, synced_at = workspace.connected_at is not None, workspace.synced_at
    dead = Job.objects.listed_in(workspace).filter(state=Job.State.DEAD)
    return HealthSignals(
        worker_at=Heartbeat.objects.last_beat() if is_member else now,
        worker_max_age=timedelta(seconds=settings.MEMORYHUB_HEARTBEAT_MAX),
        is_connected=is_connected,
        synced_at=synced_at,
        is_late=synced_at is not None and workspace.is_late(now - synced_at),
        is_stopped=is_stopped,
        is_blocked=is_blocked,
        failing_channels=channels.failing(EXPECTED_CODES).count() if is_connected else 0,
        failed_jobs=len(fetch(failed_job_keys, reader, workspace.pk, COUNT_LIMIT + 1))
        if dead.exists()
        else 0,
    )


def describe_failed(failed: int) -> str:
    if failed > COUNT_LIMIT:
        return _("More than %(n)s jobs failed.") % {"n": COUNT_LIMIT}
    return ngettext("%(n)s job failed.", "%(n)s jobs failed.", failed) % {"n": failed}


def failed_job_keys(reader: Reader, workspace: int, limit: int) -> QuerySet[Job, Any]:
    """Return the keys of failed jobs that the reader may see, for `fetch`.

    In no order: a database would check who may read each of them before it sorts them.
    """
    dead = Job.objects.listed_in(workspace).filter(state=Job.State.DEAD)
    return dead.shown_to(reader).order_by().values("pk")[:limit]
