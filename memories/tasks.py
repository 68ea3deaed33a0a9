"""Every task, and the whole timetable. Tasks carry ids only; rows are the truth.

The schedule ticks each minute (django-q2 reads schedules every 30 s), and each worker has its heartbeats
(memoryhub/heartbeat.py). Retention runs once a day. The next tick or heartbeat finds the work of a lost
task again. A task that is queued twice finds nothing to do.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import ParamSpec

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.utils import timezone
from django_q.models import Schedule
from django_q.tasks import async_task

from memories.models import AuditEvent, Draft, Heartbeat, Job, Upload, User, Workspace
from memories.pipeline.generate import probing
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest import events as slack_events
from memories.pipeline.ingest import uploads
from memories.pipeline.locks import Busy
from memories.pipeline.redaction.retention import delete_expired
from memories.pipeline.search import indexing
from memories.pipeline.sync.connecting import client_for, may_be_asked
from memories.pipeline.sync.sync import State, sync_workspace
from memories.rules.generate.summariser import SummariserError
from memoryhub.failpoints import fail_point
from memoryhub.heartbeat import keep_beating

logger = logging.getLogger(__name__)

P = ParamSpec("P")

TASKS: set[str] = (
    set()
)  # dotted names: a worker runs these and nothing else (memoryhub/task_guard.py)

TIMETABLE = {
    "tick": {"func": "memories.tasks.tick", "schedule_type": Schedule.MINUTES, "minutes": 1},
    "index": {"func": "memories.tasks.index", "schedule_type": Schedule.MINUTES, "minutes": 1},
    "retention": {"func": "memories.tasks.retention", "schedule_type": Schedule.DAILY},
}
PLAIN = {"args": None, "kwargs": None, "hook": None, "cluster": None, "intended_date_kwarg": None}

INDEXING = "search-indexing"  # in the cache while a task reads texts in
SOON = 200  # texts that the task which brought them reads in itself
WORK_SECONDS = settings.MEMORYHUB_TASK_WORKS  # then a task hands over to the next one
IMPORT_SECONDS = 6 * 3600  # a gigabyte takes minutes: only what hangs for ever is ended
HEARTBEAT = timedelta(seconds=settings.MEMORYHUB_HEARTBEAT)
OFFER_AGAIN = 2 * HEARTBEAT  # a queued pass that has not begun by then may be lost
KEEP_HEARTBEATS = max(timedelta(hours=1), 10 * HEARTBEAT)


def sync_schedules() -> None:
    """Make django-q2's table say exactly this timetable (names are not unique there)."""
    with transaction.atomic():
        for name, timing in TIMETABLE.items():
            kept = Schedule.objects.filter(name=name).order_by("pk").first()
            Schedule.objects.filter(name=name).exclude(pk=kept.pk if kept else None).delete()
            Schedule.objects.update_or_create(
                name=name, defaults={**timing, **PLAIN, "repeats": -1}
            )
        Schedule.objects.filter(func__startswith="memories.").exclude(name__in=TIMETABLE).delete()


class TaskFailed(Exception):
    """What django-q2 keeps and shows of an error: its kind. A database's words may quote a row."""


def redact_task_errors(task: Callable[P, None]) -> Callable[P, None]:
    """A task that a worker may run. Its error goes to the log, which holds no text of messages; the
    queue learns the kind of error."""
    TASKS.add(f"{task.__module__}.{task.__name__}")

    @wraps(task)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with keep_beating():
                task(*args, **kwargs)
        except Exception as error:
            logger.exception("task %s", task.__name__)
            raise TaskFailed(type(error).__name__) from None

    return guarded


@redact_task_errors
def tick() -> None:
    """Slack is read where its turn has come, and each workspace gets a pass."""
    now = timezone.now()
    Heartbeat.objects.beat(settings.MEMORYHUB_WORKER_NAME or "worker", now)
    for workspace in Workspace.objects.to_sync(now):
        if may_be_asked(workspace):
            sync_later(workspace.pk)
    for workspace_id in slack_events.workspaces_with_events(now):
        events_later(workspace_id)
    for workspace in Workspace.objects.all():
        remember_later(workspace.pk)
    for upload in Upload.objects.abandoned(now):
        import_later(upload.pk)
    slack_events.prune(now)
    if probing.needs_probe():
        async_task("memories.tasks.probe")


def probe_later(by: User, endpoint_name: str) -> None:
    """Queue the probe that a person asks for, and record who did."""
    AuditEvent.objects.record("endpoint_probe", by=by, subject=endpoint_name)
    transaction.on_commit(lambda: async_task("memories.tasks.probe", by_person=True))


