"""All background tasks and their timetable. The arguments of a task are ids, from which it reads rows.

`tick` runs each minute (django-q2 reads schedules every 30 s), and each worker runs `beat`
(memoryhub/heartbeat.py). If a task was lost, they queue its work again. If work is queued twice, the
second task has nothing to do.
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

from memories import digest_mail
from memories.models import (
    AuditEvent,
    Draft,
    Heartbeat,
    Job,
    Revision,
    SlackEvent,
    Upload,
    User,
    Webhook,
    Workspace,
)
from memories.pipeline.access import webhooks as webhook_outbox
from memories.pipeline.costs.spending import CallRefused
from memories.pipeline.generate import probing
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest import events as slack_events
from memories.pipeline.ingest import uploads
from memories.pipeline.ingest.requests import due_requests
from memories.pipeline.locks import Busy, lock_probe
from memories.pipeline.redaction.retention import delete_expired
from memories.pipeline.search import indexing
from memories.pipeline.slack_app.answering import process_request
from memories.pipeline.sync.connecting import client_for, has_usable_token
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncState
from memories.rules.ingest.events import EVENT_RETENTION
from memories.rules.summariser import SummariserError
from memories.slack_app import digests as slack_digests
from memories.slack_app.answers import answer_request
from memoryhub.failpoints import fail_point
from memoryhub.heartbeat import keep_beating

logger = logging.getLogger(__name__)

P = ParamSpec("P")

# The dotted names of the tasks. A worker runs no other function (memoryhub/task_guard.py).
TASKS: set[str] = set()

TIMETABLE = {
    "tick": {"func": "memories.tasks.tick", "schedule_type": Schedule.MINUTES, "minutes": 1},
    "index": {"func": "memories.tasks.index", "schedule_type": Schedule.MINUTES, "minutes": 1},
    "digests": {"func": "memories.tasks.digests", "schedule_type": Schedule.MINUTES, "minutes": 10},
    "retention": {"func": "memories.tasks.retention", "schedule_type": Schedule.DAILY},
}
DEFAULTS = {
    "args": None,
    "kwargs": None,
    "hook": None,
    "cluster": None,
    "intended_date_kwarg": None,
}

INDEX_LOCK = "search-indexing"  # the cache key that is set while `index` runs
DIGESTS_LOCK = "digests"  # the same for `digests`
INDEX_AT_ONCE = 200  # texts that another task indexes before it ends; `index` does the others
WORK_SECONDS = settings.MEMORYHUB_TASK_WORKS  # a longer task ends and queues the next one
IMPORT_SECONDS = 6 * 3600  # the timeout of an import; a gigabyte takes minutes
HEARTBEAT = timedelta(seconds=settings.MEMORYHUB_HEARTBEAT)
PASS_LOST_AFTER = 2 * HEARTBEAT  # a queued pass that has not begun then is queued again
KEEP_HEARTBEATS = max(timedelta(hours=1), 10 * HEARTBEAT)


def sync_schedules() -> None:
    """Make django-q2's table of schedules equal to the timetable.

    The table may have several rows with a name. One of them stays.
    """
    with transaction.atomic():
        for name, timing in TIMETABLE.items():
            kept = Schedule.objects.filter(name=name).order_by("pk").first()
            Schedule.objects.filter(name=name).exclude(pk=kept.pk if kept else None).delete()
            Schedule.objects.update_or_create(
                name=name, defaults={**timing, **DEFAULTS, "repeats": -1}
            )
        Schedule.objects.filter(func__startswith="memories.").exclude(name__in=TIMETABLE).delete()


class TaskFailed(Exception):
    """The error that django-q2 saves in the database. Its text is the type of the original error.

    The text of a database error may quote a row.
    """


def redact_task_errors(task: Callable[P, None]) -> Callable[P, None]:
    """Register a task in `TASKS`. Log its errors, and raise `TaskFailed` in their place.

    The worker has heartbeats while the task runs.
    """
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
    """Record a heartbeat, queue what is due, and delete old rows.

    It queues syncs, events, requests from Slack, passes, imports, webhooks and a probe. It deletes
    old events, and revision rows when there are many.
    """
    now = timezone.now()
    Heartbeat.objects.beat(settings.MEMORYHUB_WORKER_NAME or "worker", now)
    for workspace in Workspace.objects.due_for_sync(now):
        if has_usable_token(workspace):
            schedule_sync(workspace.pk)
    for workspace_id in slack_events.workspaces_with_events(now):
        schedule_events(workspace_id)
    for pk in due_requests(now):
        schedule_request(pk)
    for workspace in Workspace.objects.all():
        schedule_pass(workspace.pk)
    for upload in Upload.objects.abandoned(now):
        schedule_import(upload.pk)
    SlackEvent.objects.prune(now - EVENT_RETENTION)
    Revision.objects.prune()
    if Webhook.objects.exists():
        async_task("memories.tasks.webhooks")
    if probing.needs_probe():
        async_task("memories.tasks.probe")


def schedule_probe(by: User, endpoint_name: str) -> None:
    """Queue a probe at a person's request, and record the request."""
    AuditEvent.objects.record("endpoint_probe", by=by, subject=endpoint_name)
    transaction.on_commit(lambda: async_task("memories.tasks.probe", by.pk))


