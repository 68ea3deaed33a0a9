"""The progress of a long command, on stderr."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from django.core.management.base import CommandError, OutputWrapper
from django.db import DatabaseError

from memories.pipeline.search import indexing

SECONDS = 5.0  # between two lines
SECONDS_ON_TERMINAL = 0.2
STOPPED = 130  # exit status after Ctrl-C

_CLEAR_LINE = "\r\033[K"


def index_saved_texts(stderr: OutputWrapper) -> None:
    """Update the search index after a command. Its result is saved, whatever happens here."""
    try:
        indexing.index_pending()
    except (DatabaseError, KeyboardInterrupt):
        stderr.write("Everything is saved. A worker completes the search index.")


class ProgressLine:
    """One line that is rewritten on a terminal, and new lines elsewhere.

    As a context manager it clears the line at the end, and turns Ctrl-C into a ``CommandError`` with
    the text ``on_interrupt`` and status 130.
    """

    def __init__(self, stderr: OutputWrapper, on_interrupt: str = "") -> None:
        self._stderr = stderr
        self._on_interrupt = on_interrupt
        self._is_terminal = stderr.isatty()
        self._shown_at = time.monotonic()
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_open:
            self._stderr.write(_CLEAR_LINE, ending="")
            self._is_open = False
        if isinstance(error, KeyboardInterrupt):
            raise CommandError(self._on_interrupt, returncode=STOPPED) from error

    def show(self, build_text: Callable[[], str]) -> None:
        """Show the text if the last one is old enough. Only then call ``build_text``."""
        pause = SECONDS_ON_TERMINAL if self._is_terminal else SECONDS
        if time.monotonic() - self._shown_at < pause:
            return
        text = build_text()
        self._shown_at = time.monotonic()
        if self._is_terminal:
            self._stderr.write(f"{_CLEAR_LINE}{text}", ending="")
            self._is_open = True
        else:
            self._stderr.write(text)

    def show_share(self, name: str, done: int, total: int) -> None:
        self.show(lambda: f"{name}: {done:,} of {total:,}")

    def show_rows(self, name: str, count: int) -> None:
        self.show(lambda: f"{count:,} rows, {name}")
