"""A watch over a cluster, with the test in the cluster's place."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from pytest_django import Settings

from memories import tasks
from memories.models import Heartbeat
from memoryhub.database_queue import DatabaseQueue
from memoryhub.pulse import Watch
from tests.workers import package

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("tasks are rows of the broker")]

OLD = 1000.0  # seconds since the cluster's start


@pytest.fixture
def watch(settings: Settings) -> Iterator[Watch]:
    settings.MEMORYHUB_WORKER_NAME = "ours"
    return Watch("ours", heartbeat=60.0)


def let_pass(seconds: float) -> None:
    for row in Heartbeat.objects.all():
        row.at = row.at and row.at - timedelta(seconds=seconds)
        row.asked_at = row.asked_at and row.asked_at - timedelta(seconds=seconds)
        row.save()


def test_who_answers_does_not_hang(watch: Watch) -> None:
    watch.look()
    assert not watch.hangs(OLD)
    tasks.beat("ours")
    let_pass(121)
    watch.look()
    assert not watch.hangs(OLD), "silent, but all questions are answered"


def test_who_does_not_answer_hangs(watch: Watch) -> None:
    Heartbeat.objects.beat("other", timezone.now())
    watch.look()
    let_pass(121)
    watch.look()
    assert watch.hangs(OLD)
    tasks.beat("ours")
    watch.look()
    assert not watch.hangs(OLD)


def test_what_cannot_be_asked_is_not_held_to_hang(watch: Watch) -> None:
    """Nor is it at once when the database is back: it is asked anew."""

    def refuse(*query: Any) -> None:
        raise OperationalError("gone away")

    watch.look()
    let_pass(121)
    watch.look()
    assert watch.hangs(OLD)
    with connection.execute_wrapper(refuse):
        watch.look()
    assert not watch.hangs(OLD)
    watch.look()
    assert not watch.hangs(OLD)


def test_a_question_is_asked_once_a_heartbeat(watch: Watch) -> None:
    for _ in range(3):
        watch.look()
    assert OrmQ.objects.filter(key="ours").count() == 1


@pytest.mark.slow
def test_a_question_goes_to_its_own_cluster_and_comes_first(
    watch: Watch, settings: Settings
) -> None:
    now = timezone.now() - timedelta(seconds=1)
    for key in ("theirs", "memoryhub", "ours"):
        OrmQ.objects.create(key=key, payload=package("memories.tasks.beat", name=key), lock=now)
    queue = DatabaseQueue()
    taken = [queue.dequeue(), queue.dequeue(), queue.dequeue()]
    names = [tasks and SignedPackage.loads(tasks[0][1])["name"] for tasks in taken]
    assert names == ["ours", "memoryhub", None]
    queue.acknowledge(taken[0][0][0])
    assert set(OrmQ.objects.values_list("key", flat=True)) == {"theirs", "memoryhub"}
    settings.MEMORYHUB_WORKER_NAME = ""  # a cluster that nobody watches
    assert DatabaseQueue().dequeue() is None
