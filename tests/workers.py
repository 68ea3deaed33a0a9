"""`manage.py worker` with its real cluster, for tests."""

import contextlib
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import psutil
from django.utils import timezone
from django_q.signing import SignedPackage

from tests.processes import alive_in_sessions, descendants, sessions_of, wait_until

ROOT = Path(__file__).resolve().parent.parent


def package(func: Any, *args: Any, name: str = "a task", **options: Any) -> str:
    """Return a signed package, as django-q2 queues it."""
    task = {"id": uuid.uuid4().hex, "name": name, "func": func, "args": args, "kwargs": {}}
    return str(SignedPackage.dumps({**task, "started": timezone.now(), **options}))


def leave_mark(where: Any) -> None:
    """Create a file. No worker may run this. A hook gets a task, whose name is the path."""
    Path(getattr(where, "name", where)).touch()


class RunsWhenRead:
    """An object whose pickle calls `leave_mark` when it is read."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __reduce__(self) -> Any:
        return leave_mark, (self.where,)


class RunningWorker:
    """A supervisor in a process, with its cluster and its watcher."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.log = log
        self.sessions: set[int] = set()
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "worker"],
                cwd=log.parent,  # outside of the checkout
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_until_it_is_up(self, workers: int = 2) -> None:
        """Wait until the cluster is complete, and all its workers wait for a task."""
        wait_until(lambda: self._is_up(workers), f"a whole cluster; see {self.log}")
        self.sessions |= sessions_of(descendants(self.process.pid))

    def _is_up(self, workers: int) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return len(self.idle()) == workers and len(self.cluster()) >= 4 + workers

    def cluster(self) -> list[psutil.Process]:
        """Return the main process, the sentinel and the others, oldest first."""
        members = []
        for process in descendants(self.process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "qcluster" in " ".join(process.cmdline()):
                    members.append((process.create_time(), process.pid, process))
        return [process for *_, process in sorted(members, key=lambda member: member[:2])]

    def idle(self) -> list[psutil.Process]:
        """Return the workers that wait for a task."""
        results = []
        for process in self.cluster():
            with contextlib.suppress(psutil.NoSuchProcess):
                if " ".join(process.cmdline()).strip().endswith(" idle"):
                    results.append(process)
        return results

    def leader(self) -> int:
        """Return the pid of the main process, which is also its session."""
        return os.getsid(self.cluster()[0].pid)

    def is_gone(self) -> bool:
        return not alive_in_sessions(self.sessions)

    def end(self) -> None:
        self.sessions |= sessions_of(descendants(self.process.pid))
        self.process.kill()
        self.process.wait()
        wait_until(self.is_gone, "nothing left")
