"""Several processes on one database make each version once and lose nothing."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import Count
from django.utils import timezone

from memories.models import (
    Job,
    Memory,
    MemoryVersion,
    Message,
    Segment,
    Workspace,
)
from memories.models.memory import memories
from memories.pipeline.generate import write_version
from memories.pipeline.generate.passes import run_pass
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_reply,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres("row locks"),
]

ROOT = Path(__file__).resolve().parents[3]
DAY = timedelta(days=1)
Racer = subprocess.Popen[str]
Start = Callable[..., Racer]


@pytest.fixture
def start(process_environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a worker, which begins after `go`."""
    racers: list[Racer] = []

    def start_racer(*arguments: str) -> Racer:
        with (tmp_path / f"racer-{len(racers)}.log").open("w") as log:
            racer = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.racer", *arguments],
                cwd=ROOT,
                env=process_environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        racers.append(racer)
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n", (tmp_path / Path(log.name).name).read_text()
        return racer

    yield start_racer
    for racer in racers:
        racer.kill()
        racer.communicate()


def go(*racers: Racer) -> None:
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()


def output_of(racer: Racer) -> list[str]:
    output, _ = racer.communicate("stop\n", timeout=120)
    lines: list[str] = json.loads(output.splitlines()[-1])
    return lines


def workspace_with_talk(channels: int, days: int) -> Workspace:
    workspace: Workspace = WorkspaceFactory(settings={"workspace_short_term": True})
    author = PersonFactory(workspace=workspace)
    for number in range(channels):
        channel = ChannelFactory(workspace=workspace, name=f"channel-{number}")
        channel.remember_from(to_micros(MONDAY))
        for day in range(days):
            root = None
            for minute in range(8):
                at = MONDAY + day * DAY + timedelta(minutes=minute)
                text = f"We decided step {number}.{day}.{minute} of the release for Friday."
                given = {"at": at, "text": text, "author": author}
                if root is None:
                    root = MessageFactory(channel=channel, **given)
                else:
                    make_reply(root=root, **given)
    return workspace


def moments(days: int) -> list[str]:
    return [(MONDAY + day * DAY + timedelta(hours=5)).isoformat() for day in range(days)]


def assert_complete(workspace: Workspace) -> None:
    """Every message in one segment of each kind, every segment in one version of the model."""
    assert not Message.objects.waiting().exists()
    assert not Message.objects.waiting_in_threads().exists()
    assert not Job.objects.unfinished().exists()
    assert not Segment.objects.exclude(outcome=Segment.Outcome.REMEMBERED).exists()
    made = MemoryVersion.objects.filter(
        memory__scope="channel", memory__memory_type="short_term", origin="model"
    ).exclude(provisional=True)
    segments = Segment.objects.of_channel()
    assert sorted(made.values_list("segment", flat=True)) == sorted(
        segments.values_list("pk", flat=True)
    )
    for memory in Memory.objects.annotate(many=Count("versions")):
        numbers = memory.versions.order_by("number").values_list("number", flat=True)
        assert list(numbers) == list(range(1, memory.head + 1)) and memory.current is not None
    threads = Memory.objects.with_current().filter(scope="thread")
    assert {memory.current and memory.current.source_message_count for memory in threads} == {8}


@pytest.mark.slow
@pytest.mark.timeout(170)
def test_four_passes_at_once_make_each_version_once(start: Start) -> None:
    workspace = workspace_with_talk(channels=3, days=3)
    racers = [start("pass", *moments(3)) for _ in range(4)]
    go(*racers)
    assert [output_of(racer) for racer in racers] == [[], [], [], []]
    report = run_pass(workspace, datetime.fromisoformat(moments(3)[-1]))
    assert report.errors == []
    assert_complete(workspace)
    assert not Job.objects.exclude(attempts=1).exists()


@pytest.mark.slow
@pytest.mark.timeout(170)
def test_passes_and_edits_at_once_lose_neither_texts_nor_edits(start: Start) -> None:
    workspace = workspace_with_talk(channels=1, days=3)
    passes = [start("pass", *moments(3)) for _ in range(2)]
    editors = [start("edit", mark) for mark in ("Ann", "Ben")]
    go(*passes, *editors)
    assert [output_of(racer) for racer in passes] == [[], []]
    edits = [text for editor in editors for text in output_of(editor)]
    assert edits
    written = MemoryVersion.objects.filter(origin="person").values_list("content", flat=True)
    assert sorted(written) == sorted(edits)
    for _ in range(2):
        assert run_pass(workspace, MONDAY + 3 * DAY).errors == []
    assert_complete(workspace)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in_call", "reply_saved", "in_commit"])
@pytest.mark.timeout(170)
def test_the_next_pass_continues_a_killed_one(
    start: Start, process_environment: dict[str, str], tmp_path: Path, where: str
) -> None:
    process_environment["MEMORYHUB_LLM_CONCURRENCY"] = "1"
    process_environment["MEMORYHUB_FAIL_POINTS"] = str(tmp_path)
    (tmp_path / f"{where}.1").write_text("kill")
    now = MONDAY + 2 * DAY
    workspace = workspace_with_talk(channels=1, days=2)
    racer = start("pass", now.isoformat())
    go(racer)
    assert racer.wait(timeout=120) == -signal.SIGKILL
    replied = list(Job.objects.filter(state="replied"))
    assert len(replied) == (where != "in_call")
    run_pass(workspace, now)
    claimed = Job.objects.filter(state="claimed")
    assert claimed.exists() is (where != "reply_saved")
    claimed.update(lease_until=timezone.now() - DAY)
    assert run_pass(workspace, now).errors == []
    assert_complete(workspace)
    assert not Job.objects.filter(pk__in=[g.pk for g in replied]).exclude(attempts=1)


def is_locked(memory: Memory) -> bool:
    """Whether another session could not write this row now."""

    def look() -> bool:
        try:
            with transaction.atomic():
                Memory.objects.select_for_update(nowait=True).get(pk=memory.pk)
        except OperationalError:
            return True
        finally:
            connection.close()
        return False

    with ThreadPoolExecutor(1) as executor:
        return executor.submit(look).result()


# On SQLite each transaction locks the whole database.
needs_row_locks = pytest.mark.postgres("SQLite has one lock for all", only=True)


@needs_row_locks
def test_a_memory_is_locked_while_a_version_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = workspace_with_talk(channels=1, days=1)
    seen = []
    write = write_version._write_segment

    def look(job: Job, *arguments: Any) -> Any:
        seen.append(is_locked(job.memory))
        return write(job, *arguments)

    monkeypatch.setattr(write_version, "_write_segment", look)
    run_pass(workspace, MONDAY + DAY)
    assert seen == [True]


@needs_row_locks
def test_a_memory_is_locked_while_an_edit_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = make_channel_memory(channel=ChannelFactory(), memory_type=MemoryType.SHORT_TERM)
    seen = []
    revise_lines = memories.revise_lines

    def look(*arguments: Any) -> Any:
        seen.append(is_locked(memory))
        return revise_lines(*arguments)

    monkeypatch.setattr(memories, "revise_lines", look)
    memory.revise("- something else", by=None, based_on=1)
    assert seen == [True]
