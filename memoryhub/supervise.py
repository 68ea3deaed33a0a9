"""Keep some processes running together, and leave none behind.

Each child leads a session of its own. So a Ctrl-C in the terminal reaches only the supervisor,
which asks the leaders alone to stop: a qcluster whose every process is signalled hangs, and one whose
leader dies leaves five processes at work. After a deadline the whole group is killed.
When the supervisor itself is killed, `watcher.py` does the same in its place.
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
"""How long a child may finish its work after SIGTERM. Service managers must allow more."""
YOUNG_SECONDS = 10.0
"""A child that dies younger than this did not really start."""
MAX_FALSE_STARTS = 5
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ChildFailedError(Exception):
    """A child died again and again right after its start."""


@dataclass
class Child:
    """A command that is kept running: `start` it, and `again_at` says when after a death.

    `hangs` is told the child's age in seconds and says whether it lives without working; it is
    asked every `look_seconds`. `env` is added to the environment. The pause before another start
    is at most three times `young_seconds`.
    """

    name: str
    command: Sequence[str]
    pass_fds: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    hangs: Callable[[float], bool] | None = None
    look_seconds: float = 15.0
    young_seconds: float = YOUNG_SECONDS
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started_at: float = field(default=0.0, init=False)
    again_at: float = field(default=0.0, init=False)
    false_starts: int = field(default=0, init=False)
    has_lived: bool = field(default=False, init=False)

    def start(self, now: float) -> int:
        self.process = subprocess.Popen(
            self.command,
            cwd=BASE_DIR,  # whatever folder it was called from
            stdin=subprocess.DEVNULL,
            pass_fds=self.pass_fds,
            env={**os.environ, **self.env},
            start_new_session=True,
        )
        self.started_at = now
        return self.process.pid

    def note_death(self, now: float, code: int) -> None:
        """Set when to start again: at once after a long life, later and later after short ones.

        What has never lived gives up after some tries: its settings are wrong. What has, misses
        something that will be back, like the database.
        """
        self.process = None
        young = now - self.started_at < self.young_seconds
        self.false_starts = min(self.false_starts + 1, 100) if young else 0
        self.has_lived = self.has_lived or not young
        if self.false_starts >= MAX_FALSE_STARTS and not self.has_lived:
            raise ChildFailedError(
                f"{self.name} ended {self.false_starts} times right after its start"
                f" (last exit status {code}); its own lines above say why"
            )
        pause = min(2.0 ** (self.false_starts - 1), 3 * self.young_seconds) if young else 0.0
        self.again_at = now + pause
        logger.warning("%s ended with status %d; again in %.0f s", self.name, code, pause)


class Supervisor:
    """Runs the children until a stop signal comes; returns only when all their processes are gone."""

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
                    self._look_after_children()
                    wake.select(timeout=self._seconds_until_next_look())
                    _drain(wake)
            finally:
                self._stop_all(wake)

    def _look_after_children(self) -> None:
        now = time.monotonic()
        if self._watcher is None or self._watcher.poll() is not None:
            self._start_watcher()
        for child in self.children:
            if child.process is not None and (code := child.process.poll()) is not None:
                leader = child.process.pid
                # Its leader is gone, the rest of the group would work on without a head.
                watcher.signal_group(leader, signal.SIGKILL)
                self._tell_watcher(f"-{leader}")
                child.note_death(now, code)
            elif child.process is not None and child.hangs and child.hangs(now - child.started_at):
                logger.error("%s hangs; killing it", child.name)
                watcher.signal_group(child.process.pid, signal.SIGKILL)
            if child.process is None and now >= child.again_at:
                leader = child.start(now)
                self._tell_watcher(f"+{leader}")
                logger.info("%s started, pid %d", child.name, leader)

    def _seconds_until_next_look(self) -> float | None:
        now = time.monotonic()
        waits = [max(0.0, child.again_at - now) for child in self.children if not child.process]
        waits += [child.look_seconds for child in self.children if child.hangs]
        return min(waits, default=None)

    def _stop_all(self, wake: selectors.BaseSelector) -> None:
        """SIGTERM to the leaders; after the deadline, or a second signal, SIGKILL to the groups."""
        running = {c.process.pid: c.process for c in self.children if c.process is not None}
        for process in running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        patience = self.stop_signals
        deadline = time.monotonic() + self.stop_seconds
        while any(process.poll() is None for process in running.values()):
            left = deadline - time.monotonic()
            if left <= 0 or self.stop_signals > max(1, patience):
                logger.warning("killing what did not stop by itself")
                break
            wake.select(timeout=left)
            _drain(wake)
        for leader, process in running.items():
            watcher.signal_group(leader, signal.SIGKILL)
            process.wait()
            self._tell_watcher(f"-{leader}")
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
                self._tell_watcher(f"+{child.process.pid}")

    def _tell_watcher(self, line: str) -> None:
        if self._watcher is not None and self._watcher.stdin is not None:
            # A dead watcher is replaced at the next look and told of all children.
            with contextlib.suppress(BrokenPipeError):
                self._watcher.stdin.write(f"{line}\n".encode())
                self._watcher.stdin.flush()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[selectors.BaseSelector]:
        """Count stop signals and wake the returned selector on them and on a child's death."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)

        def on_stop(number: int, frame: FrameType | None) -> None:
            self.stop_signals += 1

        def on_child(number: int, frame: FrameType | None) -> None:
            """Only wakes: the loop asks each child."""

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
