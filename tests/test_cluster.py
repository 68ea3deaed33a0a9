"""Real qclusters on the database of the test."""

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.core.management import call_command
from django.db.models import Count
from django.utils import timezone
from django_q.models import OrmQ, Schedule, Task
from picklefield.fields import PickledObject, dbsafe_encode

from memories.models import (
    Heartbeat,
    Job,
    Memory,
    MemoryVersion,
    Message,
    Segment,
    Workspace,
)
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.tasks import schedule_pass
from tests.factories import ChannelFactory, MessageFactory, PersonFactory, WorkspaceFactory
from tests.processes import alive_in_sessions, descendants, wait_until
from tests.workers import RunningWorker, RunsWhenRead, leave_mark, package

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(400),
    pytest.mark.postgres("workers take tasks under row locks"),
]

ROOT = Path(__file__).resolve().parent.parent
SUBJECTS = ("the release", "the invoice", "the outage", "the hiring plan")
CLUSTER = 6  # processes: the parent, sentinel, pusher, monitor and two workers
PATIENCE = 150.0  # seconds; django-q2 looks at its schedules every 30


@pytest.fixture
def start_cluster(
    process_environment: dict[str, str], tmp_path: Path
) -> Iterator[Callable[[], Path]]:
    """Start a qcluster, which the test ends, and return its log."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> Path:
        log = tmp_path / f"cluster-{len(running)}.log"
        with log.open("wb") as output:
            running.append(
                subprocess.Popen(
                    [sys.executable, "manage.py", "qcluster"],
                    cwd=ROOT,
                    env=process_environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        return log

    yield start
    for cluster in running:
        cluster.terminate()
    for cluster in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            cluster.wait(timeout=PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(cluster.pid, signal.SIGKILL)
        cluster.wait()
    sessions = {cluster.pid for cluster in running}
    wait_until(lambda: not alive_in_sessions(sessions), "nothing left")


def talk(workspace: Workspace, channels: int, bursts: int) -> None:
    """Create bursts of ten messages, a day apart, until yesterday."""
    author = PersonFactory(workspace=workspace)
    begin = timezone.now() - timedelta(days=bursts + 1)
    for number in range(channels):
        channel = ChannelFactory(workspace=workspace, name=f"channel-{number}")
        channel.remember_from(to_micros(begin))
        for burst in range(bursts):
            for minute in range(10):
                MessageFactory(
                    channel=channel,
                    author=author,
                    at=begin + timedelta(days=burst, minutes=minute),
                    text=f"We decided step {burst}.{minute} of {SUBJECTS[number % 4]} for Friday.",
                )


def everything_is_remembered() -> bool:
    return (
        Memory.objects.with_current()
        .filter(memory_type=MemoryType.LONG_TERM, channel=None, current__isnull=False)
        .count()
        == Workspace.objects.count()
        and not Job.objects.unfinished().exists()
    )


def assert_made_once(most_attempts: int = 1) -> None:
    """Assert that each segment has one version, each call is made once, and numbers have no gaps."""
    versions = MemoryVersion.objects.exclude(segment=None).filter(provisional=False)
    segments = Segment.objects.of_channel().filter(outcome=Segment.Outcome.REMEMBERED)
    versions = versions.filter(segment__thread_ts="")
    per_segment = versions.values("segment", "memory").annotate(many=Count("pk"))
    assert {row["many"] for row in per_segment} == {1}
    assert {row["segment"] for row in per_segment} == set(segments.values_list("pk", flat=True))
    assert not Job.objects.filter(attempts__gt=most_attempts).exists()
    assert not Job.objects.filter(state=Job.State.DEAD).exists()
    for memory in Memory.objects.annotate(many=Count("versions")).filter(many__gt=0):
        numbers = memory.versions.order_by("number").values_list("number", flat=True)
        assert list(numbers) == list(range(1, len(numbers) + 1))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_schedules_turn_messages_into_memories(start_cluster: Callable[[], Path]) -> None:
    talk(WorkspaceFactory(), channels=2, bursts=3)
    call_command("sync_schedules", stdout=sys.stderr)
    log = start_cluster()
    wait_until(everything_is_remembered, f"memories; see {log}", PATIENCE)
    assert_made_once()
    assert not Message.objects.waiting().exists()
    assert Heartbeat.objects.last_beat() is not None


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_clusters_write_each_version_once(start_cluster: Callable[[], Path]) -> None:
    """Another pass is queued as soon as a pass of a workspace begins."""
    for _ in range(2):
        talk(WorkspaceFactory(), channels=3, bursts=3)
    logs = [start_cluster(), start_cluster()]
    wait_until(lambda: len(descendants(os.getpid())) >= 2 * CLUSTER, f"both up; see {logs}")

    def offered_until_remembered() -> bool:
        for workspace in Workspace.objects.all():
            schedule_pass(workspace.pk)
        return everything_is_remembered()

    wait_until(offered_until_remembered, f"memories; see {logs}", PATIENCE)
    wait_until(lambda: not OrmQ.objects.exists(), "an empty queue", PATIENCE)
    assert_made_once()


@pytest.fixture
def broker() -> str:
    """The URL of a Redis server."""
    url = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/0")
    try:
        redis.Redis.from_url(url, socket_connect_timeout=60).ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at {url} (TEST_REDIS_URL): {error}")
    return url


@pytest.mark.slow
def test_no_job_is_lost_with_redis_and_a_killed_cluster(
    process_environment: dict[str, str], broker: str, tmp_path: Path
) -> None:
    """A process stops between reply and memory, then all are killed.

    Redis has lost the tasks, and the heartbeat finds the jobs."""
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "reply_saved.1").write_text("stop")
    environment = process_environment | {
        "MEMORYHUB_BROKER": broker,
        # Its own list in this Redis; and django-q2 leaves the timetable to the cluster "memoryhub".
        "Q_CLUSTER_NAME": f"test-{uuid.uuid4().hex}",
        "MEMORYHUB_HEARTBEAT": "2",
        "MEMORYHUB_LLM_TIMEOUT": "2",
        "MEMORYHUB_LEASE": "4",
        "MEMORYHUB_BACK_OFF": "1",
        "MEMORYHUB_FAIL_POINTS": str(orders),
    }
    talk(WorkspaceFactory(), channels=2, bursts=3)
    tick = [sys.executable, "manage.py", "shell", "-c", "from memories.tasks import tick; tick()"]
    subprocess.run(tick, cwd=ROOT, env=environment, check=True, timeout=PATIENCE)
    assert not OrmQ.objects.exists(), "the task went to Redis"
    worker = RunningWorker(environment, tmp_path / "worker.log")
    try:
        wait_until(lambda: list(orders.glob("*.taken")), f"a reply; see {worker.log}")
        old = worker.leader()
        os.killpg(old, signal.SIGKILL)
        wait_until(lambda: not alive_in_sessions({old}), "all of them dead")
        assert Job.objects.unfinished().exists()
        wait_until(everything_is_remembered, f"memories; see {worker.log}", PATIENCE)
    finally:
        worker.end()
        redis.Redis.from_url(broker).delete(f"django_q:{environment['Q_CLUSTER_NAME']}:q")
    assert_made_once(most_attempts=2)
    assert not Message.objects.waiting().exists()
    assert not OrmQ.objects.exists()


REFUSED = "a queued task was refused and not run"
MARK = "tests.workers.leave_mark"
BEAT = "memories.tasks.beat"


def foreign_packages(marks: Path) -> list[str]:
    """Return signed packages that would each create a file, which is named for the method."""

    def at(how: str) -> str:
        return str(marks / how)

    return [
        package(MARK, at("function")),
        package(leave_mark, at("pickled function")),
        package("memories.tasks.logging.os.mkdir", at("attribute of our module")),
        package(BEAT, RunsWhenRead(at("argument"))),
        package(BEAT, hook=MARK, name=at("hook")),
        package(BEAT, chain=[(MARK, (at("chain"),), {})], group=None, cached=0, sync=0),
        package(MARK, at("cached"), cached=60),
        package(MARK, at("at once"), sync=True),
    ]


def foreign_rows(marks: Path, cluster: str | None) -> str:
    """Create such rows in django-q2's tables, and return a task with the id of one."""
    ours = uuid.uuid4().hex
    times = {"started": timezone.now(), "stopped": timezone.now()}
    hooked = {"id": ours, "name": str(marks / "hook of a row"), "func": BEAT, "success": False}
    Task.objects.create(**hooked, hook=MARK, **times)
    Task.objects.create(id=uuid.uuid4().hex, name="a result", func=BEAT, success=True, **times)
    result = PickledObject(dbsafe_encode(RunsWhenRead(str(marks / "result")), copy=False))
    Task.objects.filter(name="a result").update(result=result)
    for how, kwargs in (("schedule", ""), ("schedule at once", "q_options={'sync': True}")):
        Schedule.objects.create(
            func=MARK,
            hook=MARK,
            args=repr(str(marks / how)),
            kwargs=kwargs,
            schedule_type=Schedule.ONCE,
            next_run=timezone.now() - timedelta(minutes=1),
            cluster=cluster,
        )
    return package(BEAT, id=ours, name=hooked["name"])


