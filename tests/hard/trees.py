"""Real process trees of `manage.py serve` and `manage.py worker`, to be killed and frozen.

The caller adopts every orphan below it (Linux), so whatever the trees leave behind is found by
asking for the caller's own descendants, and nobody else's process is ever touched.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.hard.model_client import ROOT

PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Process:
    pid: int
    role: str  # such as "worker", "web" or "other"


def adopt_orphans() -> None:
    """From now on the orphans among our descendants become our children, not init's."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Trees:
    """Starts trees and knows all processes that came of them, whoever their parent is by now."""

    def __init__(self, work: Path, environment: Mapping[str, str]) -> None:
        self.work = work
        self.environment = dict(environment)
        self.roots: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.started = 0
        adopt_orphans()

    def start(self, kind: str) -> int:
        """One more tree, `serve` or `worker`; the pid of its supervisor."""
        arguments = ["serve", "--port", "0"] if kind == "serve" else [kind]
        self.started += 1
        with (self.work / f"{self.started:04d}-{kind}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.roots.append((kind, process))
        return process.pid

    def restart_the_dead(self) -> int:
        """As a service manager would: a tree whose supervisor is gone is started anew."""
        self.reap()
        dead = [(kind, process) for kind, process in self.roots if process.poll() is not None]
        self.roots = [root for root in self.roots if root not in dead]
        for kind, _ in dead:
            self.start(kind)
        return len(dead)

    def processes(self) -> list[Process]:
        """Every living process of all trees, with its role."""
        roots = {process.pid for _, process in self.roots}
        listed = []
        for process in self._descendants():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and (role := _role(process, roots)):
                    listed.append(Process(process.pid, role))
        return listed

    def _descendants(self) -> list[psutil.Process]:
        """Of the trees only: the caller's other children are its own."""
        roots = {process.pid for _, process in self.roots}
        children: list[psutil.Process] = []
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if child.pid in roots or _is_of_a_tree(child):
                    children += [child, *child.children(recursive=True)]
        return children

    def reap(self) -> None:
        """Bury the orphans we adopted; the roots are their Popen's."""
        roots = {process.pid for _, process in self.roots}
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if child.pid not in roots and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)

    def stop(self, patience: float = 45.0) -> int:
        """SIGTERM to the supervisors, as a service manager does; then whoever is left is killed.
        How many had to be."""
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        for _, root in self.roots:
            root.terminate()
        deadline = time.monotonic() + patience
        while self.processes() and time.monotonic() < deadline:
            for _, root in self.roots:
                root.poll()
            self.reap()
            time.sleep(0.05)
        left = self.processes()
        while self.processes():
            for process in self.processes():
                kill(process.pid)
            for _, root in self.roots:
                root.poll()
            self.reap()
        return len(left)


@contextlib.contextmanager
def trees(work: Path, environment: Mapping[str, str]) -> Iterator[Trees]:
    """Trees that are all gone afterwards, whatever happens between."""
    folder = work / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    made = Trees(folder, environment)
    try:
        yield made
    finally:
        made.stop(patience=0.0)


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """False when it was gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def local_ports(pid: int) -> list[int]:
    """Of the connections that this process holds."""
    with contextlib.suppress(psutil.Error):
        connections = psutil.Process(pid).net_connections("tcp4")
        return [connection.laddr.port for connection in connections if connection.raddr]
    return []


def _is_of_a_tree(child: psutil.Process) -> bool:
    """An orphan we adopted, not a server of the hard test's own."""
    title = " ".join(child.cmdline())
    return any(word in title for word in ("qcluster", "memoryhub.web", "watcher.py", "manage.py"))


def _role(process: psutil.Process, roots: set[int]) -> str:
    if process.pid in roots:
        return "supervisor"
    title = " ".join(process.cmdline()).strip()  # blanks fill the space of a longer command line
    if "watcher.py" in title:
        return "watcher"
    if "memoryhub.web" in title:
        return "web"
    if not title.startswith("qcluster") and "qcluster" not in title:
        return "other"
    if os.getsid(process.pid) == process.pid:
        return "main"
    if title.startswith("qcluster MainProcess"):
        return "sentinel"
    for helper in ("monitor", "pusher"):
        if title.endswith(helper):
            return helper
    return "worker"
