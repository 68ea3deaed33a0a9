"""Keep child processes running together, and leave none behind.

Each child leads a session of its own, so Ctrl-C in the terminal reaches only the supervisor. It sends
SIGTERM only to the children: a qcluster hangs if all of its processes get a signal. After a time limit it
kills the whole process group, because the processes of a dead qcluster would continue.
`watcher.py` does the same if the supervisor is killed.
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from memoryhub import watcher
from memoryhub.env import BASE_DIR

logger = logging.getLogger(__name__)

STOP_SECONDS = 30.0
"""The time for a child to finish its work after SIGTERM. Service managers must allow more."""
YOUNG_SECONDS = 10.0
"""A child that ends earlier has failed to start."""
MAX_FAILED_STARTS = 5
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ChildFailedError(Exception):
    """A child failed to start MAX_FAILED_STARTS times."""


@dataclass
class Child:
    """A command that is kept running.

    ``hangs`` takes the age of the process in seconds and is called every ``poll_seconds``. ``env`` is
    added to the environment. The pause before a restart is at most three times ``young_seconds``.
    ``niceness`` is added to the own one: the process gives way to others.
    """

    name: str
    command: Sequence[str]
    pass_fds: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    hangs: Callable[[float], bool] | None = None
    poll_seconds: float = 15.0
    young_seconds: float = YOUNG_SECONDS
    niceness: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started_at: float = field(default=0.0, init=False)
    restart_at: float = field(default=0.0, init=False)
    failed_starts: int = field(default=0, init=False)
    has_started: bool = field(default=False, init=False)

    def start(self, now: float) -> int:
        """Start the process, and return its pid."""
        self.process = subprocess.Popen(
            self.command,
            cwd=BASE_DIR,
            stdin=subprocess.DEVNULL,
            pass_fds=self.pass_fds,
            env={**os.environ, **self.env},
            start_new_session=True,
        )
        if self.niceness:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                own = os.getpriority(os.PRIO_PROCESS, 0)
                os.setpriority(os.PRIO_PROCESS, self.process.pid, own + self.niceness)
        self.started_at = now
        return self.process.pid

    def record_end(self, now: float, code: int) -> None:
        """Set the time of the restart: at once, or after a pause that grows with each failed start.

        Raise ``ChildFailedError`` for a child that has never started: its settings are wrong. A child
        that has worked before may wait for something that returns, like the database.
        """
        self.process = None
        is_young = now - self.started_at < self.young_seconds
        self.failed_starts = min(self.failed_starts + 1, 100) if is_young else 0
        self.has_started = self.has_started or not is_young
        if self.failed_starts >= MAX_FAILED_STARTS and not self.has_started:
            raise ChildFailedError(
                f"{self.name} ended {self.failed_starts} times right after its start"
                f" (last exit status {code}); see its log lines above"
            )
        pause = min(2.0 ** (self.failed_starts - 1), 3 * self.young_seconds) if is_young else 0.0
        self.restart_at = now + pause
        logger.warning("%s ended with status %d; restart in %.0f s", self.name, code, pause)


class Supervisor:
    """Run children until a stop signal. `run` returns when all of their processes have ended."""

    def __init__(self, children: Sequence[Child], *, stop_seconds: float = STOP_SECONDS) -> None:
        self.children = children
        self.stop_seconds = stop_seconds
        self.stop_signals = 0
        self._watcher: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        with self._signals() as wake:
            try:
                self._start_watcher()
                while not self.stop_signals:
                    self._check_children()
                    wake.select(timeout=self._seconds_until_next_check())
                    _drain(wake)
            finally:
                self._stop_all(wake)

    def _check_children(self) -> None:
        """Restart the watcher and each child that has ended. Kill a child that hangs."""
        now = time.monotonic()
        if self._watcher is None or self._watcher.poll() is not None:
            self._start_watcher()
        for child in self.children:
            if child.process is not None and (code := child.process.poll()) is not None:
                leader = child.process.pid
                watcher.signal_group(leader, signal.SIGKILL)
                self._write_to_watcher(f"-{leader}")
                child.record_end(now, code)
            elif child.process is not None and child.hangs and child.hangs(now - child.started_at):
                logger.error("%s hangs; killing it", child.name)
                watcher.signal_group(child.process.pid, signal.SIGKILL)
            if child.process is None and now >= child.restart_at:
                leader = child.start(now)
                self._write_to_watcher(f"+{leader}")
                logger.info("%s started, pid %d", child.name, leader)

    def _seconds_until_next_check(self) -> float | None:
        now = time.monotonic()
        waits = [max(0.0, child.restart_at - now) for child in self.children if not child.process]
        waits += [child.poll_seconds for child in self.children if child.hangs]
        return min(waits, default=None)

    def _stop_all(self, wake: selectors.BaseSelector) -> None:
        """Send SIGTERM to the children, and SIGKILL to their groups after the time limit or a second
        stop signal."""
        running = {c.process.pid: c.process for c in self.children if c.process is not None}
        for process in running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        signals_before = self.stop_signals
        deadline = time.monotonic() + self.stop_seconds
        while any(process.poll() is None for process in running.values()):
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0 or self.stop_signals > max(1, signals_before):
                logger.warning("killing the processes that have not stopped")
                break
            wake.select(timeout=seconds_left)
            _drain(wake)
        for leader, process in running.items():
            watcher.signal_group(leader, signal.SIGKILL)
            process.wait()
            self._write_to_watcher(f"-{leader}")
        if self._watcher is not None and self._watcher.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._watcher.stdin.close()
            self._watcher.wait()

    def _start_watcher(self) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", os.fspath(Path(watcher.__file__))],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        for child in self.children:
            if child.process is not None:
                self._write_to_watcher(f"+{child.process.pid}")

    def _write_to_watcher(self, line: str) -> None:
        if self._watcher is not None and self._watcher.stdin is not None:
            # The next check replaces a dead watcher and writes all children to it.
            with contextlib.suppress(BrokenPipeError):
                self._watcher.stdin.write(f"{line}\n".encode())
                self._watcher.stdin.flush()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[selectors.BaseSelector]:
        """Count stop signals. They and the end of a child wake the returned selector."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)

        def on_stop(number: int, frame: FrameType | None) -> None:
            self.stop_signals += 1

        def on_child(number: int, frame: FrameType | None) -> None:
            """Do nothing: the signal itself wakes the selector."""

        before = {number: signal.signal(number, on_stop) for number in STOP_SIGNALS}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, on_child)
        old_fd = signal.set_wakeup_fd(writer.fileno())
        selector = selectors.DefaultSelector()
        selector.register(reader, selectors.EVENT_READ)
        try:
            yield selector
        finally:
            signal.set_wakeup_fd(old_fd)
            for number, handler in before.items():
                signal.signal(number, handler)
            selector.close()
            reader.close()
            writer.close()


def _drain(selector: selectors.BaseSelector) -> None:
    for key, _ in selector.select(timeout=0):
        with contextlib.suppress(BlockingIOError):
            key.fileobj.recv(4096)  # type: ignore[union-attr]  # always the socket