@pytest.mark.parametrize(
    "queue", ["database", pytest.param("redis", marks=pytest.mark.nightly("both queues"))]
)
def test_a_worker_runs_no_foreign_function(
    queue: str, process_environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Not from a signed package, a schedule, a hook or a pickle in a table. It logs each of them."""
    marks = tmp_path / "marks"
    marks.mkdir()
    environment = process_environment | {"PYTHONPATH": str(ROOT)}
    cluster = None
    if queue == "redis":
        url = request.getfixturevalue("broker")
        cluster = f"test-{uuid.uuid4().hex}"
        environment |= {"MEMORYHUB_BROKER": url, "Q_CLUSTER_NAME": cluster}
    foreign = foreign_packages(marks)
    packages = [*foreign, foreign_rows(marks, cluster)]
    if cluster is None:
        now = timezone.now()
        for payload in packages:
            OrmQ.objects.create(key="memoryhub", payload=payload, lock=now)
    else:
        redis.Redis.from_url(url).rpush(f"django_q:{cluster}:q", *packages)
    worker = RunningWorker(environment, tmp_path / "worker.log")
    refusals = len(foreign) + Schedule.objects.filter(func=MARK).count()
    try:
        wait_until(
            lambda: (
                list(marks.iterdir())
                or (
                    worker.log.read_text().count(REFUSED) >= refusals
                    and Task.objects.filter(
                        name=str(marks / "hook of a row"), success=True
                    ).exists()
                    and not OrmQ.objects.exists()
                )
            ),
            f"{refusals} refusals, or a mark; see {worker.log}",
            PATIENCE,
        )
    finally:
        worker.end()
        if cluster is not None:
            redis.Redis.from_url(url).delete(f"django_q:{cluster}:q")
    assert [path.name for path in marks.iterdir()] == []
    assert worker.log.read_text().count(REFUSED) == refusals
    assert not OrmQ.objects.exists() and not Schedule.objects.filter(func=MARK).exists()
