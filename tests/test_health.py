"""`/livez` and `/readyz`."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone

from memories.models import Heartbeat

FRESH = timedelta(seconds=1)
STALE = timedelta(seconds=settings.MEMORYHUB_HEARTBEAT_MAX + 1)


def test_livez_makes_no_query(client: Client) -> None:
    """A test without the database mark may not reach one."""
    answer = client.get("/livez")
    assert (answer.status_code, answer.content) == (200, b"ok")
    assert "no-cache" in answer["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("silent_for", "status", "worker"),
    [
        pytest.param(FRESH, 200, "ok", id="a beat"),
        pytest.param(STALE, 503, "no heartbeat for", id="an old beat"),
        pytest.param(None, 503, "no heartbeat yet", id="no beat"),
    ],
)
def test_readyz_follows_the_worker(
    client: Client, silent_for: timedelta | None, status: int, worker: str
) -> None:
    if silent_for is not None:
        Heartbeat.objects.beat("worker", timezone.now() - silent_for)
    answer = client.get("/readyz")
    assert answer.status_code == status
    assert answer.json()["ready"] is (status == 200)
    assert answer.json()["worker"].startswith(worker)
    assert answer.json()["database"] == answer.json()["migrations"] == "ok"


@pytest.mark.django_db
def test_readyz_counts_missing_migrations(client: Client) -> None:
    MigrationRecorder(connection).migration_qs.filter(app="memories").delete()
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["migrations"].endswith(" not applied")


@pytest.mark.django_db
def test_readyz_reports_a_lost_database_without_its_message(client: Client) -> None:
    def refuse(*query: Any) -> None:
        raise OperationalError("password of the user 'secret' is wrong")

    with connection.execute_wrapper(refuse):
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["database"] == "unreachable"
    assert "secret" not in answer.content.decode()
