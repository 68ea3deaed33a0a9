"""How far a long command is: in place on a terminal, else a line every few seconds."""

import time

from django.core.management.base import OutputWrapper

SECONDS = 5.0
SECONDS_TERMINAL = 0.2


class Progress:
    def __init__(self, stderr: OutputWrapper) -> None:
        self._stderr = stderr
        self._on_terminal = stderr.isatty()
        self._told = time.monotonic()
        self._open = False

    def tell(self, what: str, done: int, of: int) -> None:
        every = SECONDS_TERMINAL if self._on_terminal else SECONDS
        if time.monotonic() - self._told < every:
            return
        self._told = time.monotonic()
        line = f"{what}: {done:,} of {of:,}"
        if self._on_terminal:
            self._stderr.write(f"\r\033[K{line}", ending="")
            self._open = True
        else:
            self._stderr.write(line)

    def end(self) -> None:
        """Take the last line back."""
        if self._open:
            self._stderr.write("\r\033[K", ending="")
            self._open = False
