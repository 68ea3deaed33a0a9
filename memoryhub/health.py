"""The health checks `/livez` and `/readyz`."""

import logging
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from memories.models import Heartbeat

logger = logging.getLogger(__name__)


@never_cache
def livez(request: HttpRequest) -> HttpResponse:
    """Respond "ok" without any I/O."""
    return HttpResponse("ok", content_type="text/plain")


@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Respond with `ok` or the problem of each part, as JSON. The status is 503 if a part has one."""
    parts = check_parts(timezone.now())
    ready = all(state == "ok" for state in parts.values())
    return JsonResponse({"ready": ready, **parts}, status=200 if ready else 503)


def check_parts(now: datetime) -> dict[str, str]:
    """Return `{"database": …, "migrations": …, "worker": …}`, each "ok" or a problem.

    Each part needs the one before it, so the parts after a problem are "unknown".
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        missing = unapplied_migrations()
        if missing:
            return {"database": "ok", "migrations": f"{missing} not applied", "worker": "unknown"}
        return {"database": "ok", "migrations": "ok", "worker": worker_state(now)}
    except DatabaseError as error:
        logger.error("readyz: %s", type(error).__name__)
        return {"database": "unreachable", "migrations": "unknown", "worker": "unknown"}


def unapplied_migrations() -> int:
    """Return the number of migrations that the database lacks."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def worker_state(now: datetime) -> str:
    """Return "ok" if the newest heartbeat of all workers is at most MEMORYHUB_HEARTBEAT_MAX old."""
    last = Heartbeat.objects.last_beat()
    if last is None:
        return "no heartbeat yet"
    silent = (now - last).total_seconds()
    if silent > settings.MEMORYHUB_HEARTBEAT_MAX:
        return f"no heartbeat for {silent:.0f} s"
    return "ok"