@redact_task_errors
def probe(*, by_person: bool = False) -> None:
    """Find out what a newly named model can do, or any when a person asks for it; an endpoint that
    does not answer is probed later."""
    model = probing.configured_model()
    if model is None or not (by_person or probing.needs_probe()):
        return
    try:
        probing.probe_model(model)
    except (probing.ProbeRefused, SummariserError) as error:
        logger.warning("the model was not probed: %s", error)


@redact_task_errors
def index() -> None:
    """Put what was said and written into the index of the search; of very much the rest later."""
    if not (indexing.has_work() and cache.add(INDEXING, 1, timeout=2 * WORK_SECONDS)):
        return
    try:
        indexing.catch_up(seconds=WORK_SECONDS)
    finally:
        cache.delete(INDEXING)


@redact_task_errors
def beat() -> None:
    """Record a heartbeat, delete the rows of old workers, and queue passes for jobs that wait."""
    now = timezone.now()
    Heartbeat.objects.beat(settings.MEMORYHUB_WORKER_NAME or "worker", now)
    Heartbeat.objects.delete_older(now - KEEP_HEARTBEATS)
    for rows in (Job.objects.claimable(now), Job.objects.abandoned(now)):
        for workspace_id in rows.order_by().values_list("memory__workspace", flat=True).distinct():
            remember_later(workspace_id)


@redact_task_errors
def retention() -> None:
    """What is older than its workspace keeps it, and drafts of yesterday; the rest of very much in
    the next task."""
    Draft.objects.delete_old(timezone.now())
    indexing.erase()
    uploads.remove_stale_files(timezone.now())
    for workspace in Workspace.objects.all():
        if not delete_expired(workspace, timezone.now(), seconds=WORK_SECONDS).is_done:
            async_task("memories.tasks.retention")
            return


def sync_later(workspace_id: int) -> None:
    transaction.on_commit(lambda: async_task("memories.tasks.sync", workspace_id))


@redact_task_errors
def sync(workspace_id: int) -> None:
    """What is new in Slack. Channels that do not fit in half the time-out come first in the next task;
    what does not fit in Slack's limits is for a later tick: the workspace's row says when."""
    now = timezone.now()
    workspace = Workspace.objects.to_sync(now).filter(pk=workspace_id).first()
    if workspace is None:
        return
    try:
        client = client_for(workspace)
        report = sync_workspace(workspace, client, now, seconds=WORK_SECONDS, goes_on=True)
    except Busy:
        logger.info("workspace %s is being stored by another process", workspace_id)
        return
    indexing.catch_up_or_wait(most=SOON)
    if report.of(State.UNFINISHED):
        sync_later(workspace_id)
    remember_later(workspace_id)


def import_later(upload_id: int) -> None:
    """An export that somebody uploaded is read whole, which takes as long as it takes: who works on
    it gives signs of life, and the tick offers it again when they stop."""
    transaction.on_commit(
        lambda: async_task("memories.tasks.import_upload", upload_id, timeout=IMPORT_SECONDS)
    )


@redact_task_errors
def import_upload(upload_id: int) -> None:
    """Look into it, or store it: its row says which."""
    upload = Upload.objects.filter(pk=upload_id).first()
    workspace = uploads.process_upload(upload, timezone.now()) if upload else None
    if workspace is not None:
        indexing.catch_up_or_wait(most=SOON)
        remember_later(workspace.pk)


def events_later(workspace_id: int) -> None:
    """Queue a task for what Slack told; the tick finds what a broken queue leaves."""
    transaction.on_commit(
        lambda: async_task("memories.tasks.events", workspace_id, save=False), robust=True
    )


@redact_task_errors
def events(workspace_id: int) -> None:
    """What Slack told by itself, until nothing of it waits or half the time-out is over."""
    workspace = Workspace.objects.filter(pk=workspace_id).first()
    if workspace is not None and slack_events.process_events(workspace, seconds=WORK_SECONDS):
        events_later(workspace_id)
    indexing.catch_up_or_wait(most=SOON)


def remember_later(workspace_id: int) -> None:
    """Queue a pass, unless one is queued already."""
    if Workspace.objects.filter(pk=workspace_id).offer(timezone.now(), OFFER_AGAIN):
        transaction.on_commit(lambda: async_task("memories.tasks.remember", workspace_id))


@redact_task_errors
def remember(workspace_id: int) -> None:
    """A pass as of now; what does not fit in half the time-out goes on in the next task."""
    workspace = Workspace.objects.filter(pk=workspace_id).first()
    if workspace is None or not workspace.take_up():
        return
    began = timezone.now()
    as_of = workspace.known_until(began)
    if as_of is None:
        return
    report = run_pass(workspace, as_of, for_seconds=WORK_SECONDS)
    indexing.catch_up_or_wait(most=SOON)
    if (timezone.now() - began).total_seconds() >= WORK_SECONDS and report.left:
        remember_later(workspace_id)
    fail_point("before_acknowledge")
