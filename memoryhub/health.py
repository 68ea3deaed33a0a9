"""Health for whoever watches: `/livez` and `/readyz`."""

import logging
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache

logger = logging.getLogger(__name__)


@never_cache
def livez(request: HttpRequest) -> HttpResponse:
    """Say "ok" without any I/O: the process answers."""
    return HttpResponse("ok", content_type="text/plain")


@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Say what is ready as JSON, `ok` or a sentence for each part; 503 when one is not."""
    parts = check_parts(timezone.now())
    ready = all(answer == "ok" for answer in parts.values())
    return JsonResponse({"ready": ready, **parts}, status=200 if ready else 503)


def check_parts(now: datetime) -> dict[str, str]:
    """Return `{"database": …, "migrations": …, "worker": …}`, each "ok" or what is wrong.

    The first part that fails ends the look: the others rest on it.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        missing = unapplied_migrations()
        if missing:
            return {"database": "ok", "migrations": f"{missing} not applied", "worker": "unknown"}
        return {"database": "ok", "migrations": "ok", "worker": worker_answer(now)}
    except DatabaseError as error:
        logger.error("readyz: %s", type(error).__name__)
        return {"database": "unreachable", "migrations": "unknown", "worker": "unknown"}


def unapplied_migrations() -> int:
    """Count the migrations in the code that the database has not seen."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def worker_answer(now: datetime) -> str:
    """Return "ok" while the worker's tick left a mark less than MEMORYHUB_HEARTBEAT_MAX ago."""
    from memories.models import Heartbeat

    last = Heartbeat.objects.last_beat()
    if last is None:
        return "no heartbeat yet"
    silent = (now - last).total_seconds()
    if silent > settings.MEMORYHUB_HEARTBEAT_MAX:
        return f"no heartbeat for {silent:.0f} s"
    return "ok"
