"""The supervisor with small real processes. It leaves none of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryhub.supervise import MAX_FAILED_STARTS, YOUNG_SECONDS, Child, ChildFailedError
from tests.processes import PATIENCE, alive_in_sessions, descendants, sessions_of, wait_until

pytestmark = pytest.mark.cluster

# A leader with a helper in its group. Each writes a file when it gets a signal. Only leaders may get one.
LEADER = """
import os, signal, sys
name, folder, stubborn = sys.argv[1], sys.argv[2], sys.argv[3] == "stubborn"
helper = os.fork() == 0
def stop(number, frame):
    open(f"{folder}/{name}-{'helper' if helper else 'leader'}-{number}", "w").close()
    if not stubborn:
        sys.exit(0)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
open(f"{folder}/{name}-{'helper' if helper else 'leader'}-{os.getpid()}-up", "w").close()
while True:
    signal.pause()
"""

SUPERVISE = """
import os, sys
from memoryhub.supervise import Child, Supervisor
leader, folder, behaviour = sys.argv[1:]
children = [Child(name, [sys.executable, "-c", leader, name, folder, behaviour]) for name in "ab"]
def hangs(age):
    try:
        os.unlink(f"{folder}/hang")
        return True
    except FileNotFoundError:
        return False
children[0].hangs, children[0].poll_seconds = hangs, 0.2
Supervisor(children, stop_seconds=1.0 if behaviour == "stubborn" else 30.0).run()
"""


class Run:
    """A supervisor in a process, with two leaders and their helpers."""

    def __init__(self, folder: Path, behaviour: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISE, LEADER, str(folder), behaviour],
            cwd=Path(__file__).parent.parent,
            start_new_session=True,
        )
        self.wait_for_up(4)
        self.sessions = sessions_of(descendants(self.process.pid))

    def up(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*-up"))

    def wait_for_up(self, count: int) -> None:
        wait_until(lambda: len(self.up()) >= count, f"{count} processes up")

    def leader(self, name: str) -> int:
        return int(next(up for up in self.up() if up.startswith(f"{name}-leader")).split("-")[2])

    def wait_until_nothing_is_left(self) -> None:
        wait_until(lambda: not alive_in_sessions(self.sessions), "no process left")


@pytest.fixture(params=["obedient"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    started = Run(tmp_path, request.param)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        started.wait_until_nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_reaches_only_leaders_and_leaves_no_process(
    run: Run, number: signal.Signals
) -> None:
    run.process.send_signal(number)
    assert run.process.wait(timeout=PATIENCE) == 0
    run.wait_until_nothing_is_left()
    arguments = {path.name for path in run.folder.iterdir()} - set(run.up())
    assert arguments == {f"a-leader-{signal.SIGTERM}", f"b-leader-{signal.SIGTERM}"}


@pytest.mark.parametrize("run", ["stubborn"], indirect=True)
def test_a_child_that_does_not_stop_is_killed_after_the_deadline(run: Run) -> None:
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(timeout=PATIENCE) == 0
    run.wait_until_nothing_is_left()


def test_a_killed_supervisor_leaves_no_process(run: Run) -> None:
    run.process.kill()
    run.process.wait()
    run.wait_until_nothing_is_left()
    assert (run.folder / f"a-leader-{signal.SIGTERM}").exists()


def test_a_dead_leader_is_replaced_and_its_group_is_cleared(run: Run) -> None:
    first = run.leader("a")
    os.kill(first, signal.SIGKILL)
    run.wait_for_up(6)
    wait_until(lambda: not alive_in_sessions({first}), "the old helper gone")
    assert alive_in_sessions({run.leader("b")})


def test_a_hanging_child_is_replaced(run: Run) -> None:
    first = run.leader("a")
    (run.folder / "hang").touch()
    run.wait_for_up(6)
    wait_until(lambda: not alive_in_sessions({first}), "the old group gone")
    assert not (run.folder / f"a-leader-{signal.SIGTERM}").exists()  # SIGTERM would not help


def test_a_child_that_never_starts_is_given_up() -> None:
    child = Child("web", ["false"])
    now = 0.0
    for _ in range(MAX_FAILED_STARTS - 1):
        child.record_end(now, 1)
        assert child.restart_at > now
        now = child.started_at = child.restart_at
    with pytest.raises(ChildFailedError, match="web ended 5 times right after its start"):
        child.record_end(now, 1)


def test_a_child_that_has_worked_is_always_restarted() -> None:
    """It may wait for a database. The pauses stay short."""
    child = Child("worker", ["false"], young_seconds=2.0)
    now = 0.0
    child.record_end(now + 2.0, 1)
    for _ in range(3 * MAX_FAILED_STARTS):
        now = child.started_at = child.restart_at
        child.record_end(now + 0.5, 1)
    assert child.restart_at - now == pytest.approx(0.5 + 3 * 2.0)


def test_a_child_that_ends_late_is_restarted_at_once() -> None:
    child = Child("web", ["false"])
    for death in range(3 * MAX_FAILED_STARTS):
        child.started_at = death * 1000.0
        died_at = child.started_at + YOUNG_SECONDS
        child.record_end(died_at, 1)
        assert child.restart_at == died_at


def test_a_worker_gives_way_to_the_web_processes() -> None:
    child = Child("worker", ["sleep", "60"], niceness=5)
    pid = child.start(0.0)
    assert child.process is not None
    try:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(own + 5, 19)
    finally:
        child.process.kill()
        child.process.wait()