@redact_task_errors
def probe(by: int = 0) -> None:
    """Probe a model that was not probed yet, or any model at the request of the account `by`.

    If this fails, a tick queues the next probe an hour later.
    """
    model = probing.configured_model()
    try:
        with lock_probe():
            if model is not None and (by or probing.needs_probe()):
                probing.probe_model(model)
    except Busy:
        logger.info("another worker probes the model")
    except (CallRefused, SummariserError) as error:
        logger.warning("the model was not probed: %s", error)


@redact_task_errors
def webhooks() -> None:
    """Send new versions to webhooks, and repeat failed requests."""
    webhook_outbox.fill_outbox(timezone.now())
    webhook_outbox.send_due(timezone.now())


@redact_task_errors
def digests() -> None:
    """Send the digests whose period is over by e-mail and in Slack, and repeat failed ones.

    One task sends a part of them at a time, and queues the next task.
    """
    if not cache.add(DIGESTS_LOCK, 1, timeout=2 * WORK_SECONDS):
        return
    try:
        digest_mail.fill_outbox(timezone.now())
        digest_mail.send_due(timezone.now())
        slack_digests.send_due(timezone.now())
    finally:
        cache.delete(DIGESTS_LOCK)
    if digest_mail.is_due(timezone.now()) or slack_digests.is_due(timezone.now()):
        async_task("memories.tasks.digests")


@redact_task_errors
def index() -> None:
    """Index new texts for the search, one task at a time."""
    if not (indexing.has_work() and cache.add(INDEX_LOCK, 1, timeout=2 * WORK_SECONDS)):
        return
    try:
        indexing.index_pending(seconds=WORK_SECONDS)
    finally:
        cache.delete(INDEX_LOCK)


@redact_task_errors
def beat() -> None:
    """Record a heartbeat, delete the rows of old workers, and queue passes for jobs that wait."""
    now = timezone.now()
    Heartbeat.objects.beat(settings.MEMORYHUB_WORKER_NAME or "worker", now)
    Heartbeat.objects.delete_older(now - KEEP_HEARTBEATS)
    for rows in (Job.objects.claimable(now), Job.objects.abandoned(now)):
        for workspace_id in rows.order_by().values_list("memory__workspace", flat=True).distinct():
            schedule_pass(workspace_id)


@redact_task_errors
def retention() -> None:
    """Delete old drafts, files of uploads and expired messages, and erase deleted search tokens."""
    Draft.objects.delete_old(timezone.now())
    indexing.erase()
    uploads.remove_stale_files(timezone.now())
    for workspace in Workspace.objects.all():
        _count, is_done = delete_expired(workspace, timezone.now(), seconds=WORK_SECONDS)
        if not is_done:
            async_task("memories.tasks.retention")
            return


