"""How far a long command is, on stderr: in place on a terminal, else a line every few seconds."""

import time
from collections.abc import Callable

from django.core.management.base import OutputWrapper

SECONDS = 5.0
SECONDS_ON_TERMINAL = 0.2
STOPPED = 130  # exit status: ended by Ctrl-C

_BEGINNING = "\r\033[K"  # of the line, which is wiped


class ProgressLine:
    """``say`` it as often as there is news; ``end`` takes the last line back."""

    def __init__(self, stderr: OutputWrapper) -> None:
        self._stderr = stderr
        self._on_terminal = stderr.isatty()
        self._said_at = time.monotonic()
        self._is_open = False

    def say(self, words: Callable[[], str]) -> None:
        """``words`` are asked for only when it is time to show them."""
        every = SECONDS_ON_TERMINAL if self._on_terminal else SECONDS
        if time.monotonic() - self._said_at < every:
            return
        line = words()
        self._said_at = time.monotonic()
        if self._on_terminal:
            self._stderr.write(f"{_BEGINNING}{line}", ending="")
            self._is_open = True
        else:
            self._stderr.write(line)

    def share(self, what: str, done: int, of: int) -> None:
        self.say(lambda: f"{what}: {done:,} of {of:,}")

    def rows(self, where: str, seen: int) -> None:
        self.say(lambda: f"{seen:,} rows, {where}")

    def end(self) -> None:
        if self._is_open:
            self._stderr.write(_BEGINNING, ending="")
            self._is_open = False
