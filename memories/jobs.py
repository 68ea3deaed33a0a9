"""Every task, and the whole timetable. Tasks carry ids only; rows are the truth.

One schedule ticks each minute (django-q2 looks at schedules every 30 s). Whatever a lost or doubled
task leaves undone, the next tick finds again.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import ParamSpec

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django_q.models import Schedule
from django_q.tasks import async_task

from memories.models import Heartbeat, Workspace
from memories.pipeline.locks import Busy
from memories.pipeline.passes import run_pass
from memories.pipeline.sync import State, configured_client, sync_workspace

logger = logging.getLogger(__name__)

P = ParamSpec("P")

TIMETABLE = {
    "tick": {"func": "memories.jobs.tick", "schedule_type": Schedule.MINUTES, "minutes": 1}
}

SYNC_EVERY = timedelta(minutes=5)
WORK_SECONDS = settings.Q_CLUSTER["timeout"] / 2  # then a task hands over to the next one


def sync_schedules() -> None:
    """Make django-q2's table say exactly this timetable (names are not unique there)."""
    with transaction.atomic():
        for name, wanted in TIMETABLE.items():
            kept = Schedule.objects.filter(name=name).order_by("pk").first()
            Schedule.objects.filter(name=name).exclude(pk=kept.pk if kept else None).delete()
            Schedule.objects.update_or_create(
                name=name, defaults={**wanted, "args": None, "kwargs": None, "repeats": -1}
            )
        Schedule.objects.filter(func__startswith="memories.").exclude(name__in=TIMETABLE).delete()


class TaskFailed(Exception):
    """What django-q2 keeps and shows of an error: its kind. A database's words may quote a row."""


def quietly(task: Callable[P, None]) -> Callable[P, None]:
    """The error goes to the log, which holds no text of messages; the queue learns its kind."""

    @wraps(task)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            task(*args, **kwargs)
        except Exception as error:
            logger.exception("task %s", task.__name__)
            raise TaskFailed(type(error).__name__) from None

    return guarded


@quietly
def tick() -> None:
    """The worker's pulse; Slack is read where its turn has come, and each workspace gets a pass."""
    now = timezone.now()
    Heartbeat.objects.beat(now)
    if settings.SLACK_BOT_TOKEN:
        for workspace in Workspace.objects.to_sync(now - SYNC_EVERY):
            sync_later(workspace.pk)
    for workspace in Workspace.objects.all():
        remember_later(workspace.pk)


def sync_later(workspace_id: int) -> None:
    transaction.on_commit(lambda: async_task("memories.jobs.sync", workspace_id))


@quietly
def sync(workspace_id: int) -> None:
    """What is new in Slack; channels that do not fit in half the time-out come first next time."""
    workspace = Workspace.objects.filter(pk=workspace_id).first()
    if workspace is None:
        return
    try:
        report = sync_workspace(
            workspace, configured_client(), timezone.now(), seconds=WORK_SECONDS
        )
    except Busy:
        logger.info("workspace %s is being stored by another process", workspace_id)
        return
    if report.of(State.UNFINISHED):
        sync_later(workspace_id)
    remember_later(workspace_id)


def remember_later(workspace_id: int) -> None:
    transaction.on_commit(lambda: async_task("memories.jobs.remember", workspace_id))


@quietly
def remember(workspace_id: int) -> None:
    """A pass as of now; what does not fit in half the time-out goes on in the next task."""
    workspace = Workspace.objects.filter(pk=workspace_id).first()
    if workspace is None:
        return
    began = timezone.now()
    as_of = workspace.known_until(began)
    if as_of is None:
        return
    report = run_pass(workspace, as_of, for_seconds=WORK_SECONDS)
    if (timezone.now() - began).total_seconds() >= WORK_SECONDS and report.left:
        remember_later(workspace_id)