def schedule_sync(workspace_id: int) -> None:
    transaction.on_commit(lambda: async_task("memories.tasks.sync", workspace_id))


@redact_task_errors
def sync(workspace_id: int) -> None:
    """Read new messages from Slack.

    After `WORK_SECONDS` the next task continues. After a rate limit, `tick` queues the next sync
    when the wait is over.
    """
    now = timezone.now()
    workspace = Workspace.objects.due_for_sync(now).filter(pk=workspace_id).first()
    if workspace is None:
        return
    try:
        client = client_for(workspace)
        report = sync_workspace(workspace, client, now, seconds=WORK_SECONDS, resume=True)
    except Busy:
        logger.info("workspace %s is being stored by another process", workspace_id)
        return
    indexing.index_pending_or_defer(most=INDEX_AT_ONCE)
    if report.in_state(SyncState.UNFINISHED):
        schedule_sync(workspace_id)
    schedule_pass(workspace_id)


def schedule_import(upload_id: int) -> None:
    """Queue the import of an upload. `tick` queues it again if its worker died."""
    transaction.on_commit(
        lambda: async_task("memories.tasks.import_upload", upload_id, timeout=IMPORT_SECONDS)
    )


@redact_task_errors
def import_upload(upload_id: int) -> None:
    """Examine or store an upload. The state of its row decides."""
    upload = Upload.objects.filter(pk=upload_id).first()
    workspace = uploads.process_upload(upload, timezone.now()) if upload else None
    if workspace is not None:
        indexing.index_pending_or_defer(most=INDEX_AT_ONCE)
        schedule_pass(workspace.pk)


def schedule_events(workspace_id: int) -> None:
    """Queue the processing of saved events. If the queue fails, `tick` queues it again."""
    transaction.on_commit(
        lambda: async_task("memories.tasks.events", workspace_id, save=False), robust=True
    )


@redact_task_errors
def events(workspace_id: int) -> None:
    """Process saved events until none is left, for at most `WORK_SECONDS`."""
    workspace = Workspace.objects.filter(pk=workspace_id).first()
    if workspace is not None and slack_events.process_events(workspace, seconds=WORK_SECONDS):
        schedule_events(workspace_id)
    indexing.index_pending_or_defer(most=INDEX_AT_ONCE)


def schedule_request(pk: int) -> None:
    """Queue the answer to a stored request. If the queue fails, `tick` queues it again."""
    transaction.on_commit(
        lambda: async_task("memories.tasks.slack_request", pk, save=False), robust=True
    )


@redact_task_errors
def slack_request(pk: int) -> None:
    """Answer a request of a person in Slack."""
    process_request(pk, answer_request, timezone.now())


def schedule_received(event: slack_events.ReceivedEvent) -> None:
    """Queue the processing and the answer that a received event needs."""
    if event.workspace_id is not None:
        schedule_events(event.workspace_id)
    if event.request_id is not None:
        schedule_request(event.request_id)


def schedule_pass(workspace_id: int) -> None:
    """Queue a pass, unless one is queued already."""
    if Workspace.objects.filter(pk=workspace_id).mark_pass_queued(timezone.now(), PASS_LOST_AFTER):
        transaction.on_commit(lambda: async_task("memories.tasks.remember", workspace_id))


@redact_task_errors
def remember(workspace_id: int) -> None:
    """Run a pass (`run_pass`) over the messages up to the last sync.

    After `WORK_SECONDS` the next task continues.
    """
    workspace = Workspace.objects.filter(pk=workspace_id).first()
    if workspace is None or not workspace.mark_pass_started():
        return
    began = timezone.now()
    as_of = workspace.synced_until(began)
    if as_of is None:
        return
    report = run_pass(workspace, as_of, for_seconds=WORK_SECONDS)
    indexing.index_pending_or_defer(most=INDEX_AT_ONCE)
    if (timezone.now() - began).total_seconds() >= WORK_SECONDS and report.left:
        schedule_pass(workspace_id)
    fail_point("before_acknowledge")
